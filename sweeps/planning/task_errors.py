"""Errors that a user's file raises, as refusals that name its line."""

import traceback
from pathlib import Path

from sweeps.task import Problem, RefusedError

INSTALLED = "site-packages"


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
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(here) and INSTALLED not in frame.filename]
    return _shown(own[-1].filename, own[-1].lineno, here) if own else None


def _shown(file: str, line: int | None, here: str) -> str:
    path = Path(file)
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{line}"
