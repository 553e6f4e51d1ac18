"""A study on disk: the ordered trials of a sweep, and the commands that requested them. Also all
studies of a folder."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from tracking.card import Card
from tracking.code import VOUCHER
from tracking.files import (
    DamagedFileError,
    Form,
    UnreadableError,
    misfit,
    read_object,
    read_yaml,
    unless_damaged,
    write_atomic,
)
from tracking.trial import TrialFolder, TrialState
from tracking.weights import TO_SCORE_AGAIN, are_current
from tracking.words import trial_name

Published = dict[str, float | None]  # of the tabled metrics by name, and params_m (millions)
STUDY_FILE = "study.json"
ROW: Form = {"row": str, "group": str, "change": str, "published": dict}
FORM: Form = {
    "identity": str,
    "code": [str],
    "vouched": [VOUCHER],
    "margins": {...: float},
    "paired": bool,
    "references": {...: str},
    "task": dict,
    "settings": {...: dict},
    "rows": [ROW | {"before_scaling": str, "values": dict, "size": str | None}],
    "seeds": [int],
    "chosen": {...: dict},
    "trials": [ROW | {"seed": int, "key": str, "weights": str | None}],
    "cells": {...: dict},
    "asked": [{"ts": str, "command": str}],
}
"""What `study.json` has after the study's name, in this order."""
NEUTRAL: dict[str, Any] = {
    "identity": "",
    "code": [],
    "vouched": [],
    "margins": {},
    "paired": False,
    "references": {},
}
"""The values of a study that lacks them."""
FAULTS = {"failed": "failed", "damaged": "is damaged"}
"""The states in which a trial has no weights for others to score, in words."""


class StudyMissing(FileNotFoundError):  # noqa: N818 — the name reads as a sentence
    """The named folder has no study."""


@dataclass(frozen=True)
class StudyTrial:
    """One row trained with one seed."""

    row: str
    group: str  # the row's section of the table: base, A … E, big
    change: str
    seed: int
    # SHA-256 of everything that determines the weights, or of its host's key and the scoring
    key: str
    published: Published
    weights: str = ""  # the name of its host, if it only scores that trial's weights

    @property
    def name(self) -> str:
        return trial_name(self.row, self.seed)


@dataclass(frozen=True)
class Standing:
    """A trial, read once, since it may finish at any moment. A result of a different configuration
    doesn't count."""

    trial: StudyTrial
    state: TrialState
    result: dict[str, Any] | None  # of a finished trial

    @property
    def diverged(self) -> int | None:
        """The step at which a finished trial diverged."""
        return self.result.get("diverged") if self.result is not None else None

    @property
    def counted(self) -> dict[str, Any] | None:
        """The result, if means and tests use it: the trial is finished and did not diverge."""
        return None if self.diverged is not None else self.result


