"""A study on disk: the ordered trials of a sweep, and the commands that requested them; all studies
of a folder."""

import json
import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from tracking.card import Card
from tracking.files import (
    DamagedFileError,
    Form,
    UnreadableError,
    misfit,
    read_object,
    unless_damaged,
    write_atomic,
)
from tracking.same_code import VOUCHER
from tracking.trial import TrialFolder, TrialState
from tracking.weights import TO_SCORE_AGAIN, are_current

Published = dict[str, float | None]  # of the tabled metrics by name, and params_m (millions)
STUDY_FILE = "study.json"
ROW: Form = {"row": str, "group": str, "change": str, "published": dict}
FORM: Form = {
    **{"identity": str, "code": [str], "vouched": [VOUCHER]},
    **{"margins": {...: float}, "paired": bool, "task": dict},
    "settings": {...: dict},
    "rows": [ROW | {"before_scaling": str, "values": dict, "size": str | None}],
    **{"seeds": [int], "chosen": {...: dict}},
    "trials": [ROW | {"seed": int, "key": str, "weights": str | None}],
    **{"cells": {...: dict}, "asked": [{"ts": str, "command": str}]},
}
"""What it holds besides the study's name, in this order."""
NEUTRAL: dict[str, Any] = {
    "identity": "",
    "code": [],
    "vouched": [],
    "margins": {},
    "paired": False,
}
"""What a study that lacks one of these has."""


FAULTS = {"failed": "failed", "damaged": "is damaged"}
"""The states of a trial in which it has no weights for others to score, in words."""


class StudyMissing(FileNotFoundError):  # noqa: N818 — the name reads as a sentence
    """The named folder has no study."""


@dataclass(frozen=True)
class StudyTrial:
    """One row trained with one seed."""

    row: str
    group: str  # the row's section of the table: base, A … E, big
    change: str
    seed: int
    key: str  # SHA-256 of all that determines the trained weights, or of its host's key and how it scores these
    published: Published
    weights: str = ""  # the name of the trial whose weights it only scores; "" if it trains its own

    @property
    def name(self) -> str:
        return f"{self.row}-s{self.seed}"


@dataclass(frozen=True)
class Standing:
    """A trial, read once, since it may finish at any moment. A result of another configuration is
    none."""

    trial: StudyTrial
    state: TrialState
    result: dict[str, Any] | None  # of a finished trial

    @property
    def diverged(self) -> int | None:
        """The step at which a finished trial diverged."""
        return self.result.get("diverged") if self.result is not None else None

    @property
    def counted(self) -> dict[str, Any] | None:
        """The result, if means and tests take it: that of a finished trial that did not diverge."""
        return None if self.diverged is not None else self.result


