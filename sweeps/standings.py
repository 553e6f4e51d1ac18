"""Where each trial of a study stands, from its folders alone: as JSON, one object per trial."""

import socket
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.trees import nested
from sweeps.planning.recorded import read_record
from sweeps.planning.task_of import source_of_study
from sweeps.schema import RefusedError
from tracking.formats import stopped_at
from tracking.formats import time as as_time
from tracking.liveness import Runner, known_runners, stop_requests
from tracking.look import Look, look
from tracking.looks import Looks, looks_of
from tracking.mlflow.lag import Lag
from tracking.study import Study, Trial
from tracking.trial_folder import TrialFolder

RowConfig = Callable[[str], tuple[int | None, dict[str, Any] | None]]


def status_json(study: Study, lag: Lag) -> list[dict[str, Any]]:
    """One object per trial, in the order of the table."""
    return Standings(study).lines(lag)


class Standings:
    """The trials of a study, to be looked at more than once: only those are read again whose files changed."""

    def __init__(self, study: Study) -> None:
        self.study, self._rows = study, _Rows(study)
        self._folders = [(trial, study.trial_folder(trial)) for trial in study.trials]
        self._settled: dict[str, tuple[Looks, Look]] = {}  # by trial key, without those that may run

    def lines(self, lag: Lag) -> list[dict[str, Any]]:
        """One object per trial, in the order of the table."""
        known = known_runners(self.study.folder)
        running = _Runners(self.study, known)
        looks = [(trial, self._look(trial, folder)) for trial, folder in self._folders]
        return [_line(self.study, trial, seen, self._rows, lag, known, running) for trial, seen in looks]

    def _look(self, trial: Trial, folder: TrialFolder) -> Look:
        looks, known = looks_of(folder), self._settled.get(trial.key)
        if known is not None and known[0] == looks:
            return known[1]
        seen = look(folder, trial.key)
        if not seen.is_open:  # an open attempt may end without a word, when its process dies
            self._settled[trial.key] = looks, seen
        return seen


def _line(
    study: Study, trial: Trial, seen: Look, rows: "_Rows", lag: Lag, known: Sequence[Runner], running: "_Runners"
) -> dict[str, Any]:
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
        "note": "; ".join(filter(None, [where, running.note(trial.name, state), stopped_at(seen.result), seen.note])),
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

    def note(self, trial: str, state: str) -> str:
        """Such as "waiting for 4 GPUs, 2 are free", "waiting for its turn" or "asked to stop"."""
        if trial in self._stops and state in ("missing", "interrupted", "running"):
            return "asked to stop"
        return self._waits.get(trial, "") if state in ("missing", "interrupted") else ""


class _Rows:
    """What the study says of its rows today, each composed once; nothing if its task cannot be imported from here."""

    def __init__(self, study: Study) -> None:
        try:
            self._config = _configs(study)
        except RefusedError:
            self._config = lambda row: (None, None)

    def steps(self, row: str) -> int | None:
        """How many steps its trials have."""
        return self._config(row)[0]

    def scores_differ(self, row: str, result: dict[str, Any] | None) -> bool:
        """Whether a finished trial was scored with different settings than the study has now."""
        scoring = self._config(row)[1]
        if result is None or scoring is None:
            return False
        return any(scores["decode"] != scoring for scores in result["scores"].values())


def _configs(study: Study) -> RowConfig:
    """The steps and the settings for scoring of each row. Raises RefusedError."""
    source = source_of_study(study, Path.cwd())
    record, schema = read_record(study, source), Schema.of(source.task)

    @cache
    def known(row: str) -> tuple[int | None, dict[str, Any] | None]:
        try:
            config = schema.config(nested(record.expected(row, record.settings)))
        except RefusedError:
            return None, None
        return schema.task.steps(config), schema.scoring(config)

    return known
