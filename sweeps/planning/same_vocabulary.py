"""Whether a trial's pieces still mean what they did when the trial began."""

from tracking.trial_folder import TrialFolder
from transformer.data.here import ONE_VOCABULARY
from transformer.data.prepare import Prepared
from transformer.schema import Problem


def check_vocabulary(prepared: Prepared, folder: TrialFolder) -> list[Problem]:
    """The problem if a trial began with another vocabulary of the same text: its pieces would change meaning.

    Raises DamagedFileError if the trial's provenance.json is damaged.
    """
    if folder.provenance().get("vocabulary") in (None, "", prepared.vocabulary_sha256):
        return []
    found = f"has another vocabulary of this text than {folder.path.name} was trained with"
    return [Problem("paths.data", found, ONE_VOCABULARY, None, str(prepared.folder))]
