"""The task that ``task=`` names: ours, an installed one, or ``module:attribute`` in the current folder."""

import importlib
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from inspect import isgeneratorfunction
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sweeps.config.schema import PLATFORM, task_card
from sweeps.processes.storage import FIXES
from sweeps.schema import Problem, RefusedError, field_types, nearest
from sweeps.task import Costs, Keep, Metric, Task
from tracking.words import cause_of


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
OUTSIDE_PACKAGES = (
    *("filelock", "fsspec", "hydra", "jinja2", "matplotlib", "mlflow", "numpy", "omegaconf", "pandas", "plotext"),
    *("pooch", "psutil", "ray", "rich", "sacrebleu", "sacremoses", "safetensors", "scipy", "sentencepiece"),
    *("sqlalchemy", "torch", "typer", "yaml"),
)
"""What the platform imports of others in these processes."""
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
    """Modules next to a task come first in its imports: with the name of such a package, they would hide it."""
    files = [f"{package}.py" for package in (*IMPORTED_PACKAGES, *OUTSIDE_PACKAGES)]
    problems: list[Problem] = []
    for owner, names in (
        ("a package of allelse", [*files[: len(IMPORTED_PACKAGES)], *IMPORTED_PACKAGES]),
        ("a package that allelse imports", files[len(IMPORTED_PACKAGES) :]),
        ("a package that allelse imports", [f"{package}/__init__.py" for package in OUTSIDE_PACKAGES]),
    ):
        if hiding := ", ".join(name for name in names if _lies_there(here / name)):
            problems.append(Problem("task", f"lies next to {hiding}, which hides {owner}", "rename it"))
    if problems:
        raise RefusedError(problems)


def _lies_there(path: Path) -> bool:
    """Whether there is such a file or folder, and not that of our own checkout."""
    checkout = Path(__file__).parents[2]
    return path.exists() and path.resolve() != checkout / path.name


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
        place = _shown(getattr(content, "__file__", None) or here, here)
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
    files = (file for file in sorted(here.glob("[!.]*.py")) if file.is_file())  # no lock of an editor
    return [file.stem for file in files if MAKES_TASK.search(file.read_text("utf-8", "replace"))]


def _installed() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def _imported(name: str, module: str, here: str) -> Any:
    try:
        with without_arguments():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(name, error, here) from None
        raise _unknown(f'is "{name}", but there is no module {error.name} here or installed', name, here) from None
    except BaseException as error:  # whatever the user's file raises
        if not is_fault_of_code(error):
            raise
        raise _broken(name, error, here) from None


@contextmanager
def without_arguments() -> Iterator[None]:
    """Within it, the user's code sees no arguments: those of our command are not meant for its ``parse_args()``."""
    arguments = sys.argv[1:]
    del sys.argv[1:]
    try:
        yield
    finally:
        sys.argv[1:] = arguments


def is_fault_of_code(error: BaseException) -> bool:
    """Whether the user's code raised it: neither Ctrl-C did, nor a signal that ends this process."""
    is_signal_of_ray = hasattr(error, "ray_terminate_msg")  # as Ray's handler of SIGTERM raises it
    return not (isinstance(error, KeyboardInterrupt) or is_signal_of_ray)


def _broken(name: str, error: BaseException, here: str) -> RefusedError:
    return failed(f'is "{name}", whose file cannot be imported', error, here, "fix the file, or name another task")


def _unknown(found: str, name: str, here: str) -> RefusedError:
    known = known_tasks(Path(here))
    near = nearest(re.sub(r"\.py$", "", Path(name.partition(":")[0]).name), known)
    allowed = f"{HOW_TO_NAME}; known: {', '.join(known)}"
    return RefusedError([Problem("task", found, allowed, near and f"task={near}")])


def _no_task(name: str, content: Any, attribute: str) -> RefusedError:
    """The attribute is missing, or no task: others of the module may be meant."""
    module = content.__name__
    found = getattr(content, attribute, None)
    tasks = [other for other, value in vars(content).items() if isinstance(value, Task)]
    near = nearest(attribute, tasks) or next(iter(tasks), None)
    what = f"but {module} has no {attribute}" if found is None else f"whose {attribute} is not an allelse.Task"
    allowed = "must name a Task of the module"
    return RefusedError([Problem("task", f'is "{name}", {what}', allowed, near and f"task={module}:{near}")])


