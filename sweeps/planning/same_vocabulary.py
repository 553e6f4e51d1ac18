"""Whether a trial's pieces still mean what they meant when it began."""

from collections.abc import Iterator

from tracking.trial_folder import TrialFolder
from transformer.data.here import ONE_VOCABULARY
from transformer.data.prepare import Prepared
from transformer.schema import Problem


def check_vocabulary(prepared: Prepared, folder: TrialFolder) -> Iterator[Problem]:
    """That a trial began with another vocabulary of the same text: its pieces would mean something else."""
    if folder.provenance().get("vocabulary") not in (None, "", prepared.vocabulary_sha256):
        found = f"{folder.path.name} was trained with another vocabulary of the same text"
        yield Problem("paths.data", found, ONE_VOCABULARY, None, str(prepared.folder))
