"""Replays a study's journals into a tracker, each point once, and never what could be rolled back.

A retry cuts a journal back to a checkpoint, and a tracker cannot forget a point. So an unfinished trial is
replayed up to its newest checkpoint only. Two files say how far: `mlflow-runs.json` holds
{uri: {trial key: run id}}, `mlflow-synced.json` {uri: {trial key: Synced}}. Both may be lost: runs are found
again by their tags, and a replay with the journal's times changes nothing.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracking.describe import params, result_points, run_spec, to_ms
from tracking.files import write_atomic
from tracking.study import Study, Trial, read_study
from tracking.tracker import Point, Status, Tracker
from tracking.trial import CHECKPOINT, Attempt, Report, State, TrialFolder
from tracking.uri import without_password

STATUS: dict[State, Status] = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "interrupted": "KILLED",
    "running": "RUNNING",
    "missing": "RUNNING",
}
RUNS_FILE = "mlflow-runs.json"


@dataclass(frozen=True)
class Synced:
    """How far a run is: the last step replayed, and the SHA-256 of the result whose scores it has."""

    run_id: str
    step: int = -1
    result: str | None = None


@dataclass(frozen=True)
class Pass:
    """What one pass did: runs looked at, points sent, and what went wrong with which trial."""

    runs: int
    points: int
    problems: tuple[str, ...]


class Ledger:
    """One of the two files, for one tracker: trial key -> value."""

    def __init__(self, path: Path, uri: str) -> None:
        self._path, self._uri = path, without_password(uri)
        self._all: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str) -> Any:
        return self._all.get(self._uri, {}).get(key)

    def put(self, key: str, value: Any) -> None:
        if self.get(key) != value:
            self._all.setdefault(self._uri, {})[key] = value
            write_atomic(self._path, json.dumps(self._all, indent=1) + "\n")


def trial_of_run(runs: Path, run_id: str) -> Path | None:
    """The folder of the trial that was carried to this run of a tracker; None if no study below `runs` was.

    A study that cannot be read is passed over: it must not hide the others.
    """
    for path in sorted(runs.glob(f"*/{RUNS_FILE}")):
        try:
            ledgers: dict[str, dict[str, str]] = json.loads(path.read_text())
            trials = read_study(path.parent).trials
        except (OSError, ValueError):
            continue
        keys = {key for runs_of_one in ledgers.values() for key, known in runs_of_one.items() if known == run_id}
        for trial in trials:
            if trial.key in keys:
                return path.parent / trial.name
    return None


def run_of_trial(folder: Path, key: str, uri: str) -> str | None:
    """The run that the trial of this key in this study has in the tracker at `uri`; None before it was carried."""
    found = Ledger(folder / RUNS_FILE, uri).get(key)
    return None if found is None else str(found)


class Replay:
    """Carries one study to one tracker. Only one may run at a time: `sync` holds a lock."""

    def __init__(self, folder: Path, tracker: Tracker, uri: str) -> None:
        self._folder, self._tracker = folder, tracker
        self._runs = Ledger(folder / RUNS_FILE, uri)
        self._synced = Ledger(folder / "mlflow-synced.json", uri)
        self._seen: dict[str, object] = {}  # trial key -> what its files looked like when last replayed

    def once(self) -> Pass:
        """Replay every trial that has begun. One that cannot be replayed does not keep back the others."""
        study = read_study(self._folder)
        runs, points, problems = 0, 0, []
        for trial in study.trials:
            try:
                sent = self._replay_changes(study, trial)
            except Exception as error:  # a broken file, or a server out of reach: reported, tried again
                problems.append(f"{trial.name}: {first_line(error)}")
                continue
            runs += sent is not None
            points += sent or 0
        return Pass(runs, points, tuple(problems))

    def _replay_changes(self, study: Study, trial: Trial) -> int | None:
        """Points sent; None when the trial has not begun."""
        folder = study.trial_folder(trial)
        attempts = folder.attempts()
        if not attempts:
            return None
        looks = (_looks(folder), attempts[-1].lives(), study.trials.index(trial))
        if self._seen.get(trial.key) == looks:
            return 0
        sent = self._replay(study, trial, attempts)
        self._seen[trial.key] = looks
        return sent

    def _replay(self, study: Study, trial: Trial, attempts: list[Attempt]) -> int:
        folder = study.trial_folder(trial)
        synced = self._open(study, trial, attempts)
        self._tracker.log_params(synced.run_id, params(folder))
        self._tracker.set_tags(synced.run_id, run_spec(study, trial, attempts).tags)
        journal = folder.journal()
        end_ms = to_ms(_end(attempts[-1], journal))
        state = folder.state(trial.key)
        new = _rollback_safe(journal, synced.step, everything=state == "finished")
        points = [point for report in new for point in _points(report)]
        self._tracker.log_points(synced.run_id, points)
        synced = Synced(synced.run_id, new[-1].step if new else synced.step, synced.result)
        self._synced.put(trial.key, asdict(synced))
        if attempts[-1].lives():  # a result may stand already, but not its attempt's end, so not its time
            self._tracker.set_status(synced.run_id, "RUNNING", None)
            return len(points)
        sent = self._replay_result(trial, folder, synced, end_ms) if state == "finished" else 0
        status = STATUS[state]
        self._tracker.set_status(synced.run_id, status, None if status == "RUNNING" else end_ms)
        return len(points) + sent

    def _open(self, study: Study, trial: Trial, attempts: list[Attempt]) -> Synced:
        """The trial's run; one that the tracker no longer has is replayed from the start."""
        spec = run_spec(study, trial, attempts)
        run_id = self._tracker.open_run(spec, self._runs.get(trial.key))
        self._runs.put(trial.key, run_id)
        stored = self._synced.get(trial.key)
        return Synced(**stored) if stored and stored["run_id"] == run_id else Synced(run_id)

    def _replay_result(self, trial: Trial, folder: TrialFolder, synced: Synced, end_ms: int) -> int:
        """Send scores and costs, unless this very result was sent.

        Their time is the end of the last attempt. Scored again by other decode settings, the result has
        changed while the end has not: then it is the file's, since "latest" is decided by time.
        """
        digest = hashlib.sha256(folder.result_path.read_bytes()).hexdigest()
        result = folder.result()
        if digest == synced.result or result is None:
            return 0
        if synced.result is not None:
            end_ms = max(end_ms, to_ms(folder.result_path.stat().st_mtime))
        points = result_points(result, end_ms)
        self._tracker.log_points(synced.run_id, points)
        self._synced.put(trial.key, asdict(Synced(synced.run_id, synced.step, digest)))
        return len(points)