@dataclass(frozen=True)
class Study:
    """`<paths.runs>/<sweep.name>`: its trials in table order.

    A row holds its dotted `values`, its `change` in its own words, and the same `before_scaling`.
    ``code`` has the hashes of the user's code: the first one, then those that `--changed-code`
    brought. ``vouched`` has the vouchers of ``tracking.code``.
    """

    folder: Path
    trials: tuple[StudyTrial, ...]
    cells: dict[str, dict[str, object]]  # row -> its changed cells in the table; base has all cells
    # every command: {"ts", "command", "added", "dropped", "saw_results"}
    asked: tuple[dict[str, Any], ...]
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # common to all rows
    # {"row", "group", "change", "published", "values", "before_scaling", "size"}
    rows: tuple[dict[str, Any], ...] = ()
    seeds: tuple[int, ...] = ()
    # {"options", "values"} of the command line
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    identity: str = ""  # random; it stays when the folder is moved, and marks the tracker's runs
    code: tuple[str, ...] = ()
    vouched: tuple[dict[str, Any], ...] = ()
    margins: dict[str, float] = field(default_factory=dict)  # ``sweep.margin`` by metric
    paired: bool = False  # ``sweep.paired``: whether tests pair trained rows with base by seed
    references: dict[str, str] = field(default_factory=dict)  # ``sweep.references`` by row
    task: Card = field(kw_only=True)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def mark(self) -> str:
        """What identifies it in trackers: its identity, or its name if it has none yet."""
        return self.identity or self.name

    @property
    def begun(self) -> bool:
        """Whether any trial has a configuration on disk, which further settings must match."""
        return any(self.trial_folder(trial).config_path.exists() for trial in self.trials)

    @property
    def has_results(self) -> bool:
        """Whether any trial is finished, so that somebody may have seen its scores."""
        return any(
            self.trial_folder(trial).finished_result(trial.key) is not None for trial in self.trials
        )

    @property
    def showed_results(self) -> bool:
        """Whether it has results, or had some at an earlier command, such as of dropped trials."""
        return self.has_results or any(command.get("saw_results") for command in self.asked)

    @property
    def sizes(self) -> dict[str, str]:
        """A note for each row whose model has a new size although the row changes no size."""
        return {row["row"]: row["size"] for row in self.rows if row["size"]}

    @property
    def before_scaling(self) -> dict[str, str]:
        """The change before scaling, by the name of each row that scaling affects."""
        return {row["row"]: row["before_scaling"] for row in self.rows if row["before_scaling"]}

    def trial_folder(self, trial: StudyTrial) -> TrialFolder:
        return trial_folder(self.folder, trial.name, self.task)

    def host(self, trial: StudyTrial) -> StudyTrial | None:
        """The trial whose weights this one only scores; None if it trains its own."""
        if not trial.weights:
            return None
        return next((other for other in self.trials if other.name == trial.weights), None)

    def host_fault(self, trial: StudyTrial) -> str:
        """Why a trial that only scores has no weights, such as "base-s1 failed"; or ""."""
        host = self.host(trial)
        return weights_fault(self.trial_folder(host), host.key) if host else ""

    def standing(self, trial: StudyTrial) -> Standing:
        """A trial that scored weights which its host no longer has is to score again."""
        state, result = self.trial_folder(trial).standing(trial.key)
        if result is not None and not self.has_scored_weights(trial, result):
            return Standing(trial, TO_SCORE_AGAIN, None)
        return Standing(trial, state, result)

    def has_scored_weights(self, trial: StudyTrial, result: Mapping[str, Any]) -> bool:
        """Whether this result of the trial scores the weights that its host has now."""
        if not trial.weights:
            return True
        host = trial_folder(self.folder, trial.weights, self.task)
        return are_current(result, unless_damaged(host.result, None))

    def standings(self, trials: Iterable[StudyTrial] | None = None) -> list[Standing]:
        """The standings of all trials, or of these."""
        return [self.standing(trial) for trial in (self.trials if trials is None else trials)]

    def measured_sets(self) -> dict[str, list[str]]:
        """The sets that any counted trial has scores for, with the metrics that have a value."""
        metrics_of_set: dict[str, dict[str, None]] = {}
        for standing in self.standings():
            if standing.counted is None:
                continue
            for set_name, scores in standing.counted.get("scores", {}).items():
                metrics = metrics_of_set.setdefault(set_name, {})
                for metric in self.task.metrics:
                    if scores.get(metric.name) is not None:
                        metrics[metric.name] = None
        return {set_name: list(metrics) for set_name, metrics in metrics_of_set.items()}


def trial_folder(study: Path, name: str, card: Card) -> TrialFolder:
    """The folder of the trial of this name in a study's folder."""
    return TrialFolder(study / name, card)


def weights_fault(host: TrialFolder, key: str) -> str:
    """Why this trial has no weights for others to score, such as "base-s1 failed"; or ""."""
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
        if error.path == folder:  # a file, which the commands that need a folder refuse
            raise StudyMissing(f"no study at {path}") from None
        line = f" (line {error.line})" if error.line else ""
        raise DamagedFileError(path, f"not a study: {error.cause}{line}") from None
    if content is None:
        raise StudyMissing(f"no study at {path}")
    content = NEUTRAL | content
    fault = misfit(content, FORM)
    if fault:
        raise DamagedFileError(path, f"not a study: {fault}")
    try:
        return _parse(folder, content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFileError(path, f"not a study: {type(error).__name__}: {error}") from error


def task_of(folder: Path) -> Card | None:
    """The task of the study in ``folder``; None without a study, as for a trial that was copied on
    its own. Raises DamagedFileError or UnreadableError."""
    try:
        return read_study(folder).task
    except StudyMissing:
        return None


def record_lock(folder: Path) -> FileLock:
    """Held by whoever reads the study's ``study.json`` to write it again. Processes wait for each
    other."""
    return FileLock(folder / ".locks" / "study")


def write_study(study: Study) -> None:
    """Write `study.json` atomically."""
    content = {"name": study.name} | {name: getattr(study, name) for name in FORM}
    if not study.references:  # as in files of earlier versions
        del content["references"]
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=asdict)
    write_atomic(study.folder / STUDY_FILE, text + "\n")


