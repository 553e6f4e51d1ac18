"""Replays a study's journals into a tracker: each point once, and no point that could be rolled back.

A retry cuts a journal back to a checkpoint, and a tracker cannot delete a point. So an unfinished trial is
replayed only up to its newest checkpoint. Two ledgers hold its progress (`tracking/ledger.py`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tracking.card import Card
from tracking.cause import cause_of, out_of_reach
from tracking.damage import DamagedFileError, read_whole, unless_damaged
from tracking.describe import params, points_of, result_points, run_spec, to_ms
from tracking.journal import JournalLine
from tracking.ledger import RUNS_FILE, SENT_FILE, SYNCED_FILE, Ledger, Synced, clear
from tracking.liveness import Attempt, Runner, runners, runs
from tracking.looks import looks_of
from tracking.metric_names import journal_name
from tracking.one_run import OneRun
from tracking.pages import Pages
from tracking.study import Study, Trial, read_study
from tracking.tracker import MOST_POINTS, Point, Status, Tracker
from tracking.trial_folder import TrialFolder, TrialState

STATUS: dict[TrialState, Status] = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "interrupted": "KILLED",
    "running": "RUNNING",
    "missing": "RUNNING",
    "damaged": "KILLED",
}

LEDGERS = (RUNS_FILE, SYNCED_FILE, SENT_FILE)


@dataclass(frozen=True)
class PassOutcome:
    """The outcome of one pass: runs visited, points sent, problems by trial, and notices to print.

    ``lasting``: only a person can solve the problems, so another pass would fail again.
    """

    runs: int
    points: int
    problems: tuple[str, ...]
    notices: tuple[str, ...] = ()
    lasting: bool = False


class Replay:
    """Sends one study to one tracker. Only one may run at a time: `sync` holds a lock."""

    def __init__(self, folder: Path, tracker: Tracker, uri: str) -> None:
        self._folder, self._tracker = folder, tracker
        self._notices = tuple(filter(None, (clear(folder / name) for name in LEDGERS)))
        self._runs, self._synced, self._sent = (Ledger(folder / name, uri) for name in LEDGERS)
        self._one = OneRun(tracker, self._sent)
        self._pages = Pages(tracker, self._sent)
        self._opened: dict[str, str] = {}  # trial key -> run id
        self._logged: set[str] = set()  # names of metrics while training
        self._runners: list[Runner] = []
        self._running: set[str] = set()  # keys of the trials that run now, on any machine
        self._ended: int | None = None  # the pid of a process that runs none of them any more
        self._seen: dict[str, object] = {}  # trial key -> the stamps of its files at the last replay
        self._stuck: str | None = None  # the key of the trial at which a pass ended: it comes last in the next one

    def once(self, ended: int | None = None) -> PassOutcome:
        """Replay every trial that has begun. A trial that fails does not hold back the others.

        ``ended`` is the pid of a process of this machine that runs no trial any more, though it may still be alive.
        A store that does not answer ends the pass: every further trial would wait as long.
        """
        study = read_study(self._folder)
        runs, points, lasting, problems = 0, 0, True, dict[str, list[str]]()
        notices, self._notices = self._notices, ()
        self._runners, self._running, self._ended = runners(self._folder), set(), ended
        for trial in sorted(study.trials, key=lambda trial: trial.key == self._stuck):
            try:
                sent = self._replay_changes(study, trial)
            except Exception as error:  # a broken file, or a server out of reach: reported and retried
                problems.setdefault(cause_of(error), []).append(trial.name)
                lasting = lasting and isinstance(error, DamagedFileError)
                if out_of_reach(error):
                    self._stuck = trial.key
                    break
                continue
            runs += sent is not None
            points += sent or 0
        if lasting:  # a server out of reach would fail again
            damaged = bool(problems)
            notices = self._show(study, notices, problems)
            lasting = damaged and "pages" not in {name for names in problems.values() for name in names}
        lines = (f"{_some(names)}: {cause}" for cause, names in problems.items())
        return PassOutcome(runs, points, tuple(lines), notices, lasting)

    def _show(self, study: Study, notices: tuple[str, ...], problems: dict[str, list[str]]) -> tuple[str, ...]:
        """Send the pages; a failure is one more problem. Returns all notices."""
        runs = {trial.key: run_id for trial in study.trials if (run_id := self._opened.get(trial.key)) is not None}
        try:
            return (*notices, *self._pages.once(study, runs, self._logged, self._running))
        except Exception as error:  # as for a trial
            problems.setdefault(cause_of(error), []).append("pages")
            return notices

    def _replay_changes(self, study: Study, trial: Trial) -> int | None:
        """Points sent; None before the trial has started."""
        folder = study.trial_folder(trial)
        attempts = folder.attempts()
        if not attempts:
            return None
        running = runs(attempts[-1], self._runners) and not self._has_ended(attempts[-1])
        self._running |= {trial.key} if running else set()
        looks = (looks_of(folder), running, study.trials.index(trial))
        if self._seen.get(trial.key) == looks:
            return 0
        sent = self._replay(study, trial, attempts)
        self._seen[trial.key] = looks
        return sent

    def _has_ended(self, attempt: Attempt) -> bool:
        return attempt.process.is_here and attempt.process.pid == self._ended

    def _replay(self, study: Study, trial: Trial, attempts: list[Attempt]) -> int:
        folder = study.trial_folder(trial)
        synced = self._open(study, trial, attempts)
        self._describe(study, trial, attempts, synced.run_id)
        journal = folder.journal()
        end_ms = to_ms(_end(attempts, journal))
        state = folder.state(trial.key)
        state = "interrupted" if state == "running" and self._has_ended(attempts[-1]) else state
        new = rollback_safe(journal, synced.step, everything=state == "finished")
        count = 0
        for step, points in batches((report.step, _points(folder.card, report)) for report in new):
            self._tracker.log_points(synced.run_id, points)
            self._logged |= {point.name for point in points}
            count += len(points)
            synced = Synced(synced.run_id, step, synced.result)
            self._synced.put(trial.key, asdict(synced))
        self._synced.put(trial.key, asdict(synced))
        if trial.key in self._running:  # its result may exist before the attempt's end, which gives the time
            self._tracker.set_status(synced.run_id, "RUNNING", None)
            return count
        sent = self._replay_result(trial, folder, synced, end_ms) if state == "finished" else 0
        status = STATUS[state]
        self._tracker.set_status(synced.run_id, status, None if status == "RUNNING" else end_ms)
        self._one.settle(trial.key, run_spec(study, trial, attempts), synced.run_id)
        return count + sent

    def _describe(self, study: Study, trial: Trial, attempts: list[Attempt], run_id: str) -> None:
        """Send params and tags if they changed."""
        sent = self._sent.parts(trial.key, run_id)
        values = params(study.trial_folder(trial))
        tags = run_spec(study, trial, attempts).tags
        new = {"params": _digest(values), "tags": _digest(tags)}
        if sent.get("params") != new["params"]:
            self._tracker.log_params(run_id, values)
        if sent.get("tags") != new["tags"]:
            self._tracker.set_tags(run_id, tags)
        self._sent.keep(trial.key, run_id, {**sent, **new})

    def _open(self, study: Study, trial: Trial, attempts: list[Attempt]) -> Synced:
        """The trial's run. If the tracker lost it, the trial is replayed from the start."""
        spec = run_spec(study, trial, attempts)
        run_id = self._one.open(trial.key, spec, self._runs.get(trial.key))
        self._runs.put(trial.key, run_id)
        self._opened[trial.key] = run_id
        synced = self._synced.synced(trial.key)
        return synced if synced is not None and synced.run_id == run_id else Synced(run_id)

    def _replay_result(self, trial: Trial, folder: TrialFolder, synced: Synced, end_ms: int) -> int:
        """Send scores and costs, unless this result was sent before.

        Their time is the end of the last attempt. MLflow takes the newest value as the latest. So a result that
        was scored again with other decode settings gets the time of its file.
        """
        digest = result_digest(folder)
        result = folder.result()
        if digest == synced.result or result is None:
            return 0
        if synced.result is not None:
            end_ms = max(end_ms, to_ms(folder.result_path.stat().st_mtime))
        points = result_points(folder.card, result, unless_damaged(folder.provenance, {}), end_ms)
        self._tracker.log_points(synced.run_id, points)
        self._synced.put(trial.key, asdict(Synced(synced.run_id, synced.step, digest)))
        return len(points)