@dataclass(frozen=True)
class Study:
    """`<paths.runs>/<sweep.name>`: its trials in table order.

    A row holds its dotted `values`, its `change` in its own words, and that `before_scaling`,
    before scaling.
    """

    folder: Path
    trials: tuple[StudyTrial, ...]
    cells: dict[str, dict[str, object]]  # row -> its changed cells in the table; base has all cells
    asked: tuple[
        dict[str, Any], ...
    ]  # every command: {"ts", "command", "added", "dropped", "saw_results"}
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # common to all rows
    rows: tuple[
        dict[str, Any], ...
    ] = ()  # {"row", "group", "change", "published", "values", "before_scaling", "size"}
    seeds: tuple[int, ...] = ()
    chosen: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # {"options", "values"} of the command line
    identity: str = (
        ""  # random; it stays when the folder is moved, and a tracker finds the runs by it
    )
    code: tuple[
        str, ...
    ] = ()  # hashes of the user's code: that of the beginning, then what `--changed-code` brought
    vouched: tuple[
        dict[str, Any], ...
    ] = ()  # versions that trained the same weights, see ``tracking.same_code``
    margins: dict[str, float] = field(
        default_factory=dict
    )  # by metric, the δ of ``sweep.margin``, in its units
    paired: bool = (
        False  # ``sweep.paired``: whether trained rows are tested at the seeds that base has, too
    )
    task: Card = field(kw_only=True)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def mark(self) -> str:
        """What trackers know it by: its identity, or its name if it has none yet."""
        return self.identity or self.name

    @property
    def begun(self) -> bool:
        """Whether any trial has a configuration on disk, with which other settings could be
        mixed."""
        return any(self.trial_folder(trial).config_path.exists() for trial in self.trials)

    @property
    def has_results(self) -> bool:
        """Whether any trial is finished, so that somebody may have seen its scores."""
        return any(
            self.trial_folder(trial).finished_result(trial.key) is not None for trial in self.trials
        )

    @property
    def showed_results(self) -> bool:
        """Whether results are there, or were when a command was recorded, as those of trials that
        were dropped."""
        return self.has_results or any(command.get("saw_results") for command in self.asked)

    @property
    def sizes(self) -> dict[str, str]:
        """A note for each row whose model differs from base's in size, although the row changes no
        size."""
        return {row["row"]: row["size"] for row in self.rows if row["size"]}

    @property
    def before_scaling(self) -> dict[str, str]:
        """The change of each row before scaling, where scaling touches it."""
        return {row["row"]: row["before_scaling"] for row in self.rows if row["before_scaling"]}

    def trial_folder(self, trial: StudyTrial) -> TrialFolder:
        return trial_folder(self.folder, trial.name, self.task)

    def host(self, trial: StudyTrial) -> StudyTrial | None:
        """The trial whose weights this one only scores; None if it trains its own."""
        return next((each for each in self.trials if each.name == trial.weights), None)

    def host_fault(self, trial: StudyTrial) -> str:
        """Why there are no weights for a trial that only scores, such as "base-s1 failed"; or
        ""."""
        host = self.host(trial)
        return weights_fault(self.trial_folder(host), host.key) if host else ""

    def standing(self, trial: StudyTrial) -> Standing:
        """Scores of other weights than those of its host are none: the trial is to be scored
        again."""
        state, result = self.trial_folder(trial).standing(trial.key)
        if result is not None and not self.has_scored_weights(trial, result):
            return Standing(trial, TO_SCORE_AGAIN, None)
        return Standing(trial, state, result)

    def has_scored_weights(self, trial: StudyTrial, result: Mapping[str, Any]) -> bool:
        """Whether this result of the trial scores the weights that it would score now."""
        if not trial.weights:
            return True
        host = trial_folder(self.folder, trial.weights, self.task)
        return are_current(result, unless_damaged(host.result, None))

    def standings(self, trials: Iterable[StudyTrial] | None = None) -> list[Standing]:
        """Of all trials, or of these."""
        return [self.standing(trial) for trial in (self.trials if trials is None else trials)]

    def measured_sets(self) -> dict[str, list[str]]:
        """The sets with scores in any trial that counts, each with the metrics that have a value
        there."""
        found: dict[str, list[str]] = {}
        for each in self.standings():
            for name, of_set in (each.counted or {}).get("scores", {}).items():
                metrics = [
                    metric.name
                    for metric in self.task.metrics
                    if of_set.get(metric.name) is not None
                ]
                found[name] = list(dict.fromkeys([*found.get(name, []), *metrics]))
        return found


def trial_folder(study: Path, name: str, card: Card) -> TrialFolder:
    """Where the trial of this name lies in a study's folder."""
    return TrialFolder(study / name, card)


def weights_fault(host: TrialFolder, key: str) -> str:
    """Why the trial in this folder has no weights for others to score, such as "base-s1 failed"; or
    ""."""
    state, result = host.standing(key)
    if result is not None and result.get("diverged") is not None:
        return f"{host.path.name} diverged"
    return f"{host.path.name} {FAULTS[state]}" if state in FAULTS else ""


def read_study(folder: Path) -> Study:
    """The study in `folder`. Raises StudyMissing, DamagedFileError or UnreadableError."""
    path = folder / STUDY_FILE
    try:
        content = read_object(path)
    except UnreadableError:
        raise
    except DamagedFileError as error:
        if (
            error.path == folder
        ):  # a file lies in its place: what needs a folder there refuses it by its key
            raise StudyMissing(f"no study at {path}") from None
        at = f" (line {error.line})" if error.line else ""
        raise DamagedFileError(path, f"not a study: {error.cause}{at}") from None
    if content is None:
        raise StudyMissing(f"no study at {path}")
    content = NEUTRAL | content
    if wrong := misfit(content, FORM):
        raise DamagedFileError(path, f"not a study: {wrong}")
    try:
        return _parse(folder, content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(path, f"not a study: {type(error).__name__}: {error}") from error


def task_of(folder: Path) -> Card | None:
    """The task of the study in ``folder``; None where no study is, as for a trial that was copied
    alone.

    Raises DamagedFileError or UnreadableError."""
    try:
        return read_study(folder).task
    except StudyMissing:
        return None


def separate(folder: Path) -> None:
    """Give the study a new identity, so that trackers make new runs. Raises StudyMissing,
    DamagedFileError."""
    with FileLock(folder / ".locks" / "study"):
        write_study(replace(read_study(folder), identity=uuid.uuid4().hex))


def write_study(study: Study) -> None:
    """Write `study.json` atomically."""
    content = {"name": study.name} | {name: getattr(study, name) for name in FORM}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=asdict)
    write_atomic(study.folder / STUDY_FILE, text + "\n")


