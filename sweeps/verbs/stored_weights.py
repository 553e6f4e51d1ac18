"""Where the weights of a trial on disk lie, and which training they are of: its own, or that of its
host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracking.attempts import Lineage
from tracking.files import unless_damaged
from tracking.study import STUDY_FILE, read_study, trial_folder
from tracking.trial import TrialFolder
from tracking.weights import WeightsRecord, weights_of


@dataclass(frozen=True)
class StoredWeights:
    """Trained weights: those of the trial itself, or of the trial in the folder ``files`` if it
    only scores."""

    files: TrialFolder
    key: str
    attempt: int
    checkpoints: str
    record: WeightsRecord  # what tells them from those of another training

    @property
    def name(self) -> str:
        return f"{self.files.path.parent.name}/{self.files.path.name}"


def stored_weights(
    folder: TrialFolder, stored: Mapping[str, Any], elsewhere: str | None
) -> StoredWeights:
    """Those that the trial scores. ``stored`` is its ``config.yaml``, ``elsewhere`` its
    ``paths.checkpoints``."""
    trained = folder
    key = stored["key"]
    if stored.get("weights"):
        trained = _host(folder, stored["weights"])
        key = stored["weights_key"]
    result = trained.finished_result(key)
    attempt = result["attempt"] if result else 0
    record = weights_of(result) if result else {}
    return StoredWeights(trained, key, attempt, trained.checkpoints_url(elsewhere), record)


def _host(folder: TrialFolder, recorded: str) -> TrialFolder:
    """That of the trial whose weights this one scores. It may have been renamed since it was
    ``recorded``."""
    study = unless_damaged(partial(read_study, folder.path.parent), None)
    today = (
        next((trial.weights for trial in study.trials if trial.name == folder.path.name), None)
        if study
        else None
    )
    return trial_folder(folder.path.parent, today or recorded, folder.card)


def lineage_of(trial: TrialFolder) -> Lineage:
    """That of the trial's attempts; one without a name before the first."""
    return study_lineage(trial) or Lineage()


def study_lineage(trial: TrialFolder) -> Lineage | None:
    """That of the trial's attempts, with the code that its study names."""
    codes: Sequence[str] = ()
    if (trial.path.parent / STUDY_FILE).exists():
        study = unless_damaged(partial(read_study, trial.path.parent), None)
        codes = study.code if study else ()
    return trial.lineage(codes)
