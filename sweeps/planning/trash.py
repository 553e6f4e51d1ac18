"""`runs/.trash/`: what `drop` and `rm` have moved there, and how it comes back into the study of
now.

A folder there is a whole study, or trials that were dropped from one. Those lie beside the record
that the study had then, and `dropped.json` lists them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from filelock import FileLock

from sweeps.planning.naming import command, placed
from sweeps.planning.renaming import refuse_half_renamed
from sweeps.planning.trial_lock import trial_lock
from sweeps.schema import Problem, RefusedError
from tracking.files import Form, read_object, to_json, unless_damaged, write_atomic
from tracking.shell import shell_line
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study, study_folders, write_study
from tracking.uri import shown_words

TRASH = ".trash"
DROPPED_FILE = "dropped.json"
DROPPED: Form = {"study": str, "trials": [str]}
MOMENT = "%Y%m%dT%H%M%S.%fZ"
LONGEST_NAME = 200
"""Bytes of the study's name within the name of a folder of the trash."""


@dataclass(frozen=True)
class Trashed:
    """A folder of the trash. ``trials`` were dropped from the ``study``; None if the whole study
    was removed."""

    place: Path
    study: str
    trials: tuple[str, ...] | None

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def origin(self) -> Path:
        """The study's folder, where it lay."""
        return self.place.parent.parent / self.study

    @property
    def restore_command(self) -> str:
        return command("restore", self.name, *placed(self.origin))

    def rows(self) -> list[str]:
        """The rows of the dropped trials, as far as the record can be read."""
        return list(dict.fromkeys(trial.row for trial in self.record_of(self.trials or ())))

    def record_of(self, names: Iterable[str]) -> list[StudyTrial]:
        """What the study's record of then has of these trials. Raises DamagedFileError."""
        wanted = set(names)
        return [trial for trial in read_study(self.place).trials if trial.name in wanted]


def new_place(study: Path) -> Path:
    """A new path, such as `.trash/20300131T120000.123456Z-multi30k-half`."""
    name = study.name.encode()[:LONGEST_NAME].decode(errors="ignore")
    return study.parent / TRASH / f"{datetime.now(UTC).strftime(MOMENT)}-{name}"


def trashed(runs: Path) -> list[Trashed]:
    """Everything in the trash, the newest first."""
    places = sorted((runs / TRASH).glob("*Z-*"), reverse=True)
    return [_trashed(place) for place in places if place.is_dir()]


def note_dropped(place: Path, study: Study, trials: Sequence[StudyTrial]) -> None:
    """Before these trials of the study move to the ``place``: keep its record, and list them."""
    write_atomic(place / STUDY_FILE, (study.folder / STUDY_FILE).read_text("utf-8"))
    content = {"study": study.name, "trials": [trial.name for trial in trials]}
    write_atomic(place / DROPPED_FILE, to_json(content) + "\n")


def _trashed(place: Path) -> Trashed:
    dropped = unless_damaged(lambda: read_object(place / DROPPED_FILE, DROPPED), None)
    if dropped is not None:
        return Trashed(place, dropped["study"], tuple(dropped["trials"]))
    content = unless_damaged(lambda: read_object(place / STUDY_FILE), None) or {}
    study = str(content.get("name", place.name.partition("-")[2]))
    if (place / ".locks").is_dir():  # `rm` has held the locks of the whole study
        return Trashed(place, study, None)
    folders = sorted(path.name for path in place.iterdir() if path.is_dir())
    return Trashed(place, study, tuple(folders))  # dropped by an older version


def restore_study(item: Trashed) -> Path:
    """Move the whole study back, and return its folder. Raises RefusedError if its name is
    taken."""
    if item.origin.exists():
        found = f"is {item.study}, and {item.origin.parent} has a study of that name"
        allowed = command("rename", item.study, "NEW", *placed(item.origin))
        raise RefusedError([Problem("STUDY", found, f"rename that one first: `{allowed}`")])
    item.place.rename(item.origin)
    return item.origin


def restore_trials(item: Trashed, names: Sequence[str], typed: Sequence[str]) -> Path:
    """Move these dropped trials back into the study of now, with their lines of the record. Returns
    its folder.

    The folders move first: if the process dies in between, the command can be repeated. Raises
    RefusedError with all that is in the way.
    """
    home = _home(item)
    if home is None:
        found = f"belongs to the study {item.study}, which is not in {item.place.parent.parent}"
        allowed = "restore that study first; `allelse restore` lists what there is"
        raise RefusedError([Problem(", ".join(names), found, allowed)])
    refuse_half_renamed(home)
    with FileLock(home / ".locks" / "study"):
        now = read_study(home)
        then = _with_new_names(read_study(item.place), now)
        before = [trial.name for trial in read_study(item.place).trials]
        today = dict(zip(before, then.trials, strict=True))
        trials = [today[name] for name in names]
        problems = [
            *_other_rows(now, then, trials),
            *_taken(now, trials, item, names),
            *_hostless(now, trials),
        ]
        if problems:
            raise RefusedError(problems)
        for name in names:
            with trial_lock(now.trial_folder(today[name])):
                _move_back(item.place / name, now.folder / today[name].name)
        write_study(_with(now, then, trials, typed))
        _forget(item, names)
    return home


def _home(item: Trashed) -> Path | None:
    """The folder of the study from which the trials were dropped: it may have another name by
    now."""
    identity = read_study(item.place).identity
    folders = [item.origin, *study_folders(item.origin.parent)]
    there = (folder for folder in folders if (folder / STUDY_FILE).exists())
    return next((folder for folder in there if _identity(folder) == identity), None)


