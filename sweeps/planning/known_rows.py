"""Rows that a study has trained under another name: their files were renamed, and their trial keys
are the same."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sweeps.config.files import BASE, Folders
from sweeps.config.schema import Schema
from sweeps.planning.compose import compose_sweep
from sweeps.planning.composition import ComposedRow, Composition, StudyRecord
from sweeps.planning.naming import command, placed
from sweeps.schema import RefusedError
from tracking.shell import quoted


def known_rows(composition: Composition, record: StudyRecord, here: Path) -> dict[str, str]:
    """By the name of a row's file, the name under which the study has the row; only if that has no
    file any more."""
    folders = Folders(here, record.source)
    files = set(folders.options("row"))
    gone = [name for name in record.rows if name not in files and name != BASE]
    if not gone:
        return {}
    asked = [row for row in composition.rows if row.name not in record.rows]
    names = {row.name for row in asked}
    unasked = [name for name in files - record.rows.keys() - names if _is_own(folders, name)]
    known: dict[str, str] = {}
    for row in (*asked, *_composed(sorted(unasked), record, here)):
        if recorded := _recorded_name(row, record, gone):
            known[row.name] = recorded
    return known


def without(composition: Composition, known: Mapping[str, str], record: StudyRecord) -> Composition:
    """The composition without these rows, and with a note on each."""
    rows = tuple(row for row in composition.rows if row.name not in known)
    study = record.study
    notes = list[str]()
    for name, recorded in known.items():
        rename = command("rename", study.name, recorded, name, *placed(study.folder))
        notes.append(f"{name} is the row {recorded} of {study.name}; `{rename}` renames it there.")
    return replace(composition, rows=rows, told=(*composition.told, *notes))


def _is_own(folders: Folders, name: str) -> bool:
    file = folders.find(f"row/{name}")
    return file is not None and folders.is_own(file)


def _composed(names: list[str], record: StudyRecord, here: Path) -> Iterator[ComposedRow]:
    """The rows of these files; none if any of them cannot be composed, since nobody asked for
    them."""
    if names:
        with suppress(RefusedError):
            listed = ",".join(quoted(name) for name in [BASE, *names])
            rows = compose_sweep([f"sweep.rows=[{listed}]"], here, record).rows
            yield from (row for row in rows if row.name in names)


def _recorded_name(row: ComposedRow, record: StudyRecord, gone: Collection[str]) -> str | None:
    """Of the recorded row without a file that has this row's trial keys."""
    task = record.source.task
    schema = Schema.of(task)
    for trial in record.study.trials:
        if trial.row in gone:
            config = schema.seeded(row.settings.trial, trial.seed)
            key = schema.trial_key(config, trial.seed, task.fingerprint(config))
            host = record.study.host(trial)
            if host is not None and key == host.key:
                key = schema.scoring_key(key, config)
            if key == trial.key:
                return trial.row
    return None