ENTERED: dict[str, tuple[frozenset[str], bool]] = {}
"""The folder from which tasks are imported: the modules loaded before any from there, and whether it was searched."""


def enter(here: str) -> None:
    """Import from this folder, besides installed packages. Modules of a former one are forgotten, with their tasks:
    another folder may have others of the same names."""
    if here in ENTERED:
        return
    for former, (before, was_searched) in ENTERED.items():
        for name in [name for name in sys.modules if name.partition(".")[0] not in before and _lies_in(name, former)]:
            del sys.modules[name]
        if not was_searched:
            sys.path[:] = [place for place in sys.path if place != former]
        forget_tasks()
    ENTERED.clear()
    ENTERED[here] = frozenset(sys.modules), here in sys.path
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _lies_in(name: str, folder: str) -> bool:
    """Whether the module, or the package that holds it, lies directly in the folder."""
    top = name.partition(".")[0]
    file = Path(getattr(sys.modules.get(top), "__file__", None) or "")
    return Path(folder) in (file.parent, file.parent.parent) and file.stem in (top, "__init__")


TAKEN_GROUPS = (*PLATFORM, "task")
"""Groups that a task may not have: they belong to the platform."""
PLAIN_KINDS = (int, float, str, bool, dict, NoneType)
KEY_KINDS = "must be int, float, str, bool, None, Literal, list[…] or dict"
Fits = Callable[[Any], bool]
RESULTS: dict[str, tuple[str, Fits]] = {
    "steps": ("a whole number of at least 1", lambda found: type(found) is int and found >= 1),
    "costs": ("Costs", lambda found: isinstance(found, Costs)),
    "fingerprint": ("text", lambda found: isinstance(found, str)),
    "title": ("text or None", lambda found: found is None or isinstance(found, str)),
    "words": ("text", lambda found: isinstance(found, str)),
    "keep": ("Keep", lambda found: isinstance(found, Keep)),
    "texts": ("texts by what each is called", lambda found: isinstance(found, Mapping)),
    "problems": ("a list, each Problem", lambda found: all(isinstance(each, Problem) for each in found)),
    "data_problems": ("a list, each Problem", lambda found: all(isinstance(each, Problem) for each in found)),
    "cautions": ("a list, each str", lambda found: all(isinstance(each, str) for each in found)),
    "precision": ("text", lambda found: isinstance(found, str)),
    "memory": ("a number or None", lambda found: found is None or type(found) in (int, float)),
    "prepare": ("", lambda found: True),
    "resolved": ("the task's configuration", lambda found: True),  # of its schema, which each task has of its own
}
"""The functions of a task that are checked when they are called: what each must return."""
LISTING = ("problems", "data_problems", "cautions")
"""Those that may also yield."""


def task_faults(task: Task[Any]) -> list[str]:
    """Every fault, each as a clause."""
    found: list[str] = []
    if type(task.version) is not int or task.version < 1:
        found.append(f"its version {task.version!r} must be a whole number of at least 1")
    if isgeneratorfunction(task.work):
        found.append("its work yields, as in interface 1; now it calls trial.report, trial.checkpoint, trial.evaluated")
    if (task.save is None) != (task.load is None):
        found.append("it must have both save and load, or neither")
    if type(task.early_stop) is not bool:
        found.append(f"its early_stop {task.early_stop!r} must be True or False")
    if not isinstance(task.verbs, tuple) or not all(map(callable, task.verbs)):
        found.append("its verbs must be a tuple of functions, such as (predict,)")
    left_out = {field.name for field in fields(Task) if field.default is None and getattr(task, field.name) is None}
    functions = {*RESULTS, "work", "save", "load"} - left_out
    found += [f"its {name} must be a function" for name in sorted(functions) if not callable(getattr(task, name))]
    of_parts = [*_metric_faults(task.metrics), *_schema_faults(task.schema)]
    return [*found, *(of_parts or [fault for fault in task_card(task).faults() if "version" not in fault])]


