"""The task that ``task=`` names: ours, an installed one, or ``module:attribute`` in the current folder."""

import importlib
import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sweeps.config.task_checks import checked_functions, failed, task_faults
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.task import Task


@dataclass(frozen=True)
class TaskSource:
    """A task: how it is named, and the folder from which it was imported."""

    name: str
    folder: str
    task: Task[Any]


DEFAULT_TASK = "translation"
"""Of ``task=`` in a folder without tasks."""
OURS = {DEFAULT_TASK: "transformer.task:TRANSLATION"}
"""Our tasks, whose files lie in ``conf/`` itself, and where they are declared."""
ENTRY_POINTS = "allelse.tasks"
"""The group of entry points under which a package offers its tasks."""
ATTRIBUTE = "task"
"""The attribute of a module that is named alone."""
IMPORTED_PACKAGES = ("allelse", "sweeps", "tracking")
"""What a task's file or its process imports of ours."""
TASK_REFERENCE = re.compile(r"(?!\d)\w+(\.(?!\d)\w+)*:(?!\d)\w+")
HOW_TO_NAME = f"must be {DEFAULT_TASK}, an installed task, or MODULE:ATTRIBUTE, importable from here"
MAKES_TASK = re.compile(r"^(from|import) (allelse|sweeps)\b.*^[^#\n]*\bTask\(", re.MULTILINE | re.DOTALL)
"""The text of a module that declares a task."""


def source_of(name: str, here: Path) -> TaskSource:
    """The named task. Raises RefusedError."""
    return TaskSource(name, str(here), load_task(name, here))


def load_task(name: str, here: Path) -> Task[Any]:
    """Import the task. Raises RefusedError with the reason and, for an error in the file, its line."""
    if name not in OURS:
        _refuse_hidden_packages(here)
        enter(str(here))
    return _loaded(name, str(here))


def reference_of(name: str) -> str:
    """``module:attribute`` of a task."""
    return OURS.get(name) or _installed().get(name) or (name if ":" in name else f"{name}:{ATTRIBUTE}")


def forget_tasks() -> None:
    """Import each task again when it is asked for: its modules may be others now."""
    _loaded.cache_clear()


def _refuse_hidden_packages(here: Path) -> None:
    """Modules next to a task come first in its imports: with the name of a package of ours, they would hide it."""
    found = [file for package in IMPORTED_PACKAGES for file in (f"{package}.py", package) if (here / file).exists()]
    ours = Path(__file__).parents[2]
    if found and here.resolve() != ours:
        names = ", ".join(found)
        raise RefusedError([Problem("task", f"lies next to {names}, which hides a package of allelse", "rename it")])


@cache
def _loaded(name: str, here: str) -> Task[Any]:
    reference = reference_of(name)
    if name.endswith(".py") or not TASK_REFERENCE.fullmatch(reference):
        raise _unknown(f'is "{name}"', name, here)
    module, _, attribute = reference.partition(":")
    content = _imported(name, module, here)
    found = getattr(content, attribute, None)
    if not isinstance(found, Task):
        raise _no_task(name, content, attribute)
    taken = [f"its name {found.name} is taken"] if found.name in OURS and name not in OURS else []
    if faults := [*taken, *task_faults(found)]:
        place = _place(content, here)
        raise RefusedError(
            Problem("task", f'is "{name}", but {fault}', "fix the file", None, place) for fault in faults
        )
    return found if name in OURS else checked_functions(found, name, here)


def usual_task(here: Path) -> str:
    """The task of a command that names none: the only one of this folder, or ours.

    Raises RefusedError if the folder has several.
    """
    own = tasks_in(here)
    if len(own) > 1:
        allowed = f"must be one of {', '.join(f'task={name}' for name in (*own, *OURS))}"
        raise RefusedError([Problem("task", "is missing, and this folder has several", allowed)])
    return own[0] if own else DEFAULT_TASK


def tasks_in(here: Path) -> list[str]:
    """The modules of a folder that declare a task and have its base in ``conf/task/``."""
    return _makers(here) if any((here / "conf" / "task").glob("*/*.yaml")) else []


def known_tasks(here: Path) -> list[str]:
    """Names for messages: ours, the installed ones, and files here that make a task."""
    return list(dict.fromkeys([*OURS, *_installed(), *_makers(here)]))


def _makers(here: Path) -> list[str]:
    files = (file for file in sorted(here.glob("*.py")) if file.is_file())
    return [file.stem for file in files if MAKES_TASK.search(file.read_text("utf-8", "replace"))]


def _installed() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


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
    allowed = "must name an allelse.Task" + (f", such as {module}:{near}" if near else "")
    meant = f"task={module if near == ATTRIBUTE else f'{module}:{near}'}" if near else None
    return RefusedError([Problem("task", f'is "{name}", {what}', allowed, meant)])


def _kind(found: Any) -> str:
    return f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"


def _place(content: Any, here: str) -> str | None:
    file = Path(getattr(content, "__file__", None) or here)
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


_entered: dict[str, frozenset[str]] = {}
"""The folder from which tasks are imported, with the names of modules that were loaded before any from there."""


def enter(here: str) -> None:
    """Import from this folder, besides installed packages. Modules of a former one are forgotten, with their tasks:
    another folder may have others of the same names."""
    if here in _entered:
        return
    for former, before in _entered.items():
        for name in [name for name in sys.modules if name.partition(".")[0] not in before and _lies_in(name, former)]:
            del sys.modules[name]
        sys.path[:] = [place for place in sys.path if place != former]
        forget_tasks()
    _entered.clear()
    _entered[here] = frozenset(sys.modules)
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _lies_in(name: str, folder: str) -> bool:
    """Whether the module, or the package that holds it, lies directly in the folder."""
    top = name.partition(".")[0]
    file = Path(getattr(sys.modules.get(top), "__file__", None) or "")
    return Path(folder) in (file.parent, file.parent.parent) and file.stem in (top, "__init__")