def _rollback_safe(journal: list[Report], after: int, everything: bool) -> list[Report]:
    """Reports after step `after`, up to the newest checkpoint unless the trial is finished."""
    checkpoints = [report.metrics[CHECKPOINT] for report in journal if CHECKPOINT in report.metrics]
    last = journal[-1].step if everything and journal else max(checkpoints, default=-1)
    return [report for report in journal if after < report.step <= last]


def _points(report: Report) -> list[Point]:
    ts_ms = to_ms(report.ts)
    return [Point(name, value, ts_ms, report.step) for name, value in report.metrics.items()]


def _end(last: Attempt, journal: list[Report]) -> float:
    """When the last attempt ended; for one that left no end, when it was last heard of. Unix seconds."""
    if last.ended is not None:
        return last.ended
    return max([last.began, *(report.ts for report in journal[-1:])])


def _looks(folder: TrialFolder) -> tuple[object, ...]:
    paths = (folder.attempts_path, folder.journal_path, folder.result_path, folder.error_path)
    return tuple(_stamp(path) for path in (*paths, folder.config_path, folder.provenance_path))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def first_line(error: Exception) -> str:
    """What went wrong, in one line that may be shown."""
    return without_password(f"{type(error).__name__}: {str(error).strip()}".splitlines()[0])
