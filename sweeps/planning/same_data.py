"""Whether a trial's prepared data is still the copy with which the trial began."""

from pathlib import Path

from sweeps.schema import Problem
from tracking.trial import TrialFolder

ONE_COPY = "must be the sweep's prepared data; share that folder, or prepare it with the same versions of packages"


def check_data(folder: TrialFolder, identity: str, place: Path) -> list[Problem]:
    """The problem if a trial began with another copy of the same data: its weights belong to that one.

    Raises DamagedFileError if the trial's provenance.json is damaged.
    """
    if folder.provenance().get("data_identity") in (None, "", identity):
        return []
    found = f"has another copy of this data than {folder.path.name} was trained with"
    return [Problem("paths.data", found, ONE_COPY, None, str(place))]
