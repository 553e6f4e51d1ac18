"""The study on disk, and the refusal of a damaged file."""

from pathlib import Path

from sweeps.schema import Problem, RefusedError
from tracking.damage import DamagedFileError
from tracking.study import Study, StudyMissing, read_study, study_folders


def known_study(folder: Path) -> Study | None:
    """The study on disk, if there is one. Raises RefusedError if its file is damaged."""
    try:
        return read_study(folder)
    except StudyMissing:
        return None
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None


def damaged(error: DamagedFileError) -> Problem:
    """What is wrong with a damaged file, and its remedy."""
    return Problem(error.path.name, str(error), error.remedy)


def study_names(runs: Path) -> list[str]:
    """The studies recorded in this folder."""
    return [folder.name for folder in study_folders(runs)]


def studies_there(runs: Path) -> str:
    """A hint for a person who named a study that does not exist."""
    names = study_names(runs)
    return f"studies there: {', '.join(names)}" if names else "`allelse sweep` creates one"
