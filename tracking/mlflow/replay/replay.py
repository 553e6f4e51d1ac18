"""Makes the runs of a store equal to a study's folder: each point once, and no point that a retry
could roll back.

The folder determines what a run must hold. The first and the last pass compare that with what the
store has, value by value; the passes in between with what was sent according to the ledger. Each
sends what differs.

A retry cuts a journal back to a checkpoint, and a store can't delete a point. So an unfinished
trial is replayed only up to its newest checkpoint, and a trial that was trained again gets a new
run. Runs without a trial are deleted; MLflow can restore them if their trial comes back. Parts that
a store may refuse come last.
"""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tracking.activity.look import Stamps, stamp_of, stamps_of
from tracking.activity.runners import Runner, runners, runs
from tracking.attempts import AttemptRecord
from tracking.error_causes import cause_of, out_of_reach
from tracking.json_lines.journal import Journal, JournalLine, settled
from tracking.mlflow import pages
from tracking.mlflow.describe import Described, compared_trials, journal_points, to_ms
from tracking.mlflow.inputs import inputs_digest
from tracking.mlflow.ledger import EXPERIMENT, IDENTITY, INPUTS, STUDY, UNLIKE, result_digest
from tracking.mlflow.names import legal
from tracking.mlflow.replay.other_folder import PLACE, carried, folder_mark, refuse_other_folder
from tracking.mlflow.replay.pass_outcome import PassOutcome, are_damage, problem_lines, shortened
from tracking.mlflow.replay.study_runs import StudyRuns
from tracking.mlflow.runs import (
    CARRIED,
    LEFT_OUT,
    TRAINING,
    Point,
    StoredRun,
    digest_of,
    doubles,
    run_of,
)
from tracking.mlflow.store import Status, Store
from tracking.mlflow.view import KIND, first_asked_ms, view_tag
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study
from tracking.table.columns import whole_table
from tracking.trial import TrialState
from tracking.weights import TO_SCORE_AGAIN

RETRY_S = 60.0  # between two attempts to store artifacts
PAGE_S = 60.0  # between two versions of the study's page, which takes seconds to make
STATUS: dict[TrialState, Status] = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "running": "RUNNING",
}


class TrialStamps(NamedTuple):
    """The files that determine a trial's run; ``settled`` are all but its journal."""

    settled: object
    journal: object


