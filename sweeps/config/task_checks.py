"""What is wrong with a user's task: as its file declares it, and what its functions raise or return."""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from inspect import isgeneratorfunction
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sweeps.config.schema import PLATFORM, task_card
from sweeps.processes.storage import FIXES
from sweeps.roles import field_types
from sweeps.task import Costs, Keep, Metric, Problem, RefusedError, Task

TAKEN_GROUPS = (*PLATFORM, "task")
"""Groups of the files that are none of a task's."""
PLAIN_KINDS = (int, float, str, bool, dict, NoneType)
KEY_KINDS = "must be int, float, str, bool, None, Literal, list[…] or dict"
ADVISING = ("problems", "cautions", "data_problems", "title")
FUNCTIONS = ("steps", "work", *ADVISING, "costs", "keep", "fingerprint", "resolved")
OPTIONAL = ("words", "prepare", "texts", "save", "load")


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
    found += [f"its {name} must be a function" for name in FUNCTIONS if not callable(getattr(task, name))]
    optional = {name: getattr(task, name) for name in OPTIONAL}
    found += [
        f"its {name} must be a function or None" for name, of in optional.items() if not (of is None or callable(of))
    ]
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
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _is_plain(inner[0])
    if origin in (Union, UnionType, list):
        return all(map(_is_plain, inner))
    return kind in PLAIN_KINDS or origin in (Literal, dict)


def _is_frozen(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _called(kind: Any) -> str:
    return str(kind) if get_origin(kind) or not isinstance(kind, type) else kind.__name__


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
    "prepare": ("", lambda found: True),
    "resolved": ("", lambda found: True),
}
LISTING = ("problems", "data_problems", "cautions")


def checked_functions(task: Task[Any], name: str, here: str) -> Task[Any]:
    """The task with functions that raise RefusedError alone."""
    found = {each: getattr(task, each) for each in RESULTS}
    checked: dict[str, Any] = {each: _checked(of, each, name, here) for each, of in found.items() if of is not None}
    return replace(task, **checked)


def _checked(function: Callable[..., Any], called: str, name: str, here: str) -> Callable[..., Any]:
    wanted, fits = RESULTS[called]

    def call(*arguments: Any) -> Any:
        try:
            found = function(*arguments)
            found = list(found) if called in LISTING else found
        except RefusedError:
            raise
        except Exception as error:  # whatever the user's code raises
            if isinstance(error, OSError) and error.errno in FIXES:
                raise  # a full disk is no fault of the code
            raise failed(f'is "{name}", whose {called} fails', error, here) from error
        if not fits(found):
            result = f'is "{name}", whose {called} returns {found!r:.60}'
            raise RefusedError([Problem("task", result, f"must return {wanted}")])
        return found

    return call


SITE = "site-packages"


def failed(found: str, error: BaseException, here: str, allowed: str = "fix the file") -> RefusedError:
    """The refusal of a task whose code has raised ``error``; ``found`` says where."""
    return RefusedError([Problem("task", f"{found}: {_cause(error)}", allowed, None, _place(error, here))])


def _cause(error: BaseException) -> str:
    """Its type and the first line of its message."""
    said = str(error.msg if isinstance(error, SyntaxError) else error).strip()
    return f"{type(error).__name__}: {said}".splitlines()[0].removesuffix(": ")


def _place(error: BaseException, here: str) -> str | None:
    """file:line of the innermost line of the user's own code, relative to ``here``."""
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno, here)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(here) and SITE not in frame.filename]
    return _shown(own[-1].filename, own[-1].lineno, here) if own else None


def _shown(file: str, line: int | None, here: str) -> str:
    path = Path(file)
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"
