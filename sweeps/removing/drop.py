"""``allelse drop``: rows or trials of a study move to the trash, and `study.json` no longer lists them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from sweeps.planning.naming import placed
from sweeps.removing.removal import Removal, locked
from sweeps.schema import Problem, RefusedError, nearest
from tracking.files import write_atomic
from tracking.rows import BASE
from tracking.shell import shell_line
from tracking.study import STUDY_FILE, Study, Trial, read_study, write_study
from tracking.trash import free_place
from tracking.uri import without_password


def dropping(study: Study, names: Sequence[str]) -> Removal:
    """What these names of rows and trials remove. Raises RefusedError with every problem."""
    trials = _named(study, names)
    folders = [study.trial_folder(trial) for trial in trials]
    return Removal(study.folder, tuple(folder.path for folder in folders), tuple(folders))


def drop(study: Study, names: Sequence[str], command: Sequence[str]) -> Path:
    """Move them; returns their folder in the trash, with the former `study.json`. Raises RefusedError.

    The folders move first: if the process dies in between, the command can be repeated.
    """
    with locked(dropping(study, names).trials), FileLock(study.folder / ".locks" / "study"):
        now = read_study(study.folder)  # another process may have added trials
        trials = _named(now, names)
        place = free_place(now.folder.parent, now.name)
        write_atomic(place / STUDY_FILE, (now.folder / STUDY_FILE).read_text("utf-8"))
        for trial in trials:
            if (path := now.trial_folder(trial).path).exists():
                path.rename(place / path.name)
        write_study(_without(now, trials, command))
    return place


def _named(study: Study, names: Sequence[str]) -> list[Trial]:
    """The trials that the names mean, in the order of the table."""
    known = list(dict.fromkeys(name for trial in study.trials for name in (trial.row, trial.name)))
    problems = [_unknown(study, name, known) for name in dict.fromkeys(names) if name not in known]
    trials = [trial for trial in study.trials if trial.row in names or trial.name in names]
    problems += _left_without_base(study, trials)
    if problems:
        raise RefusedError(problems)
    return trials


def _unknown(study: Study, name: str, known: list[str]) -> Problem:
    rows = list(dict.fromkeys(trial.row for trial in study.trials))
    found = f'is "{name}", but the rows of {study.name} are {", ".join(rows)}'
    near = nearest(name, known)
    return Problem("ROW", found, f"must be one of them, or a trial such as {study.trials[-1].name}", near)


def _left_without_base(study: Study, trials: list[Trial]) -> Iterator[Problem]:
    """A problem if nothing would be left, or only rows that cannot be compared with base."""
    left = [trial.row for trial in study.trials if trial not in trials]
    if trials and not left:
        whole = shell_line(["allelse", "rm", study.name, *placed(study.folder)])
        yield Problem("ROW", f"names every trial of {study.name}", f"`{whole}` removes it")
    elif any(trial.row == BASE for trial in trials) and BASE not in left:
        found = f"is base, with which {', '.join(dict.fromkeys(left))} are compared"
        yield Problem("ROW", found, "drop the other rows first")


def _without(study: Study, dropped: Sequence[Trial], command: Sequence[str]) -> Study:
    """The study's record without these trials, and without rows and seeds that no other trial has."""
    trials = tuple(trial for trial in study.trials if trial not in dropped)
    rows, seeds = {trial.row for trial in trials}, {trial.seed for trial in trials}
    asked = {
        "ts": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shell_line(map(without_password, command)),
        "dropped": [trial.name for trial in dropped],
    }
    return replace(
        study,
        trials=trials,
        rows=tuple(row for row in study.rows if row["row"] in rows),
        seeds=tuple(seed for seed in study.seeds if seed in seeds),
        cells={row: cells for row, cells in study.cells.items() if row in rows},
        asked=(*study.asked, asked),
    )
