"""Rows that a study has trained under another name: their files were renamed, and their trial keys
are the same."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.config.files import BASE, Folders
from sweeps.config.library import Library
from sweeps.config.schema import Schema
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import placed
from sweeps.planning.study_rows.compose import compose_sweep
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.planning.study_rows.study_record import StudyRecord
from sweeps.problems import RefusedError
from tracking.shell import quoted


def names_of_renamed_rows(
    composition: Composition, record: StudyRecord, here: Path
) -> dict[str, str]:
    """By the name of a row's file, the name under which the study has the row, unless that name
    still has a file."""
    folders = Folders(here, record.source)
    files = set(folders.options("row"))
    missing = [name for name in record.rows if name not in files and name != BASE]
    if not missing:
        return {}
    new_rows = [row for row in composition.rows if row.name not in record.rows]
    new_names = {row.name for row in new_rows}
    own_files = [
        name for name in sorted(files - record.rows.keys() - new_names) if _is_own(folders, name)
    ]
    recorded_names: dict[str, str] = {}
    for row in (*new_rows, *_rows_of_files(own_files, record, here)):
        recorded_name = _recorded_name(row, record, missing)
        if recorded_name:
            recorded_names[row.name] = recorded_name
    return recorded_names


def without_renamed_rows(
    composition: Composition, recorded_names: Mapping[str, str], record: StudyRecord
) -> Composition:
    """The composition without these rows, and with a note on each."""
    rows = tuple(row for row in composition.rows if row.name not in recorded_names)
    study = record.study
    notes = list(composition.row_notes)
    for name, recorded in recorded_names.items():
        rename = command("rename", study.name, recorded, name, *placed(study.folder))
        notes.append(f"{name} is the row {recorded} of {study.name}; `{rename}` renames it there.")
    return replace(composition, rows=rows, row_notes=tuple(notes))


def _is_own(folders: Folders, name: str) -> bool:
    file = folders.find(f"row/{name}")
    return file is not None and folders.is_own(file)


def _rows_of_files(names: Sequence[str], record: StudyRecord, here: Path) -> list[ComposedRow]:
    """The rows of these files; none if any of them cannot be composed, since nobody asked for
    them."""
    if not names:
        return []
    library = Library(record.source, here)
    quoted_names = ",".join(map(quoted, [BASE, *names]))
    try:
        composition = compose_sweep([f"sweep.rows=[{quoted_names}]"], library, record)
    except RefusedError:
        return []
    return [row for row in composition.rows if row.name in names]


def _recorded_name(row: ComposedRow, record: StudyRecord, missing: Collection[str]) -> str | None:
    """The row without a file that the study has recorded with this row's trial keys."""
    task = record.source.task
    schema = Schema.of(task)
    for trial in record.study.trials:
        if trial.row not in missing:
            continue
        config = schema.seeded(row.settings.config, trial.seed)
        key = schema.trial_key(config, trial.seed, task.fingerprint(config))
        host = record.study.host(trial)
        if host is not None and key == host.key:
            key = schema.scoring_key(key, config)
        if key == trial.key:
            return trial.row
    return None
