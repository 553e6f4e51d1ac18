"""Rows that name their own reference: whether the two compare is decided between these rows, and not
by what either of them has in common with base."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from studies_on_disk import DECODE, begin, finish, make_study

from tracking.statistics.seeds.family import RowTest
from tracking.statistics.study_findings import find
from tracking.statistics.table_rows import table
from tracking.study import Study
from tracking.table.columns import columns_of
from tracking.table.study_table import StudyTable, View

REFERENCE = "a_heads_1"
ROW = "c_layers_2"
BLEU = {"base": 30.0, REFERENCE: 34.0, ROW: 31.0}


def study_of(folder: Path, beams: Mapping[str, int]) -> Study:
    """Three seeds of base and of two rows, of which the second has the first as its reference.
    ``beams`` by row; usually 4."""
    study = make_study(folder, {row: [1, 2, 3] for row in BLEU})
    for trial in study.trials:
        decode = {**DECODE, "beam": beams.get(trial.row, 4)}
        bleu = BLEU[trial.row] + trial.seed / 10
        finish(study, trial, begin(study.trial_folder(trial)), 30, bleu=bleu, decode=decode)
    return replace(study, references={ROW: REFERENCE})


def test_two_rows_with_the_same_settings_are_tested_though_base_has_others(tmp_path: Path) -> None:
    study = study_of(tmp_path / "study", {REFERENCE: 8, ROW: 8})
    rows = {row.row: row for row in table(study)}
    assert rows[REFERENCE].comparison.deltas["bleu"] is None
    assert rows[ROW].comparison.deltas["bleu"] == pytest.approx(-3.0)
    findings = find(study, list(rows.values()), "base", study.task.headline)
    bleu = next(metric for metric in study.task.metrics if metric.name == "bleu")
    family = findings.family_of(ROW, bleu)
    assert family is not None
    assert isinstance(family.rows[ROW], RowTest)
    assert findings.words(rows[REFERENCE], bleu) == "not tested: other settings"


@pytest.mark.parametrize("beams", [{REFERENCE: 8}, {ROW: 8}])
def test_no_difference_is_between_scores_of_two_settings(
    tmp_path: Path, beams: Mapping[str, int]
) -> None:
    row = next(row for row in table(study_of(tmp_path / "study", beams)) if row.row == ROW)
    assert (row.comparison.deltas["bleu"], row.comparison.other_decode) == (None, ("beam",))
    assert f"decode.beam {beams.get(ROW, 4)}, not {beams.get(REFERENCE, 4)}" in row.notes.full


def test_the_best_score_is_one_that_compares(tmp_path: Path) -> None:
    study = study_of(tmp_path / "study", {REFERENCE: 8})
    rows = table(study)
    findings = find(study, rows, "base", study.task.headline)
    column = columns_of(StudyTable(study, rows, findings, View(best=True)))["bleu"]
    best = [row.row for row in rows if column.best(row)]
    assert best == ["base"]
