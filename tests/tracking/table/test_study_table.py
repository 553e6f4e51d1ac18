"""Means, differences and states of a study's rows, the formats that print them, and the paragraph
on methods.

Scores of rows or seeds with different settings of `decode` are not compared.
"""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scoring_studies
import sentence_studies as made
from studies_on_disk import begin, finish, make_study
from tables import by_name, scored, shown, table_text

from tracking.statistics.study_findings import find
from tracking.statistics.table_rows import table
from tracking.study import Study
from tracking.table import layout
from tracking.table.caption import methods
from tracking.table.study_table import StudyTable, View, whole_table

HEADER = "row,group,change,seeds,steps,ppl,bleu,params,flops,paper_ppl,paper_bleu,paper_params_m"


@pytest.fixture
def mixed(tmp_path: Path) -> Study:
    """base: seeds 1 and 2 of 2; a_heads_1: 3 of 3 and 4, the other failed; c_layers_2: not
    begun."""
    study = make_study(tmp_path / "mixed", {"base": [1, 2], "a_heads_1": [3, 4], "c_layers_2": [1]})
    for trial, ppl, bleu in zip(study.trials, (4.0, 5.0, 6.0), (30.0, 32.0, 28.0), strict=False):
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl, bleu=bleu)
    failed_folder = study.trial_folder(study.trials[3])
    failed_folder.attempts.end(begin(failed_folder), "failed")
    failed_folder.write_error("CUDA out of memory | 3 GiB\nTraceback ...")
    return study


def test_means_and_differences_are_over_finished_seeds_of_both(mixed: Study) -> None:
    rows = by_name(mixed)
    base = rows["base"]
    heads = rows["a_heads_1"]
    assert (base.seeds, base.asked, base.scores["bleu"], base.notes.full) == (2, 2, 31.0, "")
    assert base.scores["ppl"] == pytest.approx(math.sqrt(20)), "e^ of the mean NLL"
    assert base.sd == {"ppl": pytest.approx(math.sqrt(0.5)), "bleu": pytest.approx(math.sqrt(2))}
    assert (heads.sd, heads.seed_values["ppl"]) == ({"ppl": None, "bleu": None}, {3: 6.0})
    assert (base.steps, base.costs.params, base.costs.seconds) == (30, 63_045_632, 3700.0)
    assert (base.comparison.deltas["ppl"], base.comparison.deltas["bleu"]) == (0.0, 0.0)
    assert (heads.seeds, heads.asked, heads.comparison.deltas["bleu"]) == (1, 2, -3.0), (
        "no seed needs to be in common"
    )
    assert heads.comparison.deltas["ppl"] == pytest.approx(6 - math.sqrt(20)), (
        "from the mean over all seeds of base"
    )
    assert heads.comparison.published_deltas == {"ppl": 0.37, "bleu": -0.9}
    assert heads.notes.full == "1 of 2 seeds; s4 FAILED: CUDA out of memory | 3 GiB"
    assert "Δ: difference from base, between means over all seeds of both" in table_text(
        "md", mixed
    )


def test_unfinished_seeds_in_the_same_state_share_their_words(tmp_path: Path) -> None:
    seeds = {"base": [1, 2, 3, 4, 5], "c_layers_2": [1, 3, 4]}
    study = make_study(tmp_path / "unfinished", seeds)
    for trial in study.trials:
        if trial.seed == 1:
            finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=4.0, bleu=30.0)
    begin(study.trial_folder(study.trials[1]))
    rows = by_name(study)
    assert rows["base"].notes.full == "1 of 5 seeds; s2 running; s3 to s5 missing"
    assert rows["base"].notes.brief == "1 of 5 seeds; s2 running", (
        "the number shows what is missing"
    )
    assert rows["c_layers_2"].notes.full == "1 of 3 seeds; s3, s4 missing"
    assert rows["c_layers_2"].notes.brief == "1 of 3 seeds"


def test_running_interrupted_and_failed_rows_are_marked(study: Study) -> None:
    folders = [study.trial_folder(trial) for trial in study.trials]
    begin(folders[0])
    folders[1].attempts.end(begin(folders[1]), "interrupted")
    folders[2].attempts.end(begin(folders[2]), "failed")
    folders[2].write_error("ValueError: no")
    assert [row.notes.full for row in table(study)] == [
        "running",
        "interrupted",
        "FAILED: ValueError: no",
    ]


def test_a_result_of_another_key_does_not_count(study: Study) -> None:
    second_trial = study.trials[1]
    study.trial_folder(study.trials[0]).write_result(
        {"key": second_trial.key, "step": 1, "scores": {}}
    )
    assert table(study)[0].seeds == 0


def test_a_score_that_is_not_finite_is_not_left_out_of_the_mean(tmp_path: Path) -> None:
    study = make_study(tmp_path / "diverged", {"base": [1, 2]})
    for trial, ppl in zip(study.trials, (4.0, float("inf")), strict=True):
        finish(study, trial, begin(study.trial_folder(trial)), 30, ppl=ppl)
    (row,) = table(study)
    assert (row.seeds, row.scores["ppl"], row.scores["bleu"]) == (2, None, 30.0)
    assert "not finite" in table_text("md", study)