def _metric_faults(metrics: Any) -> Iterator[str]:
    if not isinstance(metrics, tuple) or not all(isinstance(metric, Metric) for metric in metrics):
        yield "its metrics must be a tuple of Metric, such as (Metric('accuracy'),)"
        return
    names = Counter(metric.name for metric in metrics)
    yield from (f"{count} of its metrics have the name {name}" for name, count in names.items() if count > 1)


def _schema_faults(schema: Any) -> Iterator[str]:
    if not _is_frozen(schema):
        yield f"its schema {_called(schema)} must be a frozen dataclass of groups of keys"
        return
    hints = field_types(schema)
    for group in (field.name for field in fields(schema)):
        if group in TAKEN_GROUPS:
            yield f"its group {group} has a name that belongs to the platform"
        elif not _is_frozen(hints[group]):
            yield f"its group {group}, which is {_called(hints[group])}, must be a frozen dataclass of keys"
        else:
            yield from _key_faults(group, field_types(hints[group]))


def _key_faults(group: str, kinds: dict[str, Any]) -> Iterator[str]:
    for name, kind in kinds.items():
        if is_dataclass(kind):
            yield f"its group {group} must hold keys alone, not the group {name}"
        elif not _is_plain(kind):
            yield f"its key {group}.{name}, which is {_called(kind)}, {KEY_KINDS}"


def _is_plain(kind: Any) -> bool:
    """Whether a file can give such a value, and the schema can check it."""
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Annotated:
        return _is_plain(inner[0])
    if origin in (Union, UnionType, list):
        return all(map(_is_plain, inner))
    return kind in PLAIN_KINDS or origin in (Literal, dict)


def _is_frozen(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _called(kind: Any) -> str:
    return str(kind) if get_origin(kind) or not isinstance(kind, type) else kind.__name__


def checked_functions(task: Task[Any], name: str, here: str) -> Task[Any]:
    """The task with functions that raise RefusedError alone."""
    found = {each: getattr(task, each) for each in RESULTS}
    results = {**RESULTS, "resolved": (_called(task.schema), lambda config: isinstance(config, task.schema))}
    checked: dict[str, Any] = {
        each: _checked(of, each, results[each], name, here) for each, of in found.items() if of is not None
    }
    return replace(task, **checked)


def _checked(
    function: Callable[..., Any], called: str, result: tuple[str, Fits], name: str, here: str
) -> Callable[..., Any]:
    wanted, fits = result

    def call(*arguments: Any) -> Any:
        try:
            with without_arguments():
                found = function(*arguments)
                found = list(found) if called in LISTING else found
        except RefusedError:
            raise
        except BaseException as error:  # whatever the user's code raises
            if not is_fault_of_code(error) or (isinstance(error, OSError) and error.errno in FIXES):
                raise  # a full disk is no fault of the code
            raise failed(f'is "{name}", whose {called} fails', error, here) from error
        if not fits(found):
            returned = f'is "{name}", whose {called} returns {found!r:.60}'
            place = _line_of_function(function, here)
            raise RefusedError([Problem("task", returned, f"must return {wanted}", None, place)])
        return found

    return call


SITE = "site-packages"


def failed(found: str, error: BaseException, here: str, allowed: str = "fix the file") -> RefusedError:
    """The refusal of a task whose code has raised ``error``; ``found`` says where."""
    return RefusedError([Problem("task", f"{found}: {cause_of(error)}", allowed, None, _line_of(error, here))])


def _line_of(error: BaseException, here: str) -> str | None:
    """file:line of the innermost line of the user's own code, relative to ``here``."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename, here)}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(here) and SITE not in frame.filename]
    return f"{_shown(own[-1].filename, here)}:{own[-1].lineno}" if own else None


def _line_of_function(function: Callable[..., Any], here: str) -> str | None:
    """file:line at which a function of the user's own code begins."""
    code = getattr(function, "__code__", None)
    if code is None or not Path(code.co_filename).is_relative_to(here):
        return None
    return f"{_shown(code.co_filename, here)}:{code.co_firstlineno}"


def _shown(file: str, here: str) -> str:
    """Relative to ``here``, if it lies there."""
    path = Path(file)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
