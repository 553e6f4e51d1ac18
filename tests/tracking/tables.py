"""Finished studies with given decode settings, and their tables."""

import io
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from studies_on_disk import DECODE, begin, finish, make_study

from tracking.statistics.findings import NONE, find
from tracking.statistics.rows import TableRow, table
from tracking.study import Study
from tracking.table import layout as printed
from tracking.table.columns import PLAIN_VIEW, View


def scored(folder: Path, *settings: tuple[str, int, Mapping[str, float]]) -> Study:
    """A finished study from rows, seeds and the settings of `decode` that differ from DECODE."""
    study = make_study(folder, {row: [s for r, s, _ in settings if r == row] for row, *_ in settings})
    for trial, (*_, decode) in zip(study.trials, settings, strict=True):
        finish(study, trial, begin(study.trial_folder(trial)), 30, decode={**DECODE, **decode})
    return study


def shown(study: Study, width: int = 120, view: View = PLAIN_VIEW, base: str = "base", *, tested: bool = False) -> str:
    """The table for a terminal, without color."""
    rows = table(study, base)
    findings = find(study, rows, base) if tested else NONE
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(printed.shown(study, printed.viewed(study.task, rows, view, findings), width, view, findings))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def by_name(study: Study) -> dict[str, TableRow]:
    return {row.row: row for row in table(study)}