def test_csv_starts_with_the_contract_and_json_has_the_same_numbers(mixed: Study) -> None:
    text = table_text("csv", mixed)
    assert text.startswith(HEADER + ",")
    base, heads, layers = csv.DictReader(io.StringIO(text))
    assert (base["steps"], base["params"], base["bleu"]) == ("30", "63045632", "31")
    assert [base[f"ppl_s{seed}"] for seed in (1, 2)] == ["4", "5"]
    assert (heads["ppl_s3"], heads["ppl_s1"], heads["sd_ppl"], heads["paper_params_m"]) == (
        "6",
        "",
        "",
        "",
    )
    assert {
        layers[name] for name in ("steps", "ppl", "params", "flops", "seconds", "delta_ppl")
    } == {"missing"}
    rows = json.loads(table_text("json", mixed))
    assert [row["bleu"] for row in rows] == [31.0, 28.0, None]
    assert rows[0]["seed_values"] == {"ppl": {"1": 4.0, "2": 5.0}, "bleu": {"1": 30.0, "2": 32.0}}
    assert (rows[0]["sd_bleu"], rows[1]["sd_bleu"]) == (pytest.approx(math.sqrt(2)), None)
    assert rows[1]["cells"] == {"n_heads": 1, "d_k": 512, "d_v": 512}


def test_markdown_and_latex_have_the_columns_and_words_of_the_terminal(mixed: Study) -> None:
    lines = table_text("md", mixed).splitlines()
    cells = []
    for line in lines[:5]:
        fields = line.replace("\\|", "/").split("|")[1:-1]
        cells.append([field.strip() for field in fields])
    head, _, base, heads, layers = cells
    columns = [
        "change",
        "PPL",
        "ΔPPL",
        "paper Δ",
        "BLEU",
        "ΔBLEU",
        "paper Δ",
        "params",
        "FLOPs",
        "time",
    ]
    assert head == ["", *columns]
    assert {len(line) for line in cells} == {len(head)}
    assert base[1] == "base"
    assert heads[2:] == [
        "6.00",
        "+1.53",
        "+0.37",
        "28.0",
        "−3.0",
        "−0.9",
        "63.046M",
        "9.52e17",
        "1 h 01 min",
    ]
    assert layers[2:4] == ["missing", "–"]
    assert "measured on dev" in table_text("md", mixed)
    assert "Differences of rows with fewer than 3 seeds are not tested" in table_text("md", mixed)
    changes = [row.change for row in table(mixed)[1:]]
    assert [heads[1], layers[1]] == [f"{changes[0]}<br>1 of 2 seeds; s4 FAILED", changes[1]]
    for text in (shown(mixed, 200), table_text("tex", mixed)):
        assert all(word in text for word in ("params", "FLOPs", "time"))


def test_a_caption_speaks_of_shown_columns_alone(mixed: Study) -> None:
    for text in ("FLOPs: ", "time: measured", "difference from base, between means"):
        assert text in table_text("md", mixed)
        assert text not in table_text("tex", mixed), "its caption is that of a paper"
    captions = {
        name: layout.table_text(
            "md", replace(whole_table(mixed, mixed.task.headline), view=View(columns=(name,)))
        )
        for name in ("bleu", "ppl_s1", "paper_ppl", "best_ppl")
    }
    assert any(
        line.startswith("BLEU: measured on dev, beam 4") for line in captions["bleu"].splitlines()
    )
    assert [name for name, text in captions.items() if "measured on" in text] == ["bleu", "ppl_s1"]
    assert [name for name, text in captions.items() if "±: standard" in text] == ["bleu"]
    assert "best PPL: the best value measured during training" in captions["best_ppl"]
    assert not any("Δ" in text for text in captions.values())


# a row's settings that are not base's, its differences in PPL and BLEU, and its note
OTHERS: list[tuple[Mapping[str, Any], tuple[float | None, float | None], str]] = [
    ({"beam": 8}, (0.0, None), "decode.beam 8, not 4"),
    ({"bleu_tokenizer": "zh"}, (0.0, None), "data.bleu_tokenizer zh, not default"),
    (
        {"average_checkpoints": 5, "alpha": 1.0},  # other weights
        (None, None),
        "decode.alpha 1.0, not 0.6; decode.average_checkpoints 5, not 1",
    ),
]


@pytest.mark.parametrize(("other", "deltas", "note"), OTHERS)
def test_a_row_scored_with_other_settings_has_no_difference_that_they_change(
    tmp_path: Path, other: Mapping[str, float], deltas: tuple[float | None, float | None], note: str
) -> None:
    study = scored(
        tmp_path / "other", ("base", 1, {}), ("a_heads_1", 1, other), ("c_layers_2", 1, {})
    )
    base, heads, layers = table(study)
    assert (
        (heads.comparison.deltas["ppl"], heads.comparison.deltas["bleu"]),
        heads.notes.full,
    ) == (deltas, note)
    assert (heads.scores["bleu"], base.notes.full, layers.notes.full) == (30.0, "", "")
    restated = replace(study, cells={**study.cells, "a_heads_1": dict(other)})
    assert by_name(restated)["a_heads_1"].notes.full == "", "the row is about these settings"


