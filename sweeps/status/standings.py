"""Where each trial of a study stands, from its folders alone: as JSON, one object per trial."""

import socket
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.planning.composition import read_record
from sweeps.planning.naming import source_of_study
from sweeps.schema import RefusedError, nested
from tracking.attempts import Runner, known_runners, stop_requests
from tracking.look import Look, Stamps, look, stamps_of
from tracking.mlflow.ledger import Lag
from tracking.study import Study, Trial
from tracking.trial import TrialFolder
from tracking.words import stopped_at
from tracking.words import time as as_time

Line = dict[str, Any]
"""One trial: what `status --json` prints, and for the tables also ``look`` and ``watched``."""
ONLY_SHOWN = ("look", "watched")


def status_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines for programs."""
    return [{name: value for name, value in line.items() if name not in ONLY_SHOWN} for line in lines]


class Standings:
    """The trials of a study, to be looked at more than once: only those are read again whose files changed."""

    def __init__(self, study: Study) -> None:
        self.study, self._rows = study, _Rows(study)
        self._folders = [(trial, study.trial_folder(trial)) for trial in study.trials]
        self._known: dict[str, tuple[Stamps | None, Look]] = {}  # by trial key; None for trials that may run

    def lines(self, lag: Lag, changing: Collection[str] | None = None) -> list[Line]:
        """One per trial, in the order of the table. With the names of those that are ``changing``, others are shown
        as they were."""
        known = known_runners(self.study.folder)
        running = _Runners(self.study, known)
        looks = [
            (trial, self._look(trial, folder, changing is None or trial.name in changing))
            for trial, folder in self._folders
        ]
        return [_line(self.study, trial, seen, self._rows, lag, known, running) for trial, seen in looks]

    def _look(self, trial: Trial, folder: TrialFolder, again: bool) -> Look:
        known = self._known.get(trial.key)
        if known is not None and not again:
            return known[1]
        stamps = stamps_of(folder)
        if known is not None and known[0] == stamps:
            return known[1]
        seen = look(folder, trial.key)
        alive = seen.is_open and not seen.ended_here  # it may end without a word, when its process dies
        self._known[trial.key] = None if alive else stamps, seen
        return seen


def _line(
    study: Study, trial: Trial, seen: Look, rows: "_Rows", lag: Lag, known: Sequence[Runner], running: "_Runners"
) -> Line:
    headline, steps = study.task.headline, rows.steps(trial.row)
    state, where = _state(seen, known)
    return {
        "row": trial.row,
        "seed": trial.seed,
        "key": trial.key,
        "state": "to score again" if rows.scores_differ(trial.row, seen.result) else state,
        "step": seen.newest.step if seen.newest else None,
        "steps": steps,
        "seconds_left": seen.seconds_left(steps) if state == "running" else None,
        "attempts": len(seen.attempts),
        f"{headline.set}_{headline.name}": seen.score,
        "synced_step": lag.steps.get(trial.key),
        "note": "; ".join(
            filter(None, [where, running.note(trial.name, state, seen), stopped_at(seen.result), seen.note])
        ),
        "look": seen,
        "watched": {label: seen.newest.metrics.get(name) if seen.newest else None for name, label in rows.watched},
    }


def _state(seen: Look, known: Sequence[Runner]) -> tuple[str, str]:
    """The state, and what to say of an attempt on another machine, whose process cannot be asked."""
    attempt = seen.attempt
    runner = next((each for each in known if attempt and each.process == attempt.process), None)
    if not (seen.is_open and seen.state == "interrupted") or runner is None or runner.process.is_here:
        return seen.state, ""
    host = runner.process.host
    if runner.lives():
        return "running", f"on {host}"
    if host == socket.gethostname():  # before a reboot, or in a container that has ended
        return seen.state, ""
    return "silent", f"silent for {as_time(time.time() - runner.seen)} on {host}"


class _Runners:
    """What the processes that run now mean for the trials that still run or wait."""

    def __init__(self, study: Study, known: Sequence[Runner]) -> None:
        self._waits, self._stops = dict[str, str](), set[str]()  # why, by the name of the trial
        for runner in (each for each in known if each.lives()):
            self._waits |= dict.fromkeys(runner.trials, f"waiting for {runner.waiting or 'its turn'}")
            asked = stop_requests(study.folder, runner)
            self._stops.update(runner.trials if asked is None else asked)

    def note(self, trial: str, state: str, seen: Look) -> str:
        """Such as "waiting for 4 GPUs, 2 are free", "waiting for its turn", "retry after: …" or "asked to stop"."""
        if trial in self._stops and state in ("missing", "interrupted", "running"):
            return "asked to stop"
        waits = self._waits.get(trial, "") if state in ("missing", "interrupted") else ""
        lost = _lost(seen) if waits or (state == "running" and not seen.has_reported) else ""
        return "; ".join(filter(None, [waits, lost]))


def _lost(seen: Look) -> str:
    """Why the attempt before was lost, if it was."""
    reasons = [attempt.reason for attempt in seen.attempts if attempt.reason]
    head, mark, cause = reasons[-1].partition("worker lost: ") if reasons else ("", "", "")
    return f"retry after: {cause}" if mark and not head else ""


class _Rows:
    """What the study says of its rows today; nothing of those that cannot be composed, or without the task's code."""

    def __init__(self, study: Study) -> None:
        self._known: dict[str, tuple[int, dict[str, Any]]] = {}  # steps and settings for scoring
        self.watched: Sequence[tuple[str, str]] = ()  # reported metrics that the task shows, with their headings
        with suppress(RefusedError):
            source = source_of_study(study, Path.cwd())
            self.watched, schema = tuple(source.task.watched.items()), Schema.of(source.task)
            record = read_record(study, source)
            for row in dict.fromkeys(trial.row for trial in study.trials):
                with suppress(RefusedError):
                    config = schema.config(nested(record.expected(row, record.settings)))
                    self._known[row] = schema.task.steps(config), schema.scoring(config)

    def steps(self, row: str) -> int | None:
        """How many steps its trials have."""
        return self._known[row][0] if row in self._known else None

    def scores_differ(self, row: str, result: dict[str, Any] | None) -> bool:
        """Whether a finished trial was scored with different settings than the study has now."""
        if result is None or row not in self._known:
            return False
        return any(scores["decode"] != self._known[row][1] for scores in result["scores"].values())
