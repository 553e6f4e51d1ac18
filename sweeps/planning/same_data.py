"""Whether a trial's prepared data is still the copy with which the trial began."""

from pathlib import Path

from sweeps.schema import Problem
from tracking.trial_folder import TrialFolder

ONE_COPY = "must be the sweep's prepared text; share that folder, or use one version of sentencepiece"


def check_data(folder: TrialFolder, identity: str, place: Path) -> list[Problem]:
    """The problem if a trial began with another vocabulary of the same text: its pieces would change meaning.

    Raises DamagedFileError if the trial's provenance.json is damaged.
    """
    if folder.provenance().get("vocabulary") in (None, "", identity):
        return []
    found = f"has another vocabulary of this text than {folder.path.name} was trained with"
    return [Problem("paths.data", found, ONE_COPY, None, str(place))]
