"""Sends what the run of a trial lacks: its settings, its reports, and its result."""

from collections.abc import Sequence

from tracking.json_lines.journal import Journal, JournalLine, settled
from tracking.mlflow import pages
from tracking.mlflow.describe import Described, journal_points
from tracking.mlflow.ledger import STUDY, UNLIKE, result_digest
from tracking.mlflow.replay.one_pass import Pass
from tracking.mlflow.replay.other_folder import carried
from tracking.mlflow.replay.run_finder import RunFinder
from tracking.mlflow.replay.study_runs import StudyRuns
from tracking.mlflow.runs import CARRIED, Point
from tracking.mlflow.store import Status, Store
from tracking.study import StudyTrial
from tracking.trial import TrialState
from tracking.weights import TO_SCORE_AGAIN

STATUS: dict[TrialState, Status] = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "running": "RUNNING",
}
WITH_RESULT = ("finished", TO_SCORE_AGAIN)
"""States in which a trial has a result, and all its reports can be sent."""


class TrialReplay:
    """Replays trials, one at a time.

    ``logged``: the names of all metrics while training. ``changed_names``: the task's names that
    differ in MLflow, each with its name there.
    """

    def __init__(self, runs: StudyRuns, store: Store, finder: RunFinder) -> None:
        self.logged: set[str] = set()
        self.changed_names: dict[str, str] = {}
        self._runs = runs
        self._store = store
        self._finder = finder

    def replay(self, this_pass: Pass, trial: StudyTrial) -> None:
        """Send what the trial's run lacks if its files have changed since the last time."""
        attempts = this_pass.study.trial_folder(trial).attempts.all()
        if not attempts:
            return
        key = trial.key
        this_pass.running.look_at(key, attempts[-1])
        stamps = this_pass.files.of_trial(trial, is_running=key in this_pass.running.keys)
        sent = self._runs.stamps.get(key)
        if sent == stamps:
            this_pass.points[key] = 0
            return
        described = Described(this_pass.study, trial, attempts)
        points = self._send(this_pass, described)
        if sent is None or sent.settled != stamps.settled:
            self._runs.due |= {key, STUDY}
        self._runs.stamps[key] = stamps
        this_pass.points[key] = points

    def _send(self, this_pass: Pass, described: Described) -> int:
        """Send what the trial's run lacks. Returns the number of points."""
        state = _state(this_pass, described)
        has_result = state in WITH_RESULT
        sendable = settled(Journal(described.folder.journal_path), everything=has_result)
        # read after the journal's end, so that it has everything that can be sent
        reports = described.journal
        run = self._finder.run_of_training(this_pass, described)
        self._send_settings(this_pass, described)
        points = self._send_reports(described, reports[:sendable])
        if described.trial.key in this_pass.running.keys:
            self._set_running(run, described)
        else:
            points += self._end(run, described, state)
        return points

    def _send_settings(self, this_pass: Pass, described: Described) -> None:
        """Send what doesn't depend on reports or a result."""
        self._runs.send(described.trial.key, described.parts)
        self._remark_on_params(this_pass, described)
        self.changed_names |= described.changed_names

    def _remark_on_params(self, this_pass: Pass, described: Described) -> None:
        """Say which params differ from the configuration: MLflow never changes one."""
        key = described.trial.key
        stored = self._runs.stored.get(self._runs.ids[key])
        if stored is None:
            return
        unlike = ", ".join(stored.unlike_params(described.params))
        if unlike and unlike != self._runs.sent(key).parts.get(UNLIKE, ""):
            remark = "MLflow cannot change params; old values stay"
            this_pass.remarks.append(f"{described.trial.name}: {remark}: {unlike}")
        self._runs.record_part(key, UNLIKE, unlike)

    def _send_reports(self, described: Described, reports: Sequence[JournalLine]) -> int:
        """Send the points of reports after the last step that was sent. Returns their number."""
        key = described.trial.key
        sent = self._runs.sent(key)
        points: list[Point] = []
        step = sent.step
        for report in reports:
            if report.step > sent.step:
                points += journal_points(described.card, report)
                step = report.step
        self._store.log_points(sent.run, points)
        if step != sent.step:
            self._runs.record(key, step=step)
        for report in described.journal:
            self.logged.update(pages.points_in(described.card, report))
        return len(points)

    def _set_running(self, run: str, described: Described) -> None:
        """A result may exist before the attempt's end, which gives the time: it is sent then."""
        self._send_carried(described, None)
        self._store.set_status(run, "RUNNING", None)

    def _end(self, run: str, described: Described, state: TrialState) -> int:
        """Send the result, if there is one, and the status. Returns the number of points."""
        key = described.trial.key
        has_result = state in WITH_RESULT
        result = result_digest(described.folder) if has_result else None
        self._send_carried(described, result)
        points = 0
        if has_result:  # scores of other weights are no longer among the numbers
            points = self._runs.send(key, {"numbers": described.numbers})
            self._runs.record(key, result=result)
        self._set_status(run, described, STATUS.get(state, "KILLED"))
        return points

    def _send_carried(self, described: Described, result: str | None) -> None:
        """Send the tag that says what the run has: its last step, and the digest of its result."""
        key = described.trial.key
        tag = carried(self._runs.sent(key).step, described.journal, result)
        self._runs.send(key, {"tags of the journal": {CARRIED: tag}})

    def _set_status(self, run: str, described: Described, status: Status) -> None:
        """Also set when the trial ended, if it has."""
        end_ms = None
        if status != "RUNNING":
            newest = described.journal[-1] if described.journal else None
            end_ms = described.end_ms(newest)
        self._store.set_status(run, status, end_ms)


def _state(this_pass: Pass, described: Described) -> TrialState:
    """The trial's state; "interrupted" if its process no longer runs trials."""
    state = this_pass.study.standing(described.trial).state
    if state == "running" and this_pass.running.has_ended(described.attempts[-1]):
        return "interrupted"
    return state
