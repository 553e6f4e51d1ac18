"""The names of verbs and options as people type them, and what they mean."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from sweeps.schema import Problem, RefusedError, nearest

TAKES_ALL = {"ignore_unknown_options": True}
"""Unknown options reach the verb, which refuses them by ``refuse_options``."""
COMMAND_LINE = "command line"


def refuse_options(verb: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Refuse arguments that look like options and are none of the verb's. Raises RefusedError."""
    problems = [_unknown(verb, text) for text in arguments if text.startswith("-")]
    if problems:
        raise RefusedError(problems)


def refuse_removed_folder() -> None:
    """Raises RefusedError if the current folder is gone."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RefusedError([Problem("paths", "the current folder was removed", "change to another folder")]) from None


def _unknown(verb: Callable[..., Any], text: str) -> Problem:
    options = list(_options(verb))
    allowed = f"options are {', '.join(options)}; write settings as key=value"
    near = nearest(text.partition("=")[0], options)
    return Problem(text, f"is not an option of `allelse {verb.__name__}`", allowed, near, COMMAND_LINE)


def _options(verb: Callable[..., Any]) -> Iterator[str]:
    hints = get_type_hints(verb, include_extras=True)
    for name in inspect.signature(verb).parameters:
        for extra in get_args(hints.get(name)):
            if isinstance(extra, OptionInfo):
                declared = map(str, (extra.default, *(extra.param_decls or ())))
                names = [text for text in declared if text.startswith("--")]
                yield next(iter(names), f"--{name.replace('_', '-')}")
    yield "--help"


def print_version(asked: bool) -> None:
    if asked:
        from tracking.provenance import DISTRIBUTION, own_version

        print(f"allelse {own_version() or f'of an unknown version: {DISTRIBUTION} is not installed'}")
        raise typer.Exit
