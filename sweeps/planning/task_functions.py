"""The functions of a user's task, which every plan calls: what they raise, and a wrong result, is a refusal."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sweeps.planning.task_errors import failed
from sweeps.processes.storage import FIXES
from sweeps.task import Costs, Keep, Problem, RefusedError, Task

Fits = Callable[[Any], bool]
RESULTS: dict[str, tuple[str, Fits]] = {
    "steps": ("a whole number of at least 1", lambda found: type(found) is int and found >= 1),
    "costs": ("Costs", lambda found: isinstance(found, Costs)),
    "fingerprint": ("text", lambda found: isinstance(found, str)),
    "title": ("text or None", lambda found: found is None or isinstance(found, str)),
    "words": ("text", lambda found: isinstance(found, str)),
    "keep": ("Keep", lambda found: isinstance(found, Keep)),
    "texts": ("texts by what each is called", lambda found: isinstance(found, Mapping)),
}
LISTS: dict[str, type] = {"problems": Problem, "data_problems": Problem, "cautions": str}
OTHERS = ("prepare", "resolved")


def checked_functions(task: Task[Any], name: str, here: str) -> Task[Any]:
    """The task with functions that raise RefusedError alone."""
    found = {each: getattr(task, each) for each in (*RESULTS, *LISTS, *OTHERS)}
    checked: dict[str, Any] = {each: _checked(of, each, name, here) for each, of in found.items() if of is not None}
    return replace(task, **checked)


def _checked(function: Callable[..., Any], called: str, name: str, here: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        try:
            found = function(*arguments)
            found = list(found) if called in LISTS else found
        except RefusedError:
            raise
        except Exception as error:  # whatever the user's code raises
            if isinstance(error, OSError) and error.errno in FIXES:
                raise  # a full disk is no fault of the code
            raise failed(f'is "{name}", whose {called} fails', error, here) from error
        if wanted := _other_than(called, found):
            result = f'is "{name}", whose {called} returns {found!r:.60}'
            raise RefusedError([Problem("task", result, f"must return {wanted}")])
        return found

    return call


def _other_than(called: str, found: Any) -> str | None:
    """What the function must return, if it did not."""
    if called in LISTS:
        kind = LISTS[called]
        return None if all(isinstance(each, kind) for each in found) else f"a list, each {kind.__name__}"
    wanted, fits = RESULTS.get(called, ("", bool))
    return None if called in OTHERS or fits(found) else wanted