class Replay:
    """Sends one study to one store. Only one may run at a time: `sync` holds a lock."""

    def __init__(self, folder: Path, store: Store, uri: str) -> None:
        self._folder = folder
        self._store = store
        self._uri = uri
        self._runs = StudyRuns(folder, store, uri)
        self._folder_mark = ""  # of the folder that sent the runs
        self._stored: dict[str, list[StoredRun]] = {}  # by key, as this pass has read them
        self._must_find = True  # the runs: after a failure, and in the last pass
        self._trainings: dict[str, str] = {}  # by trial key: the training that its run shows
        self._stamps: dict[str, Stamps] = {}  # by trial key: its files in this pass
        self._record: object = None  # the stamp of `study.json`
        self._input_stamps: object = None
        self._inputs = ""  # the digest of the files that have these stamps
        self._sent_stamps: dict[str, TrialStamps] = {}  # by trial key
        self._due: set[str] = set()  # keys of the runs whose artifacts must be sent
        self._logged: set[str] = set()  # names of metrics while training
        self._changed_names: dict[str, str] = {}  # the task's names with those in MLflow
        self._remarks: list[str] = []
        self._runners: list[Runner] = []
        self._running: set[str] = set()  # keys of the trials that run now, on any machine
        self._ended: int | None = None  # the pid of a process that no longer runs trials
        self._next_page_at = 0.0
        self._next_retry_at = 0.0
        self._refusal = ""  # why artifacts were not stored

    def once(self, ended: int | None = None) -> PassOutcome:
        """Replay every trial that has begun. A trial that fails does not hold back the others.

        ``ended`` is the pid of a process on this machine that no longer runs trials, though it may
        still be alive. A store that doesn't answer ends the pass: every further trial would wait as
        long.
        """
        record = self._record_stamp()
        study = read_study(self._folder)
        inputs = self._look(study, record)
        self._runners = runners(self._folder)
        self._running = set()
        self._ended = ended
        self._remarks = []
        if self._must_find or ended is not None or record != self._record:
            self._find(study)
            self._record = record
        points, faults = self._replay_all(study)
        notices: tuple[str, ...] = ()
        if are_damage(faults):  # a server out of reach would fail again
            try:
                self._leave_out_others(study, {name for name, _ in faults})
                notices = self._send_study(study, any(points))
            except Exception as error:  # as for a trial
                faults.append(("pages", error))
        self._must_find = bool(faults)
        self._stored = {}
        self._runs.stored = {}
        is_complete = not (faults or notices or self._due)
        if is_complete and STUDY in self._runs.ids and self._record_stamp() == record:
            self._runs.record_part(STUDY, INPUTS, inputs)
        return PassOutcome(
            runs=len(points),
            points=sum(points),
            problems=problem_lines(faults),
            notices=notices,
            lasting=bool(faults) and are_damage(faults),
            remarks=tuple(self._remarks),
        )

    def _replay_all(self, study: Study) -> tuple[list[int], list[tuple[str, Exception]]]:
        """The number of points of each trial that has begun, and the faults by trial."""
        points: list[int] = []
        faults: list[tuple[str, Exception]] = []
        for trial in study.trials:
            try:
                points += self._replay_changes(study, trial)
            except Exception as error:  # a damaged file, or a server out of reach
                faults.append((trial.name, error))
                if out_of_reach(error):
                    break
        return points, faults

    def _record_stamp(self) -> object:
        return stamp_of(self._folder / STUDY_FILE)

    def _look(self, study: Study, record: object) -> str:
        """Look at all files. Returns the digest of those that determine the runs; reads them only
        if any has changed."""
        self._stamps = {trial.key: stamps_of(study.trial_folder(trial)) for trial in study.trials}
        stamps = (record, [stamps[:-1] for stamps in self._stamps.values()])
        if self._input_stamps != stamps:
            self._input_stamps = stamps
            self._inputs = inputs_digest(study)
        return self._inputs

    def _find(self, study: Study) -> None:
        """Find the study's runs by their tags, and read what they hold. What was sent to a
        different run must be sent again.

        Raises OtherFolderError if another folder has sent them, and this one would change them.
        """
        self._stored = self._store.runs(study.mark)
        first_runs: dict[str, StoredRun] = {}  # the oldest active run by key
        runs_by_id: dict[str, StoredRun] = {}
        for key, stored in self._stored.items():
            for run in stored:
                if run.is_active:
                    first_runs.setdefault(key, run)
                    runs_by_id[run.id] = run
        tags = {key: run.tags for key, run in first_runs.items()}
        self._folder_mark = tags.get(STUDY, {}).get(PLACE, "")
        refuse_other_folder(study, self._uri, self._folder_mark, tags)
        self._runs.find(runs_by_id)
        if STUDY in first_runs:
            self._runs.ids[STUDY] = first_runs[STUDY].id
        stamps = self._sent_stamps.items()
        self._sent_stamps = {key: sent for key, sent in stamps if key in self._runs.ids}
        self._must_find = False

    def _leave_out_others(self, study: Study, faulty: Collection[str]) -> None:
        """Leave out runs without a trial: of dropped trials, earlier trainings, doubles."""
        names = {trial.key: trial.name for trial in study.trials}
        for key, stored in self._stored.items():
            if names.get(key) in faulty:
                continue
            why = "trained again" if key in names else "dropped from the study"
            for run in doubles(stored, self._runs.ids.get(key)):
                self._store.leave_out(run, why)
        if self._runs.forget_others({STUDY, *names}):
            self._due.add(STUDY)

    def _replay_changes(self, study: Study, trial: StudyTrial) -> list[int]:
        """The number of points that were sent; [] before the trial has started."""
        attempts = study.trial_folder(trial).attempts.all()
        if not attempts:
            return []
        is_running = runs(attempts[-1], self._runners) and not self._has_ended(attempts[-1])
        if is_running:
            self._running.add(trial.key)
        compared = [self._stamps[other.key][:-1] for other in compared_trials(study, trial)]
        *settled, journal = self._stamps[trial.key]
        stamps = TrialStamps((settled, compared, is_running, self._record), journal)
        sent = self._sent_stamps.get(trial.key)
        if sent == stamps:
            return [0]
        points = self._replay(study, Described(study, trial, attempts))
        if sent is None or sent.settled != stamps.settled:
            self._due |= {trial.key, STUDY}
        self._sent_stamps[trial.key] = stamps
        return [points]

    def _has_ended(self, attempt: AttemptRecord) -> bool:
        return attempt.process.is_here and attempt.process.pid == self._ended

    def _replay(self, study: Study, described: Described) -> int:
        """Send what the trial's run lacks. Returns the number of points."""
        key = described.trial.key
        folder = described.folder
        state = study.standing(described.trial).state
        if state == "running" and self._has_ended(described.attempts[-1]):
            state = "interrupted"
        has_result = state in ("finished", TO_SCORE_AGAIN)
        sendable = settled(Journal(folder.journal_path), everything=has_result)
        # read after the journal's end, so that it has everything that can be sent
        reports = described.journal
        run = self._run_of_training(study, described)
        self._runs.send(key, described.parts)
        self._remark_on_params(described)
        self._changed_names |= described.changed_names
        count = self._send_reports(described, reports[:sendable])
        for report in reports:
            self._logged.update(pages.points_in(described.card, report))
        is_running = key in self._running
        result = result_digest(folder) if has_result and not is_running else None
        tag = carried(self._runs.sent(key).step, reports, result)
        self._runs.send(key, {"tags of the journal": {CARRIED: tag}})
        if is_running:  # its result may exist before the attempt's end, which gives the time
            self._store.set_status(run, "RUNNING", None)
            return count
        if has_result:  # scores of other weights are no longer among the numbers
            count += self._runs.send(key, {"numbers": described.numbers})
            self._runs.record(key, result=result)
        status = STATUS.get(state, "KILLED")
        newest = reports[-1] if reports else None
        end_ms = None if status == "RUNNING" else described.end_ms(newest)
        self._store.set_status(run, status, end_ms)
        return count

    def _send_reports(self, described: Described, reports: list[JournalLine]) -> int:
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
        return len(points)

    def _run_of_training(self, study: Study, described: Described) -> str:
        """The run of this training: the one with its points, a left-out one, or a new one."""
        key = described.trial.key
        training = described.identifying_tags[TRAINING]
        if self._trainings.get(key, training) != training:
            self._runs.ids.pop(key, None)
            self._find(study)
        self._trainings[key] = training
        if key not in self._runs.ids:
            stored = run_of(self._stored.get(key, ()), training, described.journal)
            if stored is not None and LEFT_OUT in stored.tags:
                self._store.take_back(stored)
                self._due |= {key, STUDY}
            self._runs.ids[key] = stored.id if stored else self._create_run(described)
            if not self._runs.begin(key, stored).parts:
                self._due.add(key)
        return self._runs.ids[key]

    def _create_run(self, described: Described) -> str:
        start_ms = to_ms(described.attempts[0].began)
        return self._store.create(described.name, start_ms, described.identifying_tags)

    def _remark_on_params(self, described: Described) -> None:
        """Say which params differ from the configuration: MLflow never changes one."""
        key = described.trial.key
        stored = self._runs.stored.get(self._runs.ids[key])
        if stored is None:
            return
        unlike = ", ".join(stored.unlike_params(described.params))
        if unlike and unlike != self._runs.sent(key).parts.get(UNLIKE, ""):
            remark = "MLflow cannot change params; old values stay"
            self._remarks.append(f"{described.trial.name}: {remark}: {unlike}")
        self._runs.record_part(key, UNLIKE, unlike)

    def _send_study(self, study: Study, has_changed: bool) -> tuple[str, ...]:
        """Send the study's run, its view, and what a store may refuse. Returns notices.

        The runs belong to this folder once it has changed them.
        """
        begun = [trial for trial in study.trials if trial.key in self._sent_stamps]
        self._due &= {STUDY, *(trial.key for trial in study.trials)}
        if not begun:
            return ()
        if has_changed or not self._folder_mark:
            self._folder_mark = folder_mark(self._folder, self._uri)
        tags = {
            IDENTITY: study.mark,
            "sweep.id": study.name,
            "kind": STUDY,
            # last in the view, since it has no texts to compare
            f"{study.task.tags}.order": "9999",
            PLACE: self._folder_mark,
        }
        created_ms = first_asked_ms(study)
        if not self._runs.ids.get(STUDY):
            self._runs.ids[STUDY] = self._store.create("study", created_ms, tags)
        view = view_tag(study, sorted(self._logged))
        if self._store.owner == study.mark:  # otherwise several studies may share the experiment
            view |= KIND
        self._runs.send(STUDY, {"tags": tags, "view": view})
        self._remark_on_names()
        sent = self._runs.sent(STUDY)
        if sent.parts.get(EXPERIMENT) != self._store.experiment_id:
            self._store.set_status(sent.run, "FINISHED", created_ms)
            self._runs.record_part(STUDY, EXPERIMENT, self._store.experiment_id)
        return self._send_artifacts(study, begun)

    def _remark_on_names(self) -> None:
        """Say once which names differ in MLflow; the tags of each run have them."""
        if not self._changed_names:
            return
        digest = digest_of(self._changed_names)
        if self._runs.sent(STUDY).parts.get("names") != digest:
            pairs = [
                f"{name} is {other_name}"
                for name, other_name in sorted(self._changed_names.items())
            ]
            self._remarks.append(f"MLflow uses different names: {shortened(pairs, '; ')}")
            self._runs.record_part(STUDY, "names", digest)

    def _send_artifacts(self, study: Study, begun: list[StudyTrial]) -> tuple[str, ...]:
        """A store may refuse artifacts.

        Then this returns a notice, and tries again after a pause.
        """
        if time.monotonic() < self._next_retry_at and self._running:
            return ()
        try:
            for trial in begun:
                if trial.key in self._due:
                    self._send_trial_files(study, trial)
            if STUDY in self._due and not (self._running and time.monotonic() < self._next_page_at):
                self._send_study_files(study, begun)
        except Exception as error:  # every kind of store raises its own
            self._next_retry_at = time.monotonic() + RETRY_S
            last_refusal = self._refusal
            self._refusal = cause_of(error)
            if self._refusal == last_refusal:
                return ()
            fix = "fix that, then run `allelse sync`"
            return (f"artifacts are not stored: {self._refusal}; {fix}",)
        self._refusal = ""
        return ()

    def _send_trial_files(self, study: Study, trial: StudyTrial) -> None:
        folder = study.trial_folder(trial)
        is_running = trial.key in self._running
        files = pages.run_files(folder, is_running)
        tables = {"mlflow.loggedArtifacts": pages.TABLES if pages.SAMPLES in files else ""}
        parts: dict[str, Any] = {**_file_parts(files), "tags of files": tables, "model": {}}
        if not is_running:
            parts["model"] = Described(study, trial, folder.attempts.all()).model
        self._runs.send(trial.key, parts)
        self._due.discard(trial.key)

    def _send_study_files(self, study: Study, begun: list[StudyTrial]) -> None:
        """Send the tags of rows and the study's files: once per minute while trials run, since
        making them takes seconds."""
        table = whole_table(study, study.task.headline)
        texts = pages.row_words(table)
        for trial in begun:
            tags = {f"{pages.ROW}{legal(name)}": text for name, text in texts[trial.row].items()}
            self._runs.send(trial.key, {"tags of the row": tags})
        self._runs.send(STUDY, _file_parts(pages.study_files(table)))
        self._due.discard(STUDY)
        self._next_page_at = time.monotonic() + PAGE_S


def _file_parts(files: Mapping[str, str]) -> dict[str, str]:
    return {f"file {path}": content for path, content in files.items()}
