"""Finds the runs of a study in its store: the one that shows each trial, and those to leave out."""

from collections.abc import Mapping, Sequence

from tracking.mlflow.describe import Described, to_ms
from tracking.mlflow.ledger import STUDY
from tracking.mlflow.replay.one_pass import Pass
from tracking.mlflow.replay.other_folder import PLACE, refuse_other_folder
from tracking.mlflow.replay.study_runs import StudyRuns
from tracking.mlflow.runs import LEFT_OUT, TRAINING, StoredRun, doubles, run_of
from tracking.mlflow.store import Store


class RunFinder:
    """Finds, creates and leaves out the runs of one study."""

    def __init__(self, runs: StudyRuns, store: Store, uri: str) -> None:
        self._runs = runs
        self._store = store
        self._uri = uri
        self._trainings: dict[str, str] = {}  # by trial key: the training that its run shows

    def find(self, this_pass: Pass) -> None:
        """Find the study's runs by their tags, and read what they hold.

        Raises OtherFolderError if another folder has sent them, and this one would change them.
        """
        study = this_pass.study
        this_pass.stored = self._store.runs(study.mark)
        active = _active_runs(this_pass.stored)
        oldest = {key: runs[0] for key, runs in active.items()}
        tags = {key: run.tags for key, run in oldest.items()}
        self._runs.folder_mark = tags.get(STUDY, {}).get(PLACE, "")
        refuse_other_folder(study, self._uri, self._runs.folder_mark, tags)
        self._runs.keep([run for runs in active.values() for run in runs])
        if STUDY in oldest:
            self._runs.ids[STUDY] = oldest[STUDY].id

    def run_of_training(self, this_pass: Pass, described: Described) -> str:
        """The run of this training: the one with its points, a left-out one, or a new one."""
        key = described.trial.key
        training = described.identifying_tags[TRAINING]
        if self._trainings.get(key, training) != training:
            self._runs.ids.pop(key, None)
            self.find(this_pass)
        self._trainings[key] = training
        if key not in self._runs.ids:
            stored = run_of(this_pass.stored.get(key, ()), training, described.journal)
            self._begin(described, stored)
        return self._runs.ids[key]

    def _begin(self, described: Described, stored: StoredRun | None) -> None:
        """Begin to send to the stored run, or to a new one."""
        key = described.trial.key
        if stored is not None and LEFT_OUT in stored.tags:
            self._store.take_back(stored)
            self._runs.due |= {key, STUDY}
        self._runs.ids[key] = stored.id if stored else self._create(described)
        if not self._runs.begin(key, stored).parts:
            self._runs.due.add(key)

    def _create(self, described: Described) -> str:
        start_ms = to_ms(described.attempts[0].began)
        return self._store.create(described.name, start_ms, described.identifying_tags)

    def leave_out_others(self, this_pass: Pass) -> None:
        """Leave out runs without a trial: of dropped trials, earlier trainings, doubles."""
        names = {trial.key: trial.name for trial in this_pass.study.trials}
        faulty = {name for name, _ in this_pass.faults}
        for key, stored in this_pass.stored.items():
            if names.get(key) in faulty:
                continue
            why = "trained again" if key in names else "dropped from the study"
            for run in doubles(stored, self._runs.ids.get(key)):
                self._store.leave_out(run, why)
        self._runs.forget_others({STUDY, *names})


def _active_runs(stored: Mapping[str, Sequence[StoredRun]]) -> dict[str, list[StoredRun]]:
    """Those that nobody deleted, the oldest first. Without keys that have none."""
    active: dict[str, list[StoredRun]] = {}
    for key, runs in stored.items():
        active_runs = [run for run in runs if run.is_active]
        if active_runs:
            active[key] = active_runs
    return active
