"""The second analysis of a study from several kinds of machine: the kinds, the tests with a block
for each, and the line below the table."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from studies_on_disk import begin, finish, make_study

from benchmarks.machine_blocks import block_marks
from benchmarks.statistics import ERROR
from tracking.card import Metric
from tracking.statistics.seeds.blocks import block_tests
from tracking.statistics.seeds.seed_tests import differences
from tracking.statistics.study_findings import StudyFindings, find
from tracking.statistics.table_row import TableRow
from tracking.statistics.table_rows import table
from tracking.statistics.unlike_trials import machine_kinds
from tracking.study import Study
from tracking.table.caption import caption
from tracking.table.machine_captions import machine_lines
from tracking.table.short_caption import short_caption
from tracking.table.study_table import StudyTable

SCORE = Metric("score")
OLD = "family 25, model 17"
NEW = "family 25, model 1"
Values = Mapping[str, Sequence[float]]
Blocks = Mapping[str, Sequence[str]]


def drawn(blocks: Blocks, shift: float) -> dict[str, list[float]]:
    """Scores with noise, and ``shift`` more in block B."""
    chance = np.random.default_rng(3)
    return {
        row: [float(chance.normal()) + (shift if kind == "B" else 0.0) for kind in kinds]
        for row, kinds in blocks.items()
    }


MIXED: Blocks = {
    "base": ["A"] * 4 + ["B"] * 5,
    "first": ["A", "A", "B"],
    "second": ["A", "B", "B"],
    "third": ["B", "B", "B"],
}
REFERENCES = {"first": "base", "second": "base", "third": "base"}


def by_least_squares(values: Values, blocks: Blocks) -> dict[str, float]:
    """Each row's difference from base in a linear model with a column for each row and for B."""
    rows = [*values]
    lines = [
        [float(row == other) for other in rows] + [float(kind == "B")]
        for row, kinds in blocks.items()
        for kind in kinds
    ]
    scores = [score for row in rows for score in values[row]]
    solution = np.linalg.lstsq(np.array(lines), np.array(scores), rcond=None)[0]
    return {row: float(solution[rows.index(row)] - solution[0]) for row in rows[1:]}


def test_a_difference_is_that_of_a_linear_model() -> None:
    values = drawn(MIXED, shift=2.0)
    tests = block_tests(SCORE, values, MIXED, REFERENCES)
    found = {row: test.difference for row, test in tests.items() if test is not None}
    assert found == pytest.approx(by_least_squares(values, MIXED))