def study_of_metrics(study: Study, names: Sequence[str], set_name: str | None) -> Study:
    """The study with a table of these metrics, by default the tabled ones, each on its own set or
    on this one.

    A metric on a set that is not its own loses its published values."""
    if not names and set_name is None:
        return study
    metrics = {metric.name: metric for metric in study.task.metrics}
    names = names or [metric.name for metric in study.task.tabled]
    tabled = []
    moved = set()  # published names of metrics on a set that is not their own
    for metric in [metrics[name] for name in names]:
        tabled.append(replace(metric, tabled=True, set=set_name or metric.set))
        if tabled[-1].set != metric.set:
            moved.add(metric.published_name)
    hidden = [
        replace(metric, tabled=False) for metric in metrics.values() if metric.name not in names
    ]
    note = "" if len(moved) == len(tabled) else study.task.published_note
    card = replace(study.task, metrics=(*tabled, *hidden), published_note=note)
    trials = tuple(_without_published(trial, moved) for trial in study.trials)
    return replace(study, task=card, trials=trials)


def _without_published(trial: StudyTrial, names: Collection[str]) -> StudyTrial:
    published = {name: value for name, value in trial.published.items() if name not in names}
    return replace(trial, published=published)


def study_of_seeds(study: Study, seeds: Iterable[int]) -> Study:
    """The study with these seeds only."""
    seeds = set(seeds)
    return replace(study, trials=tuple(trial for trial in study.trials if trial.seed in seeds))


def study_folders(runs: Path) -> list[Path]:
    """The folders with a study, by name."""
    return [path.parent for path in sorted(runs.glob(f"*/{STUDY_FILE}"))]


def recorded_runs(study: Path) -> list[str]:
    """Every ``paths.runs`` in the trials' configurations: several if the study was moved."""
    folders = []
    for path in sorted(study.glob("*/config.yaml")):
        paths = unless_damaged(partial(read_yaml, path, "paths"), None)
        if isinstance(paths, dict) and isinstance(paths.get("runs"), str):
            folders.append(paths["runs"])
    return list(dict.fromkeys(folders))


def studies(runs: Path) -> tuple[list[Study], list[DamagedFileError]]:
    """Every study, the most recently active first; and the faults of studies that can't be read."""
    readable = list[Study]()
    faults = list[DamagedFileError]()
    for folder in study_folders(runs):
        try:
            readable.append(read_study(folder))
        except DamagedFileError as error:
            faults.append(error)
        except StudyMissing:  # it was moved a moment ago
            continue
    if len(readable) > 1:
        readable.sort(key=last_active, reverse=True)
    return readable, faults


def last_active(study: Study) -> float:
    """The Unix seconds of the last command or report. Copying a study doesn't change them."""
    times = [0.0, *_command_times(study)]
    for trial in study.trials:
        folder = study.trial_folder(trial)
        attempt = folder.newest_attempt()
        if attempt is not None:
            times.append(attempt.ended or attempt.began)
        report = unless_damaged(folder.newest_report, None)
        if report is not None:
            times.append(report.ts)
    return max(times)


def last_asked(study: Study) -> float | None:
    """When the last recorded command asked for the study, in Unix seconds."""
    times = _command_times(study)
    return times[-1] if times else None


def _command_times(study: Study) -> list[float]:
    times = [seconds(command["ts"]) for command in study.asked]
    return [time for time in times if time]


def seconds(ts: str) -> float | None:
    """A command's time in Unix seconds; None if it is not a time."""
    with suppress(ValueError):
        time = datetime.fromisoformat(ts)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.timestamp()
    return None


def dotted(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested settings by their dotted keys."""
    values = dict[str, Any]()
    for name, value in tree.items():
        if isinstance(value, Mapping):
            values |= dotted(value, f"{prefix}{name}.")
        else:
            values[f"{prefix}{name}"] = value
    return values


def _parse(folder: Path, content: dict[str, Any]) -> Study:
    values = {name: content[name] for name in FORM}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    values["trials"] = tuple(StudyTrial(**trial) for trial in content["trials"])
    values["rows"] = tuple(row | {"size": row.get("size", "")} for row in content["rows"])
    values["task"] = Card.of(content["task"])
    # resolves `.`, but keeps a symbolic link's name
    return Study(Path(os.path.abspath(folder)), **values)  # noqa: PTH100
