"""A row or a study under another name: its folders, its record, and, by the next sync, its runs in
MLflow.

Several folders cannot move at once. So a note says what is being renamed, until the record has the
new name. A command that was killed in between can be repeated, and until then no trial of the study
starts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.study_faults import study_name_problems
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.known_studies import log_entry
from sweeps.planning.studies.study_overrides import placed
from sweeps.problems import Problem, Typo, refusal
from tracking.files import Form, read_object, to_json, unless_damaged, write_atomic
from tracking.statistics.references import with_names
from tracking.study import Study, StudyTrial, read_study, record_lock, write_study
from tracking.words import row_and_seed, trial_name

NOTE = ".locks/renaming.json"
NOTE_FORM: Form = {"old": str, "new": str}
ALLOWED_NAME = "must be the name of a file: printable, without /, and no dot at its start"


def refuse_half_renamed(study: Path) -> None:
    """Raises RefusedError if renaming a row of this study was interrupted."""
    note = _note(study)
    if note is not None:
        fault = f"is {study.name}, but renaming {note['old']} in it was interrupted"
        raise refusal("sweep.name", fault, _complete_first(study, note))


def row_problems(study: Study, old: str, new: str) -> Iterator[Problem]:
    """Why the row cannot have that name."""
    note = _note(study.folder)
    if note == {"old": old, "new": new}:
        return
    if note is not None:
        fault = f"is {old}, but renaming {note['old']} was interrupted"
        yield Problem("OLD", fault, _complete_first(study.folder, note))
        return
    rows = list(dict.fromkeys(trial.row for trial in study.trials))
    if old == BASE:
        yield Problem("OLD", "is base, and other rows are compared with it", "must be another row")
    elif old not in rows:
        fault = f'is "{old}", which is not a row of {study.name}'
        yield Problem("OLD", fault, f"must be one of {', '.join(rows)}", Typo(old, tuple(rows)))
    if not _is_name(new):
        yield Problem("NEW", f'is "{new}"', ALLOWED_NAME)
    elif new in rows:
        yield Problem("NEW", f"is {new}, which is a row of {study.name}", "must be a new name")
    else:
        yield from _existing_folders(study, old, new)


def _existing_folders(study: Study, old: str, new: str) -> Iterator[Problem]:
    """Folders that have the new names of the row's trials."""
    for trial in study.trials:
        folder = study.folder / replace(trial, row=new).name
        if trial.row == old and folder.exists():
            yield Problem("NEW", f"is {new}, but {folder} exists", "move that folder away")


def study_problems(study: Study, new: str) -> Iterator[Problem]:
    """Why the study cannot have that name."""
    problems = [*study_name_problems("NEW", new)]
    if problems:
        yield from problems
    elif study.folder.with_name(new).exists():
        fault = f"is {new}, and {study.folder.parent} has that already"
        yield Problem("NEW", fault, "must be a new name")


def rename_row(folder: Path, old: str, new: str, typed: Sequence[str]) -> Study:
    """Move the folders of the row's trials, then write the record. All their locks must be held."""
    with record_lock(folder):
        study = read_study(folder)
        if _note(folder) is not None and old not in {trial.row for trial in study.trials}:
            (folder / NOTE).unlink()
            return study
        write_atomic(folder / NOTE, to_json({"old": old, "new": new}) + "\n")
        renamed = _with_new_row(study, old, new, typed)
        for old_trial, new_trial in zip(study.trials, renamed.trials, strict=True):
            if old_trial.name != new_trial.name and (folder / old_trial.name).exists():
                (folder / old_trial.name).rename(folder / new_trial.name)
        write_study(renamed)
        (folder / NOTE).unlink()
    return renamed


def rename_study(folder: Path, new: str, typed: Sequence[str]) -> Study:
    """Move the study's folder, which names it, then write the record."""
    new_folder = folder.rename(folder.with_name(new))
    with record_lock(new_folder):
        study = read_study(new_folder)
        entry = log_entry(typed, {"renamed_study": {folder.name: new}})
        renamed = replace(study, asked=(*study.asked, entry))
        write_study(renamed)
    return renamed


def _with_new_row(study: Study, old: str, new: str, typed: Sequence[str]) -> Study:
    """The study whose row ``old`` has the name ``new``, also in its log of commands."""
    renamed = with_row_names(study, {old: new})
    pairs = zip(study.trials, renamed.trials, strict=True)
    new_names = {trial.name: renamed_trial.name for trial, renamed_trial in pairs}
    entries = [_with_new_names(entry, new_names) for entry in study.asked]
    entries.append(log_entry(typed, {"renamed": {old: new}}))
    return replace(renamed, asked=tuple(entries))


def with_row_names(study: Study, names: Mapping[str, str]) -> Study:
    """The study with new ``names`` of some rows, wherever it names a row but in its log."""
    rows = [row | {"row": names.get(row["row"], row["row"])} for row in study.rows]
    return replace(
        study,
        trials=tuple(_renamed(trial, names) for trial in study.trials),
        rows=tuple(rows),
        references=with_names(study.references, names),
        cells={names.get(row, row): cells for row, cells in study.cells.items()},
    )


def _renamed(trial: StudyTrial, names: Mapping[str, str]) -> StudyTrial:
    """The trial with the new names of its row, and of the row whose weights it scores."""
    weights = ""
    if trial.weights:
        row, seed = row_and_seed(trial.weights)
        weights = trial_name(names.get(row, row), seed)
    return replace(trial, row=names.get(trial.row, trial.row), weights=weights)


def _with_new_names(entry: dict[str, Any], new_names: dict[str, str]) -> dict[str, Any]:
    """The log's entry of an earlier command, with today's names of its trials."""
    renamed = dict(entry)
    for key in ("added", "dropped", "restored"):
        if key in entry:
            renamed[key] = [new_names.get(name, name) for name in entry[key]]
    return renamed


def _note(study: Path) -> dict[str, Any] | None:
    return unless_damaged(lambda: read_object(study / NOTE, NOTE_FORM), None)


def _complete_first(study: Path, note: dict[str, Any]) -> str:
    again = command("rename", study.name, note["old"], note["new"], *placed(study))
    return f"complete it first: `{again}`"


def _is_name(name: str) -> bool:
    if not name or name[0] == "." or name != name.strip():
        return False
    return name.isprintable() and "/" not in name and "=" not in name
