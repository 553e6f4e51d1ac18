"""Whether a trial's pieces still mean what they meant when it began."""

from tracking.trial_folder import TrialFolder
from transformer.data.here import ONE_VOCABULARY
from transformer.data.prepare import Prepared
from transformer.schema import Problem


def check_vocabulary(prepared: Prepared, folder: TrialFolder) -> list[Problem]:
    """That a trial began with another vocabulary of the same text: its pieces would mean something else.

    Raises DamagedFileError if the file that says so is damaged.
    """
    if folder.provenance().get("vocabulary") in (None, "", prepared.vocabulary_sha256):
        return []
    found = f"{folder.path.name} was trained with another vocabulary of the same text"
    return [Problem("paths.data", found, ONE_VOCABULARY, None, str(prepared.folder))]