def _identity(folder: Path) -> str | None:
    """None for a study whose record is damaged."""
    study = unless_damaged(partial(read_study, folder), None)
    return None if study is None else study.identity


def _with_new_names(then: Study, now: Study) -> Study:
    """The record of then, with the names that `rename` has given to rows since."""
    names = {trial.row: trial.row for trial in then.trials}
    for asked in now.asked[len(then.asked) :]:
        renamed = asked.get("renamed", {})
        names = {first: renamed.get(last, last) for first, last in names.items()}
    trials = tuple(_renamed(trial, names) for trial in then.trials)
    rows = tuple(row | {"row": names.get(row["row"], row["row"])} for row in then.rows)
    cells = {names.get(row, row): of for row, of in then.cells.items()}
    return replace(then, trials=trials, rows=rows, cells=cells)


def _renamed(trial: StudyTrial, names: Mapping[str, str]) -> StudyTrial:
    """The trial with the names that its row, and the row whose weights it scores, have now."""
    row, _, seed = trial.weights.rpartition("-s")
    weights = f"{names.get(row, row)}-s{seed}" if trial.weights else ""
    return replace(trial, row=names.get(trial.row, trial.row), weights=weights)


def _move_back(here: Path, there: Path) -> None:
    """A trial that had not begun has no folder; one that a killed command moved is there
    already."""
    if here.exists():
        here.rename(there)


def _other_rows(now: Study, then: Study, trials: Sequence[StudyTrial]) -> Iterator[Problem]:
    """The rows of these trials whose name another difference has by now."""
    before = {row["row"]: row["values"] for row in then.rows}
    today = {row["row"]: row["values"] for row in now.rows}
    for row in dict.fromkeys(trial.row for trial in trials):
        if row in today and before.get(row, today[row]) != today[row]:
            rename = command("rename", now.name, row, "NEW", *placed(now.folder))
            found = f"is a row of {now.name} that changes something else"
            yield Problem(row, found, f"`{rename}` frees the name")


def _hostless(now: Study, trials: Sequence[StudyTrial]) -> Iterator[Problem]:
    """Trials that only score, without the trial whose weights they score."""
    there = {trial.name for trial in (*now.trials, *trials)}
    for trial in trials:
        if trial.weights and trial.weights not in there:
            found = f"scores the weights of {trial.weights}, which is no trial of {now.name}"
            yield Problem(trial.name, found, f"restore {trial.weights} first")


def _taken(
    now: Study, trials: Sequence[StudyTrial], item: Trashed, names: Sequence[str]
) -> Iterator[Problem]:
    """A trial's name, its key or its folder may be another's by now; ``names`` are those in the
    trash."""
    keys = {trial.key: trial.name for trial in now.trials}
    for trial, name in zip(trials, names, strict=True):
        if trial.name in keys.values():
            yield Problem(trial.name, f"is a trial of {now.name} again", "drop that one first")
        elif trial.key in keys:
            found = f"trains the same model as {keys[trial.key]} of {now.name}"
            yield Problem(trial.name, found, f"drop {keys[trial.key]} first")
        elif (item.place / name).exists() and (now.folder / trial.name).exists():
            place = now.folder / trial.name
            yield Problem(trial.name, f"has another folder at {place}", "move that folder away")


def _with(now: Study, then: Study, trials: Sequence[StudyTrial], typed: Sequence[str]) -> Study:
    """The study of now with these trials of then, each where it stood."""
    merged = _in_their_places(now.trials, then.trials, trials)
    rows = {row["row"]: row for row in (*then.rows, *now.rows)}
    cells = then.cells | now.cells
    names = [name for name in dict.fromkeys(trial.row for trial in merged) if name in rows]
    seeds = {trial.seed for trial in merged}
    asked = {
        "ts": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shell_line(shown_words(typed)),
        "restored": [trial.name for trial in trials],
    }
    return replace(
        now,
        trials=merged,
        rows=tuple(rows[name] for name in names),
        cells={name: cells[name] for name in names if name in cells},
        seeds=tuple(seed for seed in dict.fromkeys([*then.seeds, *now.seeds]) if seed in seeds),
        asked=(*now.asked, asked),
        code=tuple(dict.fromkeys([*then.code, *now.code])),
    )


def _in_their_places(
    now: Sequence[StudyTrial], then: Sequence[StudyTrial], restored: Sequence[StudyTrial]
) -> tuple[StudyTrial, ...]:
    """Those of now, with each restored one behind the trial that it stood behind."""
    merged = list(now)
    order = [trial.name for trial in then]
    for trial in restored:
        before = set(order[: order.index(trial.name)])
        places = [place for place, standing in enumerate(merged) if standing.name in before]
        merged.insert(max(places, default=-1) + 1, trial)
    return tuple(merged)


def _forget(item: Trashed, names: Sequence[str]) -> None:
    """Remove the emptied folder with its copy of the record, or list what it still holds."""
    left = [name for name in item.trials or () if name not in names]
    if left:
        content = {"study": item.study, "trials": left}
        write_atomic(item.place / DROPPED_FILE, to_json(content) + "\n")
        return
    for name in (DROPPED_FILE, STUDY_FILE):
        (item.place / name).unlink(missing_ok=True)
    if not any(item.place.iterdir()):
        item.place.rmdir()
