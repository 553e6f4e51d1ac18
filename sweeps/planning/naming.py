"""The overrides that name a study, those of the next command on it, and the study on disk. It needs
no Hydra."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.schema import RefusedError, damaged
from tracking.files import DamagedFileError
from tracking.shell import quoted, shell_line
from tracking.study import Study, StudyMissing, read_study, study_folders

PLACES = ("paths.", "tracking")
STUDY_NAMES = ("task=", "data=", "scale=", "sweep=", "sweep.name=")
NAMING = (*STUDY_NAMES, *PLACES)
FREE = (
    *PLACES,
    "cluster",
    "sweep.max_failures=",
    "sweep.stall_minutes=",
    "sweep.share=",
    "data.mirror=",
)
"""The settings of a study that may change at any time, besides those that only observe its
training."""
SELECTING = (
    "sweep=",
    "sweep.rows=",
    "sweep.vary",
    "sweep.seeds=",
    "sweep.base_seeds=",
    "row=",
    "train.seed=",
)


def naming(overrides: list[str] | None) -> list[str]:
    """The overrides that identify a study and its location."""
    return chosen(overrides, NAMING)


def names_study(overrides: list[str] | None) -> bool:
    """Whether the overrides name a study, and not only its location."""
    return bool(chosen(overrides, STUDY_NAMES))


def chosen(overrides: list[str] | None, *kinds: tuple[str, ...]) -> list[str]:
    """The overrides of these kinds, in the order typed."""
    starts = tuple(start for kind in kinds for start in kind)
    return [override for override in overrides or [] if override.startswith(starts)]


def program() -> str:
    """``allelse``, or its relative path where its virtual environment is not on the PATH."""
    typed = Path(sys.argv[0])
    unreachable = typed.name == "allelse" and shutil.which("allelse") is None
    return os.path.relpath(typed) if unreachable else "allelse"


def command(verb: str, *words: str) -> str:
    """One of our commands as it can be typed here."""
    return shell_line([program(), verb, *words])


def by_name(study: Path) -> str:
    """The override that names a recorded study."""
    return f"sweep.name={quoted(study.name)}"


def placed(study: Path) -> list[str]:
    """The override for the folder of the study, unless that is where a command looks by itself."""
    runs = study.parent
    return [] if runs == (Path.cwd() / "runs").resolve() else [f"paths.runs={quoted(str(runs))}"]


def other_study(study: Path) -> str:
    """What to type if a recorded study stands in the way."""
    return f"type `{command('rm', study.name, *placed(study))}`, or choose another sweep.name"


def some_of(names: Sequence[str], most: int = 30) -> str:
    """The names for a refusal, which a large study would make too long."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def must_finish(study: Path) -> str:
    """What is allowed where a trial of the study has no result yet, and what to type."""
    status, sweep = (command(verb, by_name(study), *placed(study)) for verb in ("status", "sweep"))
    return f"must be finished; `{status}` shows where each trial stands, and `{sweep}` resumes it"


def looking(study: Path, overrides: list[str] | None) -> list[str]:
    """The overrides for a verb that reads the study: its name, unless it is the only one, and its
    places."""
    name = [by_name(study)] if len(study_folders(study.parent)) > 1 else []
    return [*name, *chosen(overrides, PLACES)]


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


def studies_there(runs: Path) -> str:
    """A hint for a person who named a study that does not exist."""
    names = study_names(runs)
    return f"studies there: {', '.join(names)}" if names else "`allelse sweep` creates one"
