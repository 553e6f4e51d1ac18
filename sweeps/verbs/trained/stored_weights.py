"""The weights of a trial on disk: where they lie, and which training made them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tracking.attempts import Lineage
from tracking.files import unless_damaged
from tracking.study import STUDY_FILE, Study, read_study, trial_folder
from tracking.trial import TrialFolder
from tracking.weights import WeightsRecord, weights_of


@dataclass(frozen=True)
class StoredWeights:
    """Trained weights: those of the trial itself, or of its host, whose folder is ``files``."""

    files: TrialFolder
    key: str
    attempt: int
    checkpoints: str
    record: WeightsRecord  # identifies the training that made them

    @property
    def name(self) -> str:
        return f"{self.files.path.parent.name}/{self.files.path.name}"


def stored_weights(
    folder: TrialFolder, config: Mapping[str, Any], checkpoints: str | None
) -> StoredWeights:
    """The weights that the trial scores. ``config`` is its ``config.yaml``, ``checkpoints`` its
    ``paths.checkpoints``."""
    trained = folder
    key = config["key"]
    if config.get("weights"):
        trained = _host(folder, config["weights"])
        key = config["weights_key"]
    result = trained.finished_result(key)
    attempt = result["attempt"] if result else 0
    record = weights_of(result) if result else {}
    return StoredWeights(trained, key, attempt, trained.checkpoints_url(checkpoints), record)


def _host(folder: TrialFolder, recorded_name: str) -> TrialFolder:
    """The trial whose weights this one scores. It may have been renamed since it was recorded."""
    study_folder = folder.path.parent
    study = _study_or_none(study_folder)
    host_name = recorded_name
    for trial in study.trials if study else ():
        if trial.name == folder.path.name:
            host_name = trial.weights or recorded_name
            break
    return trial_folder(study_folder, host_name, folder.card)


def lineage_of(trial: TrialFolder) -> Lineage:
    """The lineage of the trial's attempts, which has no name before the first."""
    return study_lineage(trial) or Lineage()


def study_lineage(trial: TrialFolder) -> Lineage | None:
    """The lineage of the trial's attempts, with the code that its study names."""
    codes: Sequence[str] = ()
    if (trial.path.parent / STUDY_FILE).exists():
        study = _study_or_none(trial.path.parent)
        codes = study.code if study else ()
    return trial.lineage(codes)


def _study_or_none(folder: Path) -> Study | None:
    """The study in this folder; None if its file is damaged."""
    return unless_damaged(partial(read_study, folder), None)