def study_of_metrics(study: Study, names: Sequence[str], set_name: str | None) -> Study:
    """The study with a table of these metrics, by default those it has, each on its own or on this
    set.

    Published values belong to the metric's own set, so that they are left out on another one."""
    if not names and set_name is None:
        return study
    known = {metric.name: metric for metric in study.task.metrics}
    shown = [known[name] for name in names or [metric.name for metric in study.task.tabled]]
    tabled = [replace(metric, tabled=True, set=set_name or metric.set) for metric in shown]
    others = [replace(metric, tabled=False) for metric in known.values() if metric not in shown]
    moved = {
        new.published_name
        for new, metric in zip(tabled, shown, strict=True)
        if new.set != metric.set
    }
    note = "" if len(moved) == len(tabled) else study.task.published_note
    card = replace(study.task, metrics=(*tabled, *others), published_note=note)
    return replace(
        study, task=card, trials=tuple(_without_published(trial, moved) for trial in study.trials)
    )


def _without_published(trial: StudyTrial, names: Collection[str]) -> StudyTrial:
    return replace(
        trial, published={name: of for name, of in trial.published.items() if name not in names}
    )


def study_of_seeds(study: Study, seeds: Iterable[int]) -> Study:
    """The study with these seeds only."""
    kept = set(seeds)
    return replace(study, trials=tuple(trial for trial in study.trials if trial.seed in kept))


def study_folders(runs: Path) -> list[Path]:
    """The folders with a study, by name."""
    return [path.parent for path in sorted(runs.glob(f"*/{STUDY_FILE}"))]


def studies(runs: Path) -> tuple[list[Study], list[DamagedFileError]]:
    """Every study, the most recently active first; and the faults of studies that cannot be
    read."""
    found = list[Study]()
    faults = list[DamagedFileError]()
    for folder in study_folders(runs):
        try:
            found.append(read_study(folder))
        except DamagedFileError as error:
            faults.append(error)
        except StudyMissing:  # it was moved a moment ago
            continue
    return sorted(found, key=last_active, reverse=True) if len(found) > 1 else found, faults


def last_active(study: Study) -> float:
    """When a command asked for the study, or a trial reported, in Unix seconds. Copying a study
    does not change it."""
    return max([0.0, *_times(study)])


def last_asked(study: Study) -> float | None:
    """When the last command of its record asked for the study, in Unix seconds."""
    times = [*_asked(study)]
    return times[-1] if times else None


def _times(study: Study) -> Iterator[float]:
    yield from _asked(study)
    for trial in study.trials:
        folder = study.trial_folder(trial)
        if attempt := folder.newest_attempt():
            yield attempt.ended or attempt.began
        if report := unless_damaged(folder.newest_report, None):
            yield report.ts


def _asked(study: Study) -> Iterator[float]:
    yield from filter(None, (seconds(asked["ts"]) for asked in study.asked))


def seconds(ts: str) -> float | None:
    """A command's time in Unix seconds; None if it is no time."""
    with suppress(ValueError):
        when = datetime.fromisoformat(ts)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return None


def _parse(folder: Path, content: dict[str, Any]) -> Study:
    return Study(
        folder=Path(os.path.abspath(folder)),  # noqa: PTH100 — resolves `.`, but keeps a symbolic link's name
        trials=tuple(StudyTrial(**trial) for trial in content["trials"]),
        cells=content["cells"],
        asked=tuple(content["asked"]),
        settings=content["settings"],
        rows=tuple({**row, "size": row.get("size", "")} for row in content["rows"]),
        seeds=tuple(content["seeds"]),
        chosen=content["chosen"],
        identity=content["identity"],
        code=tuple(content["code"]),
        vouched=tuple(content["vouched"]),
        margins=content["margins"],
        paired=content["paired"],
        task=Card.of(content["task"]),
    )
