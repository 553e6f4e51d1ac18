"""The paragraph on methods: English with the numbers of the study, for any task."""

from pathlib import Path

import sentence_studies as made
from studies_on_disk import begin, finish, make_study

from tracking.statistics.findings import find
from tracking.statistics.rows import table
from tracking.study import Study
from tracking.table.caption import methods


def paragraph(study: Study) -> str:
    rows = table(study)
    return methods(study, find(study, rows, "base", sentences=True), [row.row for row in rows])


def test_with_three_seeds_tests_over_seeds_are_told(tmp_path: Path) -> None:
    study = made.make(tmp_path / "reading", {"base": 0.5, "deep": 0.7, "wide": 0.8}, (1, 2, 3))
    assert paragraph(study) == (
        "In an ablation study of reading, we trained the configuration base (4.810K parameters) and two variants of "
        "it, each with one named change, with three random seeds each. "
        "We report accuracy and memory on the dev set, as means over seeds. "
        "Differences from base in accuracy are tested over seeds by t-tests with moderated variances (Smyth, 2004) and "
        "Satterthwaite's degrees of freedom, with Holm's correction (2 rows, 5 % for the family); their 95 % intervals "
        "have Bonferroni's."
    )


def test_with_one_seed_only_samples_can_be_told(tmp_path: Path) -> None:
    text = paragraph(made.make(tmp_path / "reading", {"base": 0.5, "deep": 0.7}, (1,)))
    assert "one variant of it, each with one named change, with one random seed each" in text
    assert "With too few seeds for a test over seeds, chance over samples" in text
    assert text.endswith("it says nothing of other seeds.")
    assert "Smyth" not in text


def test_a_translation_names_its_settings_and_signature(tmp_path: Path) -> None:
    study = make_study(tmp_path / "translated", {"base": [1], "a_heads_1": [1]})
    for trial in study.trials:
        finish(study, trial, begin(study.trial_folder(trial)), 30)
    text = paragraph(study)
    assert "In an ablation study of translation, we trained the configuration base (N 6, d_model 512," in text
    assert "63.046M parameters" in text
    assert "PPL and BLEU on the dev set (beam 4, α 0.6, " in text
    assert "[BLEU nrefs:1]" in text
