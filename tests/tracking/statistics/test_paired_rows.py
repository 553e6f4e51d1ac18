"""Rows that score another row's weights differ from it seed by seed; trained rows do where the
study is paired."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scoring_studies as made
from scipy import stats
from tables import by_name

from tracking.mlflow.describe import Described
from tracking.statistics.references import hosts_of
from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.seeds.paired_tests import (
    PairedPower,
    independent_rows,
    paired_differences,
    paired_exponential_intervals,
    products,
    residuals,
)
from tracking.statistics.seeds.seed_tests import intervals
from tracking.study import NEUTRAL, Study, read_study
from tracking.table import layout
from tracking.table.caption import methods
from tracking.table.study_table import StudyTable, whole_table


def as_json(study: Study) -> dict[str, dict[str, Any]]:
    rows = json.loads(layout.table_text("json", whole_table(study)))
    return {row["row"]: row for row in rows}


def differences_of(row: str, host: str) -> list[float]:
    return [score - made.BLEU[host][seed] for seed, score in made.BLEU[row].items()]


def test_a_scoring_row_differs_from_its_host_by_a_paired_t_of_its_own_family(
    tmp_path: Path,
) -> None:
    rows = as_json(made.make(tmp_path / "study"))
    beams = ["beam_1", "beam_8"]
    by_hand = [stats.ttest_1samp(differences_of(row, "base"), 0.0).pvalue for row in beams]
    low, high = sorted(by_hand)
    holm = {min(by_hand): 2 * low, max(by_hand): max(2 * low, high)}
    for row, p in zip(beams, by_hand, strict=True):
        assert rows[row]["delta_bleu"] == pytest.approx(float(np.mean(differences_of(row, "base"))))
        assert rows[row]["p_bleu"] == pytest.approx(min(1.0, holm[p])), (
            "two rows: a plain paired t, Holm over these"
        )
        assert (rows[row]["reference"], rows[row]["weights"], rows[row]["paired"]) == (
            "base",
            "base",
            True,
        )
    assert rows["beam_1"]["finding_bleu"] == "worse"
    assert (
        rows["beam_1"]["low_bleu"] < rows["beam_1"]["delta_bleu"] < rows["beam_1"]["high_bleu"] < 0
    )
    assert rows["beam_8"]["finding_bleu"].startswith("undecided")
    assert (rows["deep"]["reference"], rows["deep"]["paired"]) == ("base", False)


def test_a_row_that_scores_another_host_differs_from_that_one(tmp_path: Path) -> None:
    rows = as_json(made.make(tmp_path / "study"))
    scoring_row = rows["big_beam_1"]
    assert scoring_row["reference"] == scoring_row["weights"] == "big"
    assert scoring_row["delta_bleu"] == pytest.approx(
        float(np.mean(differences_of("big_beam_1", "big")))
    )
    assert scoring_row["p_bleu"] == pytest.approx(
        stats.ttest_1samp(differences_of("big_beam_1", "big"), 0.0).pvalue
    )


def test_trained_rows_are_tested_as_if_no_row_scored_their_weights(tmp_path: Path) -> None:
    trained = {row: seeds for row, seeds in made.BLEU.items() if row not in made.HOSTS}
    plain_rows = as_json(made.make(tmp_path / "a", trained))
    with_scoring = as_json(made.make(tmp_path / "b"))
    for row in ("deep", "big"):
        for column in ("delta_bleu", "p_bleu", "low_bleu", "high_bleu"):
            assert with_scoring[row][column] == plain_rows[row][column]


def test_differences_are_over_common_seeds_and_few_are_not_tested(tmp_path: Path) -> None:
    bleu = {
        "base": {1: 30.0, 2: 31.0, 3: 29.0, 4: 40.0},
        "beam_1": {1: 29.0, 2: 30.5},
        "beam_8": {3: 29.1},
    }
    study = made.make(tmp_path / "few", bleu)
    rows = as_json(study)
    assert rows["beam_1"]["delta_bleu"] == pytest.approx(-0.75), (
        "seed 4 of base is in no difference"
    )
    assert rows["beam_1"]["finding_bleu"] == "not tested: 2 seeds"
    text = layout.table_text("md", whole_table(study))
    assert "Δ uses the seeds in common with base, 1, 2: beam_1." in text
    apart_study = made.make(tmp_path / "apart", bleu | {"deep": {7: 29.0}}, paired=True)
    assert as_json(apart_study)["deep"]["delta_bleu"] is None
    assert "no common seed" in layout.table_text("csv", whole_table(apart_study))


SHIFTED = {seed: score - 0.5 for seed, score in made.BLEU["base"].items()}


@pytest.mark.parametrize(
    ("seeds", "beam_1", "paired", "reason"),
    [
        ((1,), made.BLEU["beam_1"], False, "1 seed"),
        ((1, 2), made.BLEU["beam_1"], False, "2 seeds"),
        ((1, 2, 3), SHIFTED, False, "the same difference at every seed"),
        ((1, 2), made.BLEU["beam_1"], True, "2 seeds"),
    ],
)
def test_what_cannot_be_tested_says_why(
    tmp_path: Path, seeds: Sequence[int], beam_1: Mapping[int, float], paired: bool, reason: str
) -> None:
    scores = {"base": made.BLEU["base"], "deep": made.BLEU["deep"], "beam_1": beam_1}
    bleu = {}
    for row, row_scores in scores.items():
        bleu[row] = {seed: row_scores[seed] for seed in seeds}
    study = made.make(tmp_path / "study", bleu, paired)
    rows = as_json(study)
    assert rows["beam_1"]["delta_bleu"] is not None
    assert (rows["beam_1"]["finding_bleu"], rows["beam_1"]["p_bleu"]) == (
        f"not tested: {reason}",
        None,
    )
    assert f"not tested ({reason})" in whole_table(study).findings.summary
    assert layout.table_text("tex", whole_table(study))
    assert methods(whole_table(study)).startswith("In an ablation study")


def diverge(study: Study, name: str) -> None:
    (trial,) = [trial for trial in study.trials if trial.name == name]
    folder = study.trial_folder(trial)
    result = json.loads(folder.result_path.read_text())
    folder.result_path.write_text(json.dumps({**result, "diverged": 12}))


def test_a_seed_at_which_the_host_diverged_is_in_no_difference(tmp_path: Path) -> None:
    study = made.make(
        tmp_path / "study", {row: made.BLEU[row] for row in ("base", "beam_1", "beam_8")}
    )
    diverge(study, "base-s2")
    row = as_json(study)["beam_1"]
    differences = [*differences_of("beam_1", "base")]
    del differences[1]
    assert row["delta_bleu"] == pytest.approx(float(np.mean(differences)))
    assert row["finding_bleu"] == "worse"
    text = layout.table_text("md", whole_table(study))
    assert "computed from the real lengths; Δ of rows that score base's weights: " in text, (
        "no other Δ is there"
    )
    assert "Δ uses the seeds in common with base, 1, 3 to 5: beam_1 and beam_8." in text


def test_a_trained_row_of_a_paired_study_with_a_diverged_seed_is_not_tested(tmp_path: Path) -> None:
    study = made.make(
        tmp_path / "study", {row: made.BLEU[row] for row in ("base", "deep")}, paired=True
    )
    diverge(study, "deep-s2")
    assert as_json(study)["deep"]["finding_bleu"] == "not tested: 1 of 5 diverged"


def test_equal_scores_are_no_difference_and_weaken_no_other_row(tmp_path: Path) -> None:
    bleu = {**made.BLEU, "beam_8": made.BLEU["base"]}
    rows = as_json(made.make(tmp_path / "equal", bleu))
    assert (rows["beam_8"]["delta_bleu"], rows["beam_8"]["finding_bleu"]) == (
        0.0,
        "not tested: same scores as base",
    )
    expected = stats.ttest_1samp(differences_of("beam_1", "base"), 0.0).pvalue
    assert rows["beam_1"]["p_bleu"] == pytest.approx(expected)


def test_first_line_and_caption_name_both_families(tmp_path: Path) -> None:
    table = whole_table(made.make(tmp_path / "study"))
    line = table.findings.summary
    assert "1 row better than base, 1 undecided (3 to 5 seeds)" in line
    assert "BLEU with base's weights: 1 row worse than base, 1 undecided (5 seeds). " in line
    assert line.endswith("BLEU with big's weights: 1 row worse than big (3 seeds)")
    assert "PPL with" not in line, "beams change no perplexity"
    text = layout.table_text("md", table)
    assert (
        "Seed by seed, 2 rows that score base's weights are compared with base at 5 seeds" in text
    )
    assert "Seed by seed, 1 row that scores big's weights is compared with big at 3 seeds" in text
    assert "Δ of rows that score the weights of base or big: difference from that row" in text
    assert "▼: worse than its reference." in text
    paragraph = methods(table)
    assert (
        "we trained the configuration base (N 6, 63.046M parameters) and two variants of it"
        in paragraph
    )
    assert "Three further rows score these weights with other settings" in paragraph
    assert "For rows that only score the weights of big, differences from big" in paragraph


def test_a_scoring_row_as_the_reference_is_compared_with_its_host_seed_by_seed(
    tmp_path: Path,
) -> None:
    from tracking.statistics.study_findings import find
    from tracking.statistics.table_rows import table

    study = made.make(tmp_path / "study")
    rows = table(study, "beam_1")
    base = next(row for row in rows if row.row == "base")
    assert (base.comparison.reference, base.comparison.paired) == ("beam_1", True)
    assert base.comparison.deltas["bleu"] == pytest.approx(
        -float(np.mean(differences_of("beam_1", "base")))
    )
    findings = find(study, rows, "beam_1")
    (metric,) = [metric for metric in study.task.tabled if metric.name == "bleu"]
    test = findings.test(base, metric)
    assert test is not None
    assert test.marked


def test_another_reference_changes_no_difference_from_a_host(tmp_path: Path) -> None:
    from tracking.statistics.table_rows import table

    study = made.make(tmp_path / "study", made.BLEU | {"big_alpha_1": {1: 33.4, 2: 34.6, 3: 32.5}})
    for reference in ("base", "beam_1"):
        (row,) = [row for row in table(study, reference) if row.row == "big_alpha_1"]
        assert row.comparison.deltas["bleu"] == pytest.approx(0.4), reference


def test_mlflow_has_the_difference_from_the_host_at_the_same_seed(tmp_path: Path) -> None:
    study = made.make(tmp_path / "study")
    (trial,) = [trial for trial in study.trials if trial.name == "big_beam_1-s2"]
    assert Described(study, trial, []).row.comparison.deltas["bleu"] == pytest.approx(33.6 - 34.1)


def test_a_paired_study_tests_trained_rows_at_common_seeds(tmp_path: Path) -> None:
    bleu = {**{row: made.BLEU[row] for row in ("base", "deep")}, "big": made.BLEU["big"]}
    study = made.make(tmp_path / "paired", bleu, paired=True)
    assert read_study(study.folder).paired
    rows = as_json(study)
    for row in ("deep", "big"):
        assert rows[row]["paired"]
        assert rows[row]["delta_bleu"] == pytest.approx(float(np.mean(differences_of(row, "base"))))
    text = layout.table_text("md", whole_table(study))
    assert "Δ: difference from base, the mean over the seeds that both have" in text
    assert "Seed by seed, 2 rows are compared with base at 3 to 5 seeds" in text
    assert "With base's weights" not in whole_table(study).findings.summary


def test_a_study_file_without_the_new_fields_is_read(tmp_path: Path) -> None:
    study = made.make(tmp_path / "old", {"base": {1: 30.0}})
    path = study.folder / "study.json"
    content = json.loads(path.read_text())
    del content["paired"]
    for trial in content["trials"]:
        del trial["weights"]
    path.write_text(json.dumps(content))
    assert (read_study(study.folder).paired, hosts_of(read_study(study.folder))) == (
        NEUTRAL["paired"],
        {},
    )
    assert by_name(read_study(study.folder))["base"].weights == ""


def test_rows_that_differ_alike_gain_no_degrees_of_freedom() -> None:
    chance = np.random.default_rng(1)
    equal_rows = np.tile(chance.normal(size=(1, 4)), (6, 1))
    assert independent_rows(products(residuals(equal_rows))) == pytest.approx(1.0)
    equal_paired = paired_differences(equal_rows + 1.0)
    assert equal_paired.df == pytest.approx(3.0), "six copies of one row know no more than one"
    independent = paired_differences(chance.normal(size=(6, 4)))
    assert (independent.df >= 3 - 1e-9).all()
    assert independent.df.max() > 3.5, "rows that differ apart do"


def test_a_noisy_row_keeps_its_own_variance() -> None:
    chance = np.random.default_rng(2)
    values = chance.normal(size=(8, 5)) * np.array([[20.0], *[[1.0]] * 7])
    paired = paired_differences(values)
    assert paired.error[0] == pytest.approx(np.std(values[0], ddof=1) / math.sqrt(5))
    assert paired.df[0] < paired.df[1:].max()


def test_the_interval_of_a_perplexity_holds_zero_where_that_of_its_logarithm_does() -> None:
    chance = np.random.default_rng(3)
    values = 0.02 * chance.normal(size=(500, 4, 5)) + 0.01
    paired = paired_differences(values)
    low, high = intervals(paired)
    ends = paired_exponential_intervals(paired, 1.5, 0.02, -0.5)
    assert ((ends[0] > 0) == (low > 0)).all()
    assert ((ends[1] < 0) == (high < 0)).all()
    exact = paired_exponential_intervals(paired, 1.5, 0.0, 0.0)
    assert exact[1] == pytest.approx(math.exp(1.5) * np.expm1(high)), (
        "a reference without noise scales the interval"
    )


def test_told_seeds_are_enough_in_simulated_studies() -> None:
    rows = 4
    difference = 3.0
    seeds = PairedPower([1.0] * rows).seeds_needed([3] * rows, difference, 0)
    assert seeds is not None
    chance = np.random.default_rng(4)
    shape = (4000, rows, seeds)
    values = math.sqrt(0.5) * (chance.normal(size=(4000, 1, seeds)) + chance.normal(size=shape))
    values[:, 0] += difference
    values[:, 1:, 3:] = np.nan
    marked = (paired_differences(values).p_holm[:, 0] <= ALPHA).mean()
    assert marked >= 0.75


def test_a_table_without_tests_still_shows_paired_differences(tmp_path: Path) -> None:
    study = made.make(tmp_path / "study")
    from tracking.statistics.table_rows import table

    plain = StudyTable(study, table(study))
    assert "−0.5" in layout.table_text("md", plain)
