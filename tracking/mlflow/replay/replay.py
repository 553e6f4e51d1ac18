"""Passes over a study: each sends what its runs in a store lack."""

from pathlib import Path

from tracking.activity.runners import runners
from tracking.error_causes import out_of_reach
from tracking.mlflow.ledger import INPUTS, STUDY
from tracking.mlflow.replay.artifacts import Artifacts
from tracking.mlflow.replay.one_pass import Pass
from tracking.mlflow.replay.own_run import OwnRun
from tracking.mlflow.replay.pass_outcome import PassOutcome, are_damage
from tracking.mlflow.replay.run_finder import RunFinder
from tracking.mlflow.replay.running_trials import RunningTrials
from tracking.mlflow.replay.study_files import StudyFiles
from tracking.mlflow.replay.study_runs import StudyRuns
from tracking.mlflow.replay.trial_replay import TrialReplay
from tracking.mlflow.store import Store


class Replay:
    """Sends one study to one store. Only one may run at a time: `sync` holds a lock."""

    def __init__(self, folder: Path, store: Store, uri: str) -> None:
        self._files = StudyFiles(folder)
        self._runs = StudyRuns(folder, store, uri)
        self._finder = RunFinder(self._runs, store, uri)
        self._trials = TrialReplay(self._runs, store, self._finder)
        self._own_run = OwnRun(self._runs, store, uri)
        self._artifacts = Artifacts(self._runs)
        self._must_find = True  # the runs: at first, and after a failure
        self._found_record: object = None  # the stamp of `study.json` when they were found

    def once(self, ended: int | None = None) -> PassOutcome:
        """Replay every trial that has begun. A trial that fails does not hold back the others.

        ``ended`` is the pid of a process on this machine that no longer runs trials, though it may
        still be alive. A store that doesn't answer ends the pass: every further trial would wait as
        long.
        """
        files = self._files.look()
        running = RunningTrials(runners(files.study.folder), ended)
        this_pass = Pass(files, running)
        is_last = ended is not None
        if self._must_find or is_last or files.record != self._found_record:
            self._finder.find(this_pass)
            self._found_record = files.record
        self._replay_trials(this_pass)
        if are_damage(this_pass.faults):  # a server out of reach would fail again
            self._replay_study(this_pass)
        self._must_find = bool(this_pass.faults)
        self._runs.stored = {}  # the next pass compares with the ledger, unless it reads them again
        if not (this_pass.faults or this_pass.notices or self._runs.due):
            self._record_inputs(this_pass)
        return this_pass.outcome()

    def _replay_trials(self, this_pass: Pass) -> None:
        for trial in this_pass.study.trials:
            try:
                self._trials.replay(this_pass, trial)
            except Exception as error:  # a damaged file, or a server out of reach
                this_pass.faults.append((trial.name, error))
                if out_of_reach(error):
                    break

    def _replay_study(self, this_pass: Pass) -> None:
        """Send what depends on all trials, and then what a store may refuse."""
        try:
            self._finder.leave_out_others(this_pass)
            begun = self._runs.begun(this_pass.study)
            if begun:
                self._own_run.send(this_pass, self._trials.logged, self._trials.changed_names)
                self._artifacts.send(this_pass, begun)
        except Exception as error:  # as for a trial
            this_pass.faults.append(("pages", error))

    def _record_inputs(self, this_pass: Pass) -> None:
        """Record that everything was sent, unless a command changed the study meanwhile."""
        files = this_pass.files
        if STUDY in self._runs.ids and self._files.record() == files.record:
            self._runs.record_part(STUDY, INPUTS, files.inputs)
