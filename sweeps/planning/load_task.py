"""The task that ``task=`` names: ``translation``, an installed one, or ``module:attribute`` in the current folder."""

import importlib
import sys
import traceback
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sweeps.planning.schema import FIRST_TASK
from sweeps.planning.task_faults import task_faults
from sweeps.planning.task_source import TaskSource
from sweeps.task import Task
from transformer.schema import Problem, RefusedError, nearest

OURS = {FIRST_TASK: "sweeps.translation.task:TRANSLATION"}
GROUP = "ablate.tasks"
"""The group of entry points under which a package offers its tasks."""
ATTRIBUTE = "task"
"""The attribute of a module that is named alone."""
HOW_TO_NAME = "must be translation, an installed task, or MODULE:ATTRIBUTE, importable from here"


def source_of(name: str, here: Path) -> TaskSource:
    """The named task. Raises RefusedError."""
    return TaskSource(name, str(here), load_task(name, here))


def load_task(name: str, here: Path) -> Task[Any]:
    """Import the task. Raises RefusedError with the reason and, for an error in the file, its line."""
    return _loaded(name, str(here))


@cache
def _loaded(name: str, here: str) -> Task[Any]:
    reference = OURS.get(name) or _installed().get(name) or (name if ":" in name else f"{name}:{ATTRIBUTE}")
    module, _, attribute = reference.partition(":")
    found = getattr(_imported(name, module, here), attribute, None)
    if found is None:
        raise _refused(f'is "{name}", but {module} has no attribute {attribute}', HOW_TO_NAME)
    if not isinstance(found, Task):
        raise _refused(f'is "{name}", which is a {type(found).__name__}', "must be a sweeps.task.Task")
    if faults := list(task_faults(found, ours=name in OURS)):
        raise RefusedError(Problem("task", f"{name} {fault}", "fix the task's file") for fault in faults)
    return found


def known_tasks(here: Path) -> list[str]:
    """Names for messages: ours, the installed ones, and files here that make a task."""
    files = (path.stem for path in sorted(here.glob("*.py")) if "Task(" in path.read_text("utf-8", "replace"))
    return list(dict.fromkeys([*OURS, *_installed(), *files]))


def _installed() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _imported(name: str, module: str, here: str) -> Any:
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(name, error, here) from None
        known = known_tasks(Path(here))
        near = nearest(name.partition(":")[0], known)
        found = f'is "{name}", but there is no module {error.name} here or installed'
        raise _refused(found, f"{HOW_TO_NAME}; known: {', '.join(known)}", near) from None
    except Exception as error:  # whatever the user's file raises
        raise _broken(name, error, here) from None


def _broken(name: str, error: Exception, here: str) -> RefusedError:
    """The file and line of the user's code where the import failed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(here)]
    line = error.lineno if isinstance(error, SyntaxError) else (own or frames)[-1].lineno
    file = error.filename if isinstance(error, SyntaxError) else (own or frames)[-1].filename
    cause = error.msg if isinstance(error, SyntaxError) else str(error)
    place = f"{file}:{line}".removeprefix(f"{here}/")
    found = f'is "{name}", whose file cannot be imported: {type(error).__name__}: {cause}'
    return _refused(found, "fix the file, or name another task", place=place)


def _refused(found: str, allowed: str, near: str | None = None, place: str | None = None) -> RefusedError:
    return RefusedError([Problem("task", found, allowed, near and f"task={near}", place)])
