"""What all verbs share: their arguments, refused options, and what becomes of an error."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from rich.markup import escape
from typer.models import OptionInfo

from sweeps.console import ERR, OUT, print_failure, print_interruption, print_refusal
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, nearest
from tracking.files import DamagedFileError

if TYPE_CHECKING:
    from sweeps.config.settings import Settings
    from tracking.study import Study

DOES = {
    **dict.fromkeys(("plan", "sweep", "train", "ui"), "started"),
    **dict.fromkeys(("init", "report"), "written"),
    **dict.fromkeys(("drop", "rm"), "moved"),
    **{"stop": "stopped", "sync": "sent", "compare": "compared"},
}
"""What a verb does, and by a refusal does not; the others only print."""


def guarded(run: Callable[..., int | None], does: str = "") -> Callable[..., None]:
    """Turn refusals, Ctrl-C and SIGTERM into messages and exit codes. ``does``: as in DOES."""
    done = does or DOES.get(run.__name__)

    @wraps(run)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            refuse_removed_folder()
            refuse_options(run, kwargs.get("overrides") or kwargs.get("arguments") or [])
            code = run(*args, **kwargs) or 0
        except (RefusedError, DamagedFileError) as error:
            print_refusal(error, f"Nothing was {done}." if done else "")
            code = 2
        except BrokenPipeError:  # the reader of a pipe has left
            OUT.on_broken_pipe()
            code = 0
        except OSError as error:
            print_failure(error)
            code = 1
        except KeyboardInterrupt as error:
            code = print_interruption(error)
        raise typer.Exit(code)

    return call


OverrideList = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE …]", help="Overrides, in Hydra's grammar.")
]
Trials = Annotated[list[str], typer.Argument(metavar="TRIAL… [KEY=VALUE …]", help="Finished trials, then overrides.")]
Add = Annotated[bool, typer.Option("--add", help="Add rows and seeds that the study does not have yet.")]
ChangedCode = Annotated[
    bool, typer.Option("--changed-code", help="Train what is left with the code of now; the table marks those rows.")
]
Checking = Annotated[bool, typer.Option("--check", help="Look at places, addresses and machines, as sweep does first.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


TAKES_ALL = {"ignore_unknown_options": True}
"""Unknown options reach the verb, which refuses them by ``refuse_options``."""
PACKAGES_OF_RUN = ("mlflow", "pooch", "ray", "sacrebleu", "sacremoses", "safetensors", "sentencepiece", "torch")
"""The packages of the extra ``run``."""


def refuse_removed_folder() -> None:
    """Raises RefusedError if the current folder is gone."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RefusedError([Problem("paths", "the current folder was removed", "change to another folder")]) from None


def refuse_options(verb: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Refuse arguments that look like options and are none of the verb's. Raises RefusedError."""
    problems = [_unknown(verb, text) for text in arguments if text.startswith("-")]
    if problems:
        raise RefusedError(problems)


def refuse_without_extra() -> None:
    """Raises RefusedError if a package of the extra ``run`` is missing, as it is where studies are only read."""
    if missing := [package for package in PACKAGES_OF_RUN if find_spec(package) is None]:
        found = f"is not installed: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise RefusedError([Problem("allelse[run]", found, "type pip install 'allelse[run]'")])


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


def taken_study(overrides: list[str] | None, used: tuple[str, ...] = ()) -> "tuple[Study, Settings]":
    """The study to read, and its settings. Standard error says which one was taken, if there was a choice."""
    from sweeps.planning.named_study import study_to_read  # these import Hydra, which `--help` does not need

    taken = study_to_read(overrides, used)
    print_notices(taken.notices)
    return taken.study, taken.settings


def print_notices(notices: Iterable[str]) -> None:
    """To standard error, such as which of several studies was taken."""
    for notice in notices:
        ERR.print(escape(notice), style="dim", soft_wrap=True)


def names_and_overrides(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Overrides are those with ``=``."""
    typed = list(arguments)
    return [text for text in typed if "=" not in text], [text for text in typed if "=" in text]
