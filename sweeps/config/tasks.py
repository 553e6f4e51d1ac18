"""Finds the task of ``task=``: ours, an installed one, or a command or ``module:attribute`` in this
folder."""

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sweeps.command_task.lookup import command_names, command_task
from sweeps.config.task_faults import (
    LISTING,
    OUTSIDE_PACKAGES,
    RESULTS,
    Fits,
    task_faults,
    type_name,
)
from sweeps.problems import Problem, RefusedError, nearest, refusal, refuse
from sweeps.processes.storage import FIXES
from sweeps.task import Task
from tracking.error_causes import cause_of


@dataclass(frozen=True)
class TaskSource:
    """A task, with its name on the command line and the folder from which it was imported."""

    name: str
    folder: str
    task: Task[Any]


DEFAULT_TASK = "translation"
"""The task in a folder without tasks."""
OURS = {DEFAULT_TASK: "transformer.task:TRANSLATION"}
"""Our tasks, and where they are declared. Their files are directly in ``conf/``."""
ENTRY_POINTS = "allelse.tasks"
"""The entry point group for the tasks of a package."""
ATTRIBUTE = "task"
"""The attribute that ``task=MODULE`` means."""
IMPORTED_PACKAGES = ("allelse", "sweeps", "tracking")
"""Our packages that a task's file or process imports."""
TASK_REFERENCE = re.compile(r"(?!\d)\w+(\.(?!\d)\w+)*:(?!\d)\w+")
HOW_TO_NAME = (
    f"must be {DEFAULT_TASK}, an installed task, a command in conf/task/, "
    "or MODULE:ATTRIBUTE that can be imported here"
)
MAKES_TASK = re.compile(
    r"^(from|import) (allelse|sweeps)\b.*(^[^#\n]*\bTask\(|^@(\w+\.)?task\()",
    re.MULTILINE | re.DOTALL,
)
"""Matches the text of a module that declares a task."""
STATES_BASE = re.compile(r"^@(\w+\.)?task\(|^\s+base=|\bTask\(.*\bbase=", re.MULTILINE)
"""Matches the text of a module whose task needs no base file: it has a function's defaults, or
``base``."""


def source_of(name: str, here: Path) -> TaskSource:
    """The named task. Raises RefusedError."""
    return TaskSource(name, str(here), load_task(name, here))


def load_task(name: str, here: Path) -> Task[Any]:
    """Import the task. Raises RefusedError with the reason and, for an error in the file, its
    line."""
    if name not in OURS:
        _refuse_hidden_packages(here)
        enter(str(here))
        command = command_task(name, here)
        if command is not None:
            return command
    return _loaded(name, str(here))


def reference_of(name: str) -> str:
    """``module:attribute`` of a task."""
    declared = OURS.get(name) or _installed_tasks().get(name)
    if declared:
        return declared
    return name if ":" in name else f"{name}:{ATTRIBUTE}"


def forget_tasks() -> None:
    """Import each task again at its next use: its modules may have changed."""
    _loaded.cache_clear()


def _refuse_hidden_packages(here: Path) -> None:
    """Refuse modules next to a task with the name of a package: Python would import them instead.

    Raises RefusedError.
    """
    our_files = [f"{package}.py" for package in IMPORTED_PACKAGES]
    outside_files = [f"{package}.py" for package in OUTSIDE_PACKAGES]
    outside_folders = [f"{package}/__init__.py" for package in OUTSIDE_PACKAGES]
    outside = "a package that allelse imports"
    problems = [
        *_hidden_package(here, [*our_files, *IMPORTED_PACKAGES], "a package of allelse"),
        *_hidden_package(here, outside_files, outside),
        *_hidden_package(here, outside_folders, outside),
    ]
    refuse(problems)


def _hidden_package(here: Path, names: list[str], owner: str) -> Iterator[Problem]:
    """One problem with all files of these names in the folder."""
    files = [name for name in names if _hides_package(here / name)]
    if files:
        fault = f"is next to {', '.join(files)}, which hides {owner}"
        yield Problem("task", fault, "rename it")


def _hides_package(path: Path) -> bool:
    """Whether the file or folder exists, and isn't the one in our checkout."""
    checkout = Path(__file__).parents[2]
    return path.exists() and path.resolve() != checkout / path.name


