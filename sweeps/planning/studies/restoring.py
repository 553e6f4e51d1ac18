"""What was moved to the trash comes back: a whole study, or trials into the study as it is
today."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sweeps.planning.studies.advice import command
from sweeps.planning.studies.known_studies import log_entry
from sweeps.planning.studies.renaming import refuse_half_renamed, with_row_names
from sweeps.planning.studies.study_overrides import placed
from sweeps.planning.studies.trash import DROPPED_FILE, Trashed, list_dropped
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.problems import Problem, refusal, refuse
from tracking.files import unless_damaged
from tracking.study import (
    STUDY_FILE,
    Study,
    StudyTrial,
    read_study,
    record_lock,
    study_folders,
    write_study,
)


def restore_study(item: Trashed) -> Path:
    """Move the whole study back, and return its folder. Raises RefusedError if its name is
    taken."""
    if item.origin.exists():
        fault = f"is {item.study}, and {item.origin.parent} has a study of that name"
        rename = command("rename", item.study, "NEW", *placed(item.origin))
        raise refusal("STUDY", fault, f"rename that one first: `{rename}`")
    item.folder.rename(item.origin)
    return item.origin


def restore_trials(item: Trashed, names: Sequence[str], typed: Sequence[str]) -> Path:
    """Move these dropped trials back into today's study, with their lines of the record. Returns
    its folder.

    The folders move first: if the process dies in between, the command can be repeated. Raises
    RefusedError with all that is in the way.
    """
    home = _home(item)
    if home is None:
        runs = item.folder.parent.parent
        fault = f"belongs to the study {item.study}, which is not in {runs}"
        allowed = "restore that study first; `allelse restore` lists what there is"
        raise refusal(", ".join(names), fault, allowed)
    refuse_half_renamed(home)
    with record_lock(home):
        study = read_study(home)
        old_record = read_study(item.folder)
        record = _with_new_names(old_record, study)
        old_names = [trial.name for trial in old_record.trials]
        trial_of = dict(zip(old_names, record.trials, strict=True))
        restored = {name: trial_of[name] for name in names}
        trials = list(restored.values())
        problems = [
            *_changed_rows(study, record, trials),
            *_conflicts(study, item, restored),
            *_missing_hosts(study, trials),
        ]
        refuse(problems)
        for name, trial in restored.items():
            with trial_lock(study.trial_folder(trial)):
                _move_back(item.folder / name, study.folder / trial.name)
        write_study(_with_restored(study, record, trials, typed))
        _forget(item, names)
    return home


def _home(item: Trashed) -> Path | None:
    """The folder of the study from which the trials were dropped: it may have another name
    today."""
    identity = read_study(item.folder).identity
    for folder in (item.origin, *study_folders(item.origin.parent)):
        if (folder / STUDY_FILE).exists() and _identity(folder) == identity:
            return folder
    return None


def _identity(folder: Path) -> str | None:
    """None for a study whose record is damaged."""
    study = unless_damaged(partial(read_study, folder), None)
    return None if study is None else study.identity


def _with_new_names(record: Study, study: Study) -> Study:
    """The old record, with the names that `rename` has given to rows of the study since."""
    new_names = {trial.row: trial.row for trial in record.trials}
    for entry in study.asked[len(record.asked) :]:
        renamed = entry.get("renamed", {})
        for row, name in new_names.items():
            new_names[row] = renamed.get(name, name)
    return with_row_names(record, new_names)


def _move_back(trashed_folder: Path, folder: Path) -> None:
    """A trial that had not begun has no folder; a killed command may have moved one already."""
    if trashed_folder.exists():
        trashed_folder.rename(folder)


def _changed_rows(study: Study, record: Study, trials: Sequence[StudyTrial]) -> Iterator[Problem]:
    """The rows of these trials whose name now belongs to a different change."""
    old_values = {row["row"]: row["values"] for row in record.rows}
    values = {row["row"]: row["values"] for row in study.rows}
    for row in dict.fromkeys(trial.row for trial in trials):
        is_in_both = row in values and row in old_values
        if is_in_both and old_values[row] != values[row]:
            rename = command("rename", study.name, row, "NEW", *placed(study.folder))
            fault = f"is a row of {study.name} that changes something else"
            yield Problem(row, fault, f"`{rename}` frees the name")


def _missing_hosts(study: Study, trials: Sequence[StudyTrial]) -> Iterator[Problem]:
    """Trials that only score, without the trial whose weights they score."""
    names = {trial.name for trial in (*study.trials, *trials)}
    for trial in trials:
        if trial.weights and trial.weights not in names:
            fault = f"scores the weights of {trial.weights}, which is not a trial of {study.name}"
            yield Problem(trial.name, fault, f"restore {trial.weights} first")


def _conflicts(
    study: Study, item: Trashed, restored: Mapping[str, StudyTrial]
) -> Iterator[Problem]:
    """Today's trials with the name, the key or the folder of a trial that is ``restored``, by its
    name in the trash."""
    names_by_key = {trial.key: trial.name for trial in study.trials}
    for name, trial in restored.items():
        folder = study.folder / trial.name
        if trial.name in names_by_key.values():
            yield Problem(trial.name, f"is a trial of {study.name} again", "drop that one first")
        elif trial.key in names_by_key:
            twin = names_by_key[trial.key]
            fault = f"trains the same model as {twin} of {study.name}"
            yield Problem(trial.name, fault, f"drop {twin} first")
        elif (item.folder / name).exists() and folder.exists():
            yield Problem(trial.name, f"has another folder at {folder}", "move that folder away")


def _with_restored(
    study: Study, record: Study, trials: Sequence[StudyTrial], typed: Sequence[str]
) -> Study:
    """Today's study with these trials of the old record, each at its old position."""
    merged = _at_old_positions(study.trials, record.trials, trials)
    rows = {row["row"]: row for row in (*record.rows, *study.rows)}
    cells = record.cells | study.cells
    row_names = dict.fromkeys(trial.row for trial in merged)
    names = [name for name in row_names if name in rows]
    merged_seeds = {trial.seed for trial in merged}
    seeds = [seed for seed in [*record.seeds, *study.seeds] if seed in merged_seeds]
    entry = log_entry(typed, {"restored": [trial.name for trial in trials]})
    return replace(
        study,
        trials=merged,
        rows=tuple(rows[name] for name in names),
        cells={name: cells[name] for name in names if name in cells},
        seeds=tuple(dict.fromkeys(seeds)),
        asked=(*study.asked, entry),
        code=tuple(dict.fromkeys([*record.code, *study.code])),
    )


def _at_old_positions(
    trials: Sequence[StudyTrial], old_trials: Sequence[StudyTrial], restored: Sequence[StudyTrial]
) -> tuple[StudyTrial, ...]:
    """Today's trials, with each restored one behind the trials that preceded it."""
    merged = list(trials)
    old_order = [trial.name for trial in old_trials]
    for trial in restored:
        predecessors = set(old_order[: old_order.index(trial.name)])
        indices = [index for index, item in enumerate(merged) if item.name in predecessors]
        merged.insert(max(indices, default=-1) + 1, trial)
    return tuple(merged)


def _forget(item: Trashed, names: Sequence[str]) -> None:
    """Remove the emptied folder with its copy of the record, or list what it still holds."""
    remaining = [name for name in item.trials or () if name not in names]
    if remaining:
        list_dropped(item.folder, item.study, remaining)
        return
    for name in (DROPPED_FILE, STUDY_FILE):
        (item.folder / name).unlink(missing_ok=True)
    if not any(item.folder.iterdir()):
        item.folder.rmdir()