def test_the_p_value_is_that_of_a_linear_model_if_all_rows_vary_equally() -> None:
    """After the effect of B, 3, each row has residuals of ±3; the last one has slightly larger
    ones, since it loses no degree of freedom to the effect."""
    rest = 3 * 1.2**0.5
    values: Values = {
        "base": [0, 6, 3, 9],
        "first": [9, 15, 12, 18],
        "second": [8 - rest, 8 + rest, 8 - rest, 8 + rest],
    }
    blocks = {"base": [*"AABB"], "first": [*"AABB"], "second": [*"AAAA"]}
    tests = block_tests(SCORE, values, blocks, {"first": "base", "second": "base"})
    design = np.array(
        [
            [row == other for other in values] + [kind == "B"]
            for row, kinds in blocks.items()
            for kind in kinds
        ],
        float,
    )
    scores = np.concatenate([*values.values()])
    coefficients, squares, _, _ = np.linalg.lstsq(design, scores, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * squares[0] / 8
    p = []
    for contrast in ([-1, 1, 0, 0], [-1, 0, 1, 0]):
        weights = np.array(contrast)
        t = weights @ coefficients / np.sqrt(weights @ covariance @ weights)
        p.append(2 * float(stats.t.sf(abs(t), 8)))
    assert p[0] < p[1]
    found = {row: test.p for row, test in tests.items() if test is not None}
    assert found == pytest.approx({"first": 2 * p[0], "second": p[1]})


def test_blocks_that_change_nothing_leave_the_test_as_it_is() -> None:
    """One block takes no degree of freedom."""
    one = {row: ["A"] * len(kinds) for row, kinds in MIXED.items()}
    values = drawn(one, shift=0.0)
    means = np.array([np.mean(row) for row in values.values()])
    variances = np.array([np.var(row, ddof=1) for row in values.values()])
    plain = differences(means, variances, np.array([len(row) for row in values.values()]))
    tests = block_tests(SCORE, values, one, REFERENCES)
    p = [test.p for test in tests.values() if test is not None]
    assert p == pytest.approx(plain.p_holm.tolist())


def test_a_row_without_a_common_block_is_not_tested() -> None:
    blocks: Blocks = {"base": [*"AAA"], "first": [*"AAA"], "second": [*"BBB"]}
    values = drawn(blocks, shift=2.0)
    tests = block_tests(SCORE, values, blocks, {"first": "base", "second": "base"})
    assert tests["first"] is not None
    assert tests["second"] is None


def test_a_reference_that_has_a_reference_itself_keeps_its_error() -> None:
    values = drawn(MIXED, shift=2.0)
    alone = block_tests(SCORE, values, MIXED, {"third": "second"})["third"]
    chained = block_tests(SCORE, values, MIXED, {"third": "second", "second": "base"})["third"]
    assert alone is not None
    assert chained is not None
    assert alone.difference == chained.difference
    assert chained.p < 2.5 * alone.p  # twice by Holm, and other variances move towards each other


def test_scores_that_only_blocks_change_are_not_tested() -> None:
    values = {"base": [90.1, 90.1, 90.3], "first": [90.2, 90.2, 90.4]}
    tests = block_tests(SCORE, values, {row: [*"AAB"] for row in values}, {"first": "base"})
    assert tests == {"first": None}


MIXED_LAYOUT = "base and 8 rows, 2 seeds of 3 rows, nothing of 8"


def test_marks_err_with_a_second_kind_of_machine_and_not_with_blocks() -> None:
    marks = block_marks(MIXED_LAYOUT, 3.0, None, 200)
    assert marks.plain.false > 90
    assert marks.with_blocks.false <= ERROR
    assert marks.with_blocks.true[1] > 70


SEEDS = {"base": [1, 2, 3, 4], "a_heads_1": [1, 2, 3], "c_layers_2": [1, 2, 3]}
BLEU = {"base": 30.0, "a_heads_1": 30.0, "c_layers_2": 28.5}
MIXED_ROWS = {"base": (4,), "a_heads_1": (1, 2), "c_layers_2": (3,)}


def trained(
    folder: Path, on_new: Mapping[str, Sequence[int]], shift: float = 2.0, **machine: Any
) -> Study:
    """All trials finish. Seeds ``on_new``, by row, ran on a CPU that adds ``shift`` BLEU."""
    study = make_study(folder, SEEDS)
    noise = np.random.default_rng(7)
    for trial in study.trials:
        is_new = trial.seed in on_new.get(trial.row, ())
        score = BLEU[trial.row] + (shift if is_new else 0.0) + float(noise.normal()) / 10
        trial_folder = study.trial_folder(trial)
        finish(study, trial, begin(trial_folder), 30, bleu=score)
        cpu = {"model": "AMD EPYC", "generation": NEW if is_new else OLD, "count": 2}
        record = {"commit": None, "cpu": cpu, "device": "cpu (x86_64)"} | machine
        trial_folder.provenance_path.write_text(json.dumps(record), "utf-8")
    return study


def found(study: Study) -> tuple[list[TableRow], StudyFindings]:
    rows = table(study)
    return rows, find(study, rows, "base")


def lines(study: Study) -> list[str]:
    rows, findings = found(study)
    return [*machine_lines(StudyTable(study, rows, findings), study.task.tabled)]


def test_a_kind_is_named_by_what_differs_between_trials(tmp_path: Path) -> None:
    kinds = machine_kinds(trained(tmp_path / "study", MIXED_ROWS))
    assert kinds["base"] == {
        **dict.fromkeys((1, 2, 3), f"CPU generation {OLD}"),
        4: f"CPU generation {NEW}",
    }


def test_trials_of_a_gpu_are_of_one_kind_whatever_the_cpu_beside_it(tmp_path: Path) -> None:
    study = trained(tmp_path / "study", MIXED_ROWS, device="NVIDIA H200")
    assert {kind for seeds in machine_kinds(study).values() for kind in seeds.values()} == {""}
    assert lines(study) == []


def test_a_generation_that_was_not_recorded_makes_no_kind(tmp_path: Path) -> None:
    study = trained(tmp_path / "study", {})
    path = study.trial_folder(study.trials[0]).provenance_path
    record = json.loads(path.read_text("utf-8"))
    del record["cpu"]["generation"]
    path.write_text(json.dumps(record), "utf-8")
    assert {kind for seeds in machine_kinds(study).values() for kind in seeds.values()} == {""}


def test_the_line_below_the_table_says_what_blocks_change(tmp_path: Path) -> None:
    """The table's test takes the second CPU for noise, and marks nothing."""
    study = trained(tmp_path / "study", MIXED_ROWS)
    (line,) = lines(study)
    assert line == (
        f"Trained on 2 kinds of machine: CPU generation {OLD} (6 trials); CPU generation {NEW} (4 "
        "trials). With a block for each kind, Δ changes by at most 0.8 (BLEU), and these marks do: "
        "c_layers_2 ▼ instead of ? (BLEU)."
    )


def test_both_captions_have_the_line(tmp_path: Path) -> None:
    study = trained(tmp_path / "study", MIXED_ROWS)
    (line,) = lines(study)
    rows, findings = found(study)
    shown = StudyTable(study, rows, findings)
    names = ["bleu", "delta_bleu"]
    assert line in caption(shown, names).splitlines()
    assert line in short_caption(shown, names)


def test_marks_that_stay_are_said_to(tmp_path: Path) -> None:
    (line,) = lines(trained(tmp_path / "study", MIXED_ROWS, shift=0.0))
    assert line.endswith("Δ changes by at most 0.04 (BLEU), and no mark does.")


def test_a_row_that_ran_only_on_the_second_kind_is_named(tmp_path: Path) -> None:
    study = trained(tmp_path / "study", {"c_layers_2": (1, 2, 3)})
    (line,) = lines(study)
    assert line.endswith(
        "No test can tell the differences of c_layers_2 from those between kinds: train further "
        "seeds of rows on several kinds."
    )


def test_tests_that_are_withheld_have_none_with_blocks(tmp_path: Path) -> None:
    _, findings = found(trained(tmp_path / "study", MIXED_ROWS))
    assert {*findings.blocks.tests["bleu"]} == {"a_heads_1", "c_layers_2"}
    assert findings.withheld("not yet").blocks.tests == {}