@cache
def _loaded(name: str, here: str) -> Task[Any]:
    reference = reference_of(name)
    if name.endswith(".py") or not TASK_REFERENCE.fullmatch(reference):
        raise _unknown(f'is "{name}"', name, here)
    module, _, attribute = reference.partition(":")
    content = _imported(name, module, here)
    task = getattr(content, attribute, None)
    if not isinstance(task, Task) and ":" not in name:
        tasks = _declared_tasks(content)
        if len(tasks) > 1:
            raise _several_tasks(name, module, list(tasks))
        task = next(iter(tasks.values()), task)
    if not isinstance(task, Task):
        raise _not_a_task(name, content, attribute)
    faults = task_faults(task)
    if task.name in OURS and name not in OURS:
        faults = [f"its name {task.name} is taken", *faults]
    if faults:
        location = _relative(getattr(content, "__file__", None) or here, here)
        raise RefusedError(
            Problem("task", f'is "{name}", but {fault}', "fix the file", place=location)
            for fault in faults
        )
    return task if name in OURS else checked_functions(task, name, here)


def _declared_tasks(module: Any) -> dict[str, Task[Any]]:
    """The module's tasks by the first name of each."""
    names: dict[str, Task[Any]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Task) and not any(value is task for task in names.values()):
            names[name] = value
    return names


def usual_task(here: Path) -> str:
    """The task of a command that names none: the folder's only task, or ours if it has none.

    Raises RefusedError if the folder has several.
    """
    names = tasks_in(here)
    if len(names) > 1:
        allowed = f"must be one of {', '.join(f'task={name}' for name in (*names, *OURS))}"
        raise refusal("task", "is missing, and this folder has several", allowed)
    return names[0] if names else DEFAULT_TASK


def tasks_in(here: Path) -> list[str]:
    """The commands of a folder, and its modules that declare a task and its base, in ``conf/task/``
    or in Python."""
    modules = _task_modules(here)
    if not any((here / "conf" / "task").glob("*/*.yaml")):
        modules = [name for name in modules if _states_base(here / f"{name}.py")]
    return list(dict.fromkeys([*command_names(here), *modules]))


def known_tasks(here: Path) -> list[str]:
    """Names for messages: our tasks, installed ones, and files here that declare one."""
    modules = _task_modules(here)
    return list(dict.fromkeys([*OURS, *_installed_tasks(), *command_names(here), *modules]))


def _task_modules(here: Path) -> list[str]:
    """The modules of a folder that declare a task."""
    return [
        file.stem
        for file in sorted(here.glob("[!.]*.py"))  # not the lock of an editor
        if file.is_file() and MAKES_TASK.search(file.read_text("utf-8", "replace"))
    ]


def _states_base(file: Path) -> bool:
    return bool(STATES_BASE.search(file.read_text("utf-8", "replace")))


def _installed_tasks() -> dict[str, str]:
    """Where each task of an installed package is declared."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def _imported(name: str, module: str, here: str) -> Any:
    """The module, imported. Raises RefusedError if there is none, or if its code fails."""
    try:
        with without_arguments():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(name, error, here) from None
        fault = f'is "{name}", but there is no module {error.name} here or installed'
        raise _unknown(fault, name, here) from None
    except BaseException as error:  # whatever the user's file raises
        if not is_fault_of_code(error):
            raise
        raise _broken(name, error, here) from None


@contextmanager
def without_arguments() -> Iterator[None]:
    """Hide the command's arguments from the user's code: they aren't meant for its
    ``parse_args()``."""
    arguments = sys.argv[1:]
    del sys.argv[1:]
    try:
        yield
    finally:
        sys.argv[1:] = arguments


def is_fault_of_code(error: BaseException) -> bool:
    """Whether the user's code raised it, and not Ctrl-C or a signal that ends this process."""
    is_signal = hasattr(error, "ray_terminate_msg")  # Ray's handler of SIGTERM sets it
    return not (isinstance(error, KeyboardInterrupt) or is_signal)


def _broken(name: str, error: BaseException, here: str) -> RefusedError:
    fault = f'is "{name}", whose file cannot be imported'
    return failed(fault, error, here, "fix the file, or name another task")


def _unknown(fault: str, name: str, here: str) -> RefusedError:
    """The refusal of a task that does not exist, with the nearest name."""
    names = known_tasks(Path(here))
    module = Path(name.partition(":")[0]).name
    similar = nearest(re.sub(r"\.py$", "", module), names)
    allowed = f"{HOW_TO_NAME}; known: {', '.join(names)}"
    return refusal("task", fault, allowed, similar and f"task={similar}")


def _several_tasks(name: str, module: str, tasks: list[str]) -> RefusedError:
    """The refusal of a module's name, since it declares several tasks."""
    choices = ", ".join(f"task={module}:{task}" for task in tasks)
    fault = f'is "{name}", which declares several tasks'
    return refusal("task", fault, f"must be one of {choices}")


