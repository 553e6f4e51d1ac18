"""A row or a study under another name: its folders, its record, and, by the next sync, its runs in
MLflow.

Several folders cannot move at once. So a note says what is being renamed, until the record has the
new name. A command that was killed in between can be repeated, and until then no trial of the study
starts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from sweeps.config.files import BASE
from sweeps.planning.naming import command, placed
from sweeps.schema import Problem, RefusedError, nearest
from tracking.files import Form, read_object, to_json, unless_damaged, write_atomic
from tracking.shell import shell_line
from tracking.study import Study, StudyTrial, read_study, write_study
from tracking.uri import shown_words

NOTE = ".locks/renaming.json"
NOTE_FORM: Form = {"old": str, "new": str}
NAME = "must be the name of a file: printable, without /, and no dot at its start"


def refuse_half_renamed(study: Path) -> None:
    """Raises RefusedError if renaming a row of this study was interrupted."""
    note = _note(study)
    if note is not None:
        again = command("rename", study.name, note["old"], note["new"], *placed(study))
        found = f"is {study.name}, in which renaming {note['old']} was interrupted"
        raise RefusedError([Problem("sweep.name", found, f"complete it first: `{again}`")])


def row_problems(study: Study, old: str, new: str) -> Iterator[Problem]:
    """Why the row cannot have that name."""
    note = _note(study.folder)
    rows = list(dict.fromkeys(trial.row for trial in study.trials))
    if note == {"old": old, "new": new}:
        return
    if note is not None:
        again = command("rename", study.name, note["old"], note["new"], *placed(study.folder))
        found = f"is {old}, but renaming {note['old']} was interrupted"
        yield Problem("OLD", found, f"complete it first: `{again}`")
        return
    if old == BASE:
        yield Problem("OLD", "is base, with which rows are compared", "must be another row")
    elif old not in rows:
        found = f'is "{old}", which is no row of {study.name}'
        yield Problem("OLD", found, f"must be one of {', '.join(rows)}", nearest(old, rows))
    if not _is_name(new):
        yield Problem("NEW", f'is "{new}"', NAME)
    elif new in rows:
        yield Problem("NEW", f"is {new}, which is a row of {study.name}", "must be a new name")
    else:
        for trial in study.trials:
            place = study.folder / replace(trial, row=new).name
            if trial.row == old and place.exists():
                yield Problem("NEW", f"is {new}, but {place} exists", "move that folder away")


def study_problems(study: Study, new: str) -> Iterator[Problem]:
    """Why the study cannot have that name."""
    if not _is_name(new) or len(new.encode()) > 200:
        yield Problem("NEW", f'is "{new}"', NAME)
    elif study.folder.with_name(new).exists():
        yield Problem(
            "NEW", f"is {new}, and {study.folder.parent} has that already", "must be a new name"
        )


def rename_row(folder: Path, old: str, new: str, typed: Sequence[str]) -> Study:
    """Move the folders of the row's trials, then write the record. All their locks must be held."""
    with FileLock(folder / ".locks" / "study"):
        study = read_study(folder)
        if _note(folder) is not None and old not in {trial.row for trial in study.trials}:
            (folder / NOTE).unlink()
            return study
        write_atomic(folder / NOTE, to_json({"old": old, "new": new}) + "\n")
        renamed = _with_new_row(study, old, new, typed)
        for before, after in zip(study.trials, renamed.trials, strict=True):
            if before.name != after.name and (folder / before.name).exists():
                (folder / before.name).rename(folder / after.name)
        write_study(renamed)
        (folder / NOTE).unlink()
    return renamed


def rename_study(folder: Path, new: str, typed: Sequence[str]) -> Study:
    """Move the study's folder, which names it, then write the record."""
    there = folder.rename(folder.with_name(new))
    with FileLock(there / ".locks" / "study"):
        study = read_study(there)
        asked = _asked(typed, {"renamed_study": {folder.name: new}})
        renamed = replace(study, asked=(*study.asked, asked))
        write_study(renamed)
    return renamed


def _with_new_row(study: Study, old: str, new: str, typed: Sequence[str]) -> Study:
    def named(trial: StudyTrial) -> StudyTrial:
        row = new if trial.row == old else trial.row
        return replace(trial, row=row, weights=new_names.get(trial.weights, trial.weights))

    new_names = {
        trial.name: replace(trial, row=new).name for trial in study.trials if trial.row == old
    }
    names = {trial.name: new_names.get(trial.name, trial.name) for trial in study.trials}
    before = [_renamed(asked, names) for asked in study.asked]
    return replace(
        study,
        trials=tuple(named(trial) for trial in study.trials),
        rows=tuple(row | {"row": new} if row["row"] == old else row for row in study.rows),
        cells={new if row == old else row: cells for row, cells in study.cells.items()},
        asked=(*before, _asked(typed, {"renamed": {old: new}})),
    )


def _renamed(asked: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """An earlier command, whose trials have the names of today."""
    today = dict(asked)
    for key in ("added", "dropped", "restored"):
        if key in asked:
            today[key] = [names.get(name, name) for name in asked[key]]
    return today


def _asked(typed: Sequence[str], more: dict[str, Any]) -> dict[str, Any]:
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    return {"ts": moment, "command": shell_line(shown_words(typed)), **more}


def _note(study: Path) -> dict[str, Any] | None:
    return unless_damaged(lambda: read_object(study / NOTE, NOTE_FORM), None)


def _is_name(name: str) -> bool:
    plain = name.isprintable() and "/" not in name and "=" not in name
    return bool(name) and plain and name[0] != "." and name == name.strip()
