"""The studies on disk."""

from pathlib import Path

from sweeps.schema import RefusedError, damaged
from tracking.files import DamagedFileError
from tracking.study import Study, StudyMissing, read_study, study_folders


def known_study(folder: Path) -> Study | None:
    """The study on disk, if there is one. Raises RefusedError if its file is damaged."""
    try:
        return read_study(folder)
    except StudyMissing:
        return None
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None


def study_names(runs: Path) -> list[str]:
    """The studies recorded in this folder."""
    return [folder.name for folder in study_folders(runs)]