def _not_a_task(name: str, content: Any, attribute: str) -> RefusedError:
    """The refusal of an attribute that is missing or no task, with the nearest task of the
    module."""
    module = content.__name__
    tasks = [variable for variable, value in vars(content).items() if isinstance(value, Task)]
    similar = nearest(attribute, tasks) or next(iter(tasks), None)
    if getattr(content, attribute, None) is None:
        fault = f'is "{name}", but {module} has no {attribute}'
    else:
        fault = f'is "{name}", whose {attribute} is not an allelse.Task'
    allowed = "must name a Task of the module"
    return refusal("task", fault, allowed, similar and f"task={module}:{similar}")


ENTERED: dict[str, tuple[frozenset[str], bool]] = {}
"""The folder from which tasks are imported, with the modules loaded before, and whether Python
already searched it."""


def enter(here: str) -> None:
    """Import from this folder and from installed packages.

    Modules and tasks of the folder before are forgotten: this one may have modules of the same
    names.
    """
    if here in ENTERED:
        return
    for folder, (earlier_modules, was_searched) in ENTERED.items():
        _forget_modules(folder, earlier_modules)
        if not was_searched:
            sys.path[:] = [path for path in sys.path if path != folder]
        forget_tasks()
    ENTERED.clear()
    ENTERED[here] = frozenset(sys.modules), here in sys.path
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _forget_modules(folder: str, earlier_modules: frozenset[str]) -> None:
    """Forget the modules of the folder, unless they were loaded before it was entered."""
    forgotten = [
        name
        for name in sys.modules
        if name.partition(".")[0] not in earlier_modules and _lies_in(name, folder)
    ]
    for name in forgotten:
        del sys.modules[name]


def _lies_in(name: str, folder: str) -> bool:
    """Whether the module, or the package that holds it, lies directly in the folder."""
    top = name.partition(".")[0]
    file = Path(getattr(sys.modules.get(top), "__file__", None) or "")
    return Path(folder) in (file.parent, file.parent.parent) and file.stem in (top, "__init__")


def checked_functions(task: Task[Any], name: str, here: str) -> Task[Any]:
    """The task with functions whose only error is RefusedError: for what they raise or return
    wrongly."""
    config_type = (type_name(task.schema), lambda config: isinstance(config, task.schema))
    results = {**RESULTS, "resolved": config_type}
    checked: dict[str, Any] = {}
    for function_name, result in results.items():
        function = getattr(task, function_name)
        if function is not None:
            checked[function_name] = _checked(function, function_name, result, name, here)
    return replace(task, **checked)


def _checked(
    function: Callable[..., Any], function_name: str, result: tuple[str, Fits], task: str, here: str
) -> Callable[..., Any]:
    """The function of the ``task``, with a refusal for an error, or for a result that doesn't fit
    ``result``."""
    allowed_result, fits = result

    def call(*arguments: Any) -> Any:
        try:
            with without_arguments():
                value = function(*arguments)
                if function_name in LISTING:
                    value = list(value)
        except RefusedError:
            raise
        except BaseException as error:  # whatever the user's code raises
            is_fault_of_storage = isinstance(error, OSError) and error.errno in FIXES
            if is_fault_of_storage or not is_fault_of_code(error):
                raise
            raise failed(f'is "{task}", whose {function_name} fails', error, here) from error
        if not fits(value):
            fault = f'is "{task}", whose {function_name} returns {value!r:.60}'
            location = _line_of_function(function, here)
            allowed = f"must return {allowed_result}"
            raise refusal("task", fault, allowed, place=location)
        return value

    return call


SITE = "site-packages"


def failed(
    fault: str, error: BaseException, here: str, allowed: str = "fix the file"
) -> RefusedError:
    """The refusal of a task whose code has raised ``error``."""
    location = _line_of_error(error, here)
    return refusal("task", f"{fault}: {cause_of(error)}", allowed, place=location)


def _line_of_error(error: BaseException, here: str) -> str | None:
    """file:line of the innermost line of the user's code; None if none of it raised the error."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_relative(error.filename, here)}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).is_relative_to(here) and SITE not in frame.filename:
            return f"{_relative(frame.filename, here)}:{frame.lineno}"
    return None


def _line_of_function(function: Callable[..., Any], here: str) -> str | None:
    """file:line at which a function of the user's code begins; None if the code is not in
    ``here``."""
    code = getattr(function, "__code__", None)
    if code is None or not Path(code.co_filename).is_relative_to(here):
        return None
    return f"{_relative(code.co_filename, here)}:{code.co_firstlineno}"


def _relative(file: str, here: str) -> str:
    """The file relative to ``here``, if it lies there."""
    path = Path(file)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