def test_a_caption_names_the_settings_and_a_cell_what_is_not_compared(tmp_path: Path) -> None:
    plain_study = scored(tmp_path / "usual", ("base", 1, {}), ("a_heads_1", 1, {}))
    averaged = scored(tmp_path / "averaged", ("base", 1, {"beam": 8, "average_checkpoints": 5}))
    for text in (table_text("md", plain_study), " ".join(shown(plain_study).split())):
        assert "measured on dev, beam 4, α 0.6, last checkpoint; BLEU: sacreBLEU's 13a" in text
        assert "decode" not in text
    caption = "on the dev set (beam 4, α 0.6, last checkpoint) [BLEU nrefs:1]."
    assert caption in paragraph(plain_study)
    assert "on dev, beam 8, α 0.6, mean of the last 5 checkpoints;" in table_text("md", averaged)
    study = scored(
        tmp_path / "beams",
        ("a_heads_1", 1, {}),
        ("base", 1, {"beam": 8}),
        ("c_layers_2", 1, {"beam": 8}),
    )
    text = table_text("md", study)
    assert "decode.beam 4, not 8 | 4.50 | 0.00 |" in text
    assert "measured on dev, beam 8," in text
    assert ",0,other settings," in table_text("csv", study)
    assert "decode.beam 4, not 8" in shown(study)
    assert json.loads(table_text("json", study))[0]["other_decode"] == ["beam"]


def test_a_row_that_only_scoring_sets_apart_is_to_be_scored_again(tmp_path: Path) -> None:
    study = scored(
        tmp_path / "beams",
        *(("base", seed, {}) for seed in (1, 2, 3)),
        ("a_heads_1", 1, {"beam": 8}),
    )
    text = layout.table_text("md", whole_table(study))
    assert "decode.beam 8, not 4: a_heads_1. For a fair comparison, score these rows" in text


def test_a_power_line_is_about_shown_rows_alone(tmp_path: Path) -> None:
    study = scoring_studies.make(tmp_path / "scoring")
    table_of_study = whole_table(study)
    trained = ("base", "deep", "big")
    shown_rows = [row for row in table_of_study.rows if row.row in trained]
    whole = layout.table_text("md", table_of_study)
    text = layout.table_text("md", replace(table_of_study, rows=shown_rows))
    assert "BLEU with base's weights: 80 % power" in whole
    assert "BLEU: 80 % power" in text
    assert "weights: 80 % power" not in text


def test_undecided_rows_with_enough_seeds_need_no_more(tmp_path: Path) -> None:
    """Their seeds have 80 % power for δ, but their difference is near it."""
    bleu = {
        "base": [37.1, 37.3, 36.9, 37.1, 37.0],
        "a_heads_1": [36.75, 37.0, 36.85],
        "c_layers_2": [36.8, 37.15, 36.75],
    }
    seeds = {row: list(range(1, len(values) + 1)) for row, values in bleu.items()}
    study = make_study(tmp_path / "near", seeds)
    for trial in study.trials:
        score = bleu[trial.row][trial.seed - 1]
        finish(study, trial, begin(study.trial_folder(trial)), 30, bleu=score)
    text = layout.table_text("md", whole_table(replace(study, margins={"bleu": 0.5})))
    line = next(line for line in text.splitlines() if "Undecided" in line)
    assert line.endswith(
        "Undecided although the seeds give 80 % power at a difference of δ: a_heads_1, c_layers_2."
    )
    assert "need 3 seeds" not in text


def test_seeds_with_and_without_a_setting_are_mixed(tmp_path: Path) -> None:
    settings = [("base", 1, {}), ("a_heads_1", 1, {}), ("a_heads_1", 2, {"bleu_tokenizer": "zh"})]
    heads = by_name(scored(tmp_path / "mixed", *settings))["a_heads_1"]
    assert (heads.scores, heads.comparison.deltas["bleu"]) == ({"ppl": 4.5, "bleu": None}, None)
    assert heads.mixed_decode == ("bleu_tokenizer",)
    assert heads.notes.full == "seeds mix data.bleu_tokenizer default, zh"


def paragraph(study: Study) -> str:
    rows = table(study)
    return methods(StudyTable(study, rows, find(study, rows, "base")))


def test_with_three_seeds_tests_over_seeds_are_told(tmp_path: Path) -> None:
    study = made.make(tmp_path / "reading", {"base": 0.5, "deep": 0.7, "wide": 0.8}, (1, 2, 3))
    assert paragraph(study) == (
        "In an ablation study of reading, we trained the configuration base (4.810K parameters) "
        "and two variants of "
        "it, each with one named change, with three random seeds each. "
        "We report accuracy and memory on the dev set, as means over seeds. "
        "Differences from base in accuracy are tested over seeds by t-tests with moderated "
        "variances (Smyth, 2004) and "
        "Satterthwaite's degrees of freedom, with Holm's correction (2 rows, "
        "5 % for the family); their 95 % intervals "
        "use Bonferroni's correction."
    )
