"""Finished studies with given decode settings, and their tables."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from studies_on_disk import DECODE, begin, finish, make_study

from tracking.statistics.table_row import TableRow
from tracking.statistics.table_rows import table
from tracking.study import Study
from tracking.table import layout
from tracking.table.study_table import StudyTable


def scored(folder: Path, *settings: tuple[str, int, Mapping[str, Any]]) -> Study:
    """A finished study from rows, seeds and the settings of `decode` that differ from DECODE."""
    seeds: dict[str, list[int]] = {}
    for row, seed, _ in settings:
        seeds.setdefault(row, []).append(seed)
    study = make_study(folder, seeds)
    for trial, (*_, decode) in zip(study.trials, settings, strict=True):
        finish(study, trial, begin(study.trial_folder(trial)), 30, decode={**DECODE, **decode})
    return study


def shown(study: Study, width: int = 120) -> str:
    """The table for a terminal, without color and without tests."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(layout.shown(StudyTable(study, table(study)), width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table_text(form: str, study: Study) -> str:
    """The table in this format, without tests."""
    return layout.table_text(form, StudyTable(study, table(study)))


def by_name(study: Study) -> dict[str, TableRow]:
    return {row.row: row for row in table(study)}
