"""The task that ``task=`` names: ``translation``, an installed one, or ``module:attribute`` in the current folder."""

import importlib
import re
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sweeps.planning.schema import FIRST_TASK
from sweeps.planning.task_errors import failed
from sweeps.planning.task_faults import task_faults
from sweeps.planning.task_folder import enter
from sweeps.planning.task_functions import checked_functions
from sweeps.planning.task_source import TaskSource
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.task import Task

OURS = {FIRST_TASK: "transformer.task:TRANSLATION"}
GROUP = "ablate.tasks"
"""The group of entry points under which a package offers its tasks."""
ATTRIBUTE = "task"
"""The attribute of a module that is named alone."""
REFERENCE = re.compile(r"(?!\d)\w+(\.(?!\d)\w+)*:(?!\d)\w+")
HOW_TO_NAME = "must be translation, an installed task, or MODULE:ATTRIBUTE, importable from here"


def source_of(name: str, here: Path) -> TaskSource:
    """The named task. Raises RefusedError."""
    return TaskSource(name, str(here), load_task(name, here))


def load_task(name: str, here: Path) -> Task[Any]:
    """Import the task. Raises RefusedError with the reason and, for an error in the file, its line."""
    if name not in OURS:
        enter(str(here))
    return _loaded(name, str(here))


@cache
def _loaded(name: str, here: str) -> Task[Any]:
    reference = OURS.get(name) or _installed().get(name) or (name if ":" in name else f"{name}:{ATTRIBUTE}")
    if name.endswith(".py") or not REFERENCE.fullmatch(reference):
        raise _unknown(f'is "{name}"', name, here)
    module, _, attribute = reference.partition(":")
    content = _imported(name, module, here)
    found = getattr(content, attribute, None)
    if not isinstance(found, Task):
        raise _no_task(name, content, attribute)
    if faults := task_faults(found, ours=name in OURS):
        place = _place(content, here)
        raise RefusedError(
            Problem("task", f'is "{name}", but {fault}', "fix the file", None, place) for fault in faults
        )
    return found if name in OURS else checked_functions(found, name, here)


def known_tasks(here: Path) -> list[str]:
    """Names for messages: ours, the installed ones, and files here that make a task."""
    files = (path.stem for path in sorted(here.glob("*.py")) if path.is_file())
    makers = (name for name in files if "Task(" in (here / f"{name}.py").read_text("utf-8", "replace"))
    return list(dict.fromkeys([*OURS, *_installed(), *makers]))


def _installed() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _imported(name: str, module: str, here: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(name, error, here) from None
        raise _unknown(f'is "{name}", but there is no module {error.name} here or installed', name, here) from None
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        raise _broken(name, error, here) from None


def _broken(name: str, error: BaseException, here: str) -> RefusedError:
    return failed(f'is "{name}", whose file cannot be imported', error, here, "fix the file, or name another task")


def _unknown(found: str, name: str, here: str) -> RefusedError:
    known = known_tasks(Path(here))
    near = nearest(re.sub(r"\.py$", "", Path(name.partition(":")[0]).name), known)
    allowed = f"{HOW_TO_NAME}; known: {', '.join(known)}"
    return RefusedError([Problem("task", found, allowed, near and f"task={near}")])


def _no_task(name: str, content: Any, attribute: str) -> RefusedError:
    """The attribute is missing, or no task: others of the module may be meant."""
    module, found = content.__name__, getattr(content, attribute, None)
    tasks = [other for other, value in vars(content).items() if isinstance(value, Task)]
    near = nearest(attribute, tasks) or next(iter(tasks), None)
    what = (
        f"whose {attribute} is {_kind(found)}, not a Task" if found is not None else f"but {module} has no {attribute}"
    )
    allowed = "must name a sweeps.task.Task" + (f", such as {module}:{near}" if near else "")
    meant = f"task={module if near == ATTRIBUTE else f'{module}:{near}'}" if near else None
    return RefusedError([Problem("task", f'is "{name}", {what}', allowed, meant)])


def _kind(found: Any) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"


def _place(content: Any, here: str) -> str | None:
    file = Path(getattr(content, "__file__", None) or here)
    return str(file.relative_to(here) if file.is_relative_to(here) else file)