def _digest(values: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def rollback_safe(journal: list[JournalLine], after: int, everything: bool) -> list[JournalLine]:
    """Reports after step `after`, up to the newest checkpoint unless the trial is finished."""
    checkpoints = [report.checkpoint for report in journal if report.checkpoint is not None]
    last = journal[-1].step if everything and journal else max(checkpoints, default=-1)
    return [report for report in journal if after < report.step <= last]


def batches(reports: Iterable[tuple[int, list[Point]]]) -> Iterator[tuple[int, list[Point]]]:
    """Reports joined up to MOST_POINTS, each batch with its last step. Larger reports stay whole."""
    last, joined = -1, list[Point]()
    for step, points in reports:
        if joined and len(joined) + len(points) > MOST_POINTS:
            yield last, joined
            joined = []
        last, joined = step, [*joined, *points]
    if last >= 0:
        yield last, joined


def _points(card: Card, report: JournalLine) -> list[Point]:
    named = {journal_name(card, name): value for name, value in report.metrics.items()}
    return points_of(named, to_ms(report.ts), report.step)


def _end(attempts: list[Attempt], journal: list[JournalLine]) -> float:
    """When the last attempt ended; without a recorded end, the time of its last report. Unix seconds.

    Never before the first one began: the clock may have been set back.
    """
    last = attempts[-1]
    end = max([last.began, *(report.ts for report in journal[-1:])]) if last.ended is None else last.ended
    return max(attempts[0].began, end)


def result_digest(folder: TrialFolder) -> str | None:
    """The SHA-256 of ``result.json``; None without it."""
    content = unless_damaged(lambda: read_whole(folder.result_path), None)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
