"""The files of a study that determine its runs, and whether they have changed."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tracking.activity.look import Stamps, stamp_of, stamps_of
from tracking.mlflow.describe import compared_trials
from tracking.mlflow.inputs import inputs_digest
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study


class TrialStamps(NamedTuple):
    """The files that determine a trial's run; ``settled`` are all but its journal."""

    settled: object
    journal: object


@dataclass(frozen=True)
class Snapshot:
    """A study and the stamps of its files at one moment.

    ``record`` is the stamp of `study.json`, and ``trials`` has those of each trial's files by its
    key. ``inputs`` is the digest of all files that determine the runs.
    """

    study: Study
    record: object
    trials: dict[str, Stamps]
    inputs: str

    def of_trial(self, trial: StudyTrial, is_running: bool) -> TrialStamps:
        """What its run depends on: also the results that it is compared with."""
        compared = [self.trials[other.key][:-1] for other in compared_trials(self.study, trial)]
        *settled, journal = self.trials[trial.key]
        return TrialStamps((settled, compared, is_running, self.record), journal)


class StudyFiles:
    """Looks at the files of a study, and reads those that determine its runs if any has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamps: object = None  # of the files with the digest ``_inputs``
        self._inputs = ""

    def look(self) -> Snapshot:
        """Raises what ``read_study`` raises."""
        record = self.record()
        study = read_study(self._folder)
        trials = {trial.key: stamps_of(study.trial_folder(trial)) for trial in study.trials}
        stamps = (record, [stamps[:-1] for stamps in trials.values()])
        if self._stamps != stamps:
            self._stamps = stamps
            self._inputs = inputs_digest(study)
        return Snapshot(study, record, trials, self._inputs)

    def record(self) -> object:
        """The stamp of `study.json` now."""
        return stamp_of(self._folder / STUDY_FILE)
