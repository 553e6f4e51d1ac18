"""What refusals advise: commands as you can type them here, and short lists of names."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.planning.studies.known_studies import study_names
from sweeps.planning.studies.study_overrides import by_name, placed
from sweeps.problems import Problem, nearest
from tracking.shell import shell_line


def program() -> str:
    """``allelse``, or its relative path where its virtual environment is not on the PATH."""
    typed = Path(sys.argv[0])
    unreachable = typed.name == "allelse" and shutil.which("allelse") is None
    return os.path.relpath(typed) if unreachable else "allelse"


def command(verb: str, *words: str) -> str:
    """One of our commands as it can be typed here."""
    return shell_line([program(), verb, *words])


def other_study(study: Path) -> str:
    """What to type if a recorded study is in the way."""
    remove = command("rm", study.name, *placed(study))
    return f"type `{remove}`, or choose another sweep.name"


def must_finish(study: Path) -> str:
    """What is allowed where a trial of the study has no result yet, and what to type."""
    overrides = [by_name(study), *placed(study)]
    status = command("status", *overrides)
    sweep = command("sweep", *overrides)
    return f"must be finished; `{status}` shows each trial's state, and `{sweep}` resumes it"


def studies_there(runs: Path) -> str:
    """A hint for a person who named a study that does not exist."""
    names = study_names(runs)
    return f"studies there: {', '.join(names)}" if names else "`allelse sweep` creates one"


def no_such_study(key: str, name: str, runs: Path) -> Problem:
    """The refusal of a study that is not recorded, with the nearest name."""
    folders = [folder.name for folder in runs.parent.glob("*") if study_names(folder)]
    near = None if runs.exists() else nearest(runs.name, folders)
    if near:
        fault = f"is {runs}, which does not exist"
        allowed = f"must be a folder of studies, such as {near}"
        return Problem("paths.runs", fault, allowed)
    fault = f'is "{name}", but {runs} has no such study'
    return Problem(key, fault, studies_there(runs), nearest(name, study_names(runs)))


def some_of(names: Sequence[str], most: int = 30) -> str:
    """The names for a refusal, which a large study would make too long."""
    first_names = ", ".join(names[:most])
    return f"{first_names} and {len(names) - most} more" if len(names) > most else first_names
