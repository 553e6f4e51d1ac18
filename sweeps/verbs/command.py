"""What all verbs share: their arguments, the study to read, and how errors become exit codes."""

import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps.console import (
    ERR,
    OUT,
    next_command,
    next_verb,
    print_failure,
    print_interruption,
    print_line,
    print_refusal,
)
from sweeps.planning.studies.published_copy import continuing
from sweeps.problems import Problem, RefusedError, refusal
from tracking.files import DamagedFileError
from tracking.study import Study

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

EFFECTS = {
    "plan": "started",
    "sweep": "started",
    "train": "started",
    "ui": "started",
    "init": "written",
    "probe": "started",
    "report": "written",
    "drop": "moved",
    "rm": "moved",
    "stop": "stopped",
    "sync": "sent",
    "compare": "compared",
    "publish": "published",
    "restore": "restored",
    "rename": "renamed",
}
"""What a verb does, and has not done after a refusal. Other verbs only print."""
UNREADABLE_LETTER = "surrogates not allowed"
"""Python's error for a letter in a name that it could not read in this locale."""
LOCALE_PROBLEM = Problem(
    "locale",
    "cannot read a letter in a name or in the command",
    "set PYTHONUTF8=1, or LC_ALL=C.UTF-8",
)
LIST_ITEM = re.compile(r"^\s*([-*•]|\d+[.)])\s", re.MULTILINE)

OverrideList = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE …]", help="Overrides in Hydra's syntax.")
]
Trials = Annotated[
    list[str],
    typer.Argument(metavar="TRIAL… [KEY=VALUE …]", help="Finished trials, then overrides."),
]
Add = Annotated[
    bool, typer.Option("--add", help="Add rows and seeds that the study doesn't have yet.")
]
ChangedCode = Annotated[
    bool,
    typer.Option(
        "--changed-code",
        help="Train the remaining trials with today's code. The table marks their rows.",
    ),
]
Multirun = Annotated[
    bool,
    typer.Option(
        "--multirun", "-m", help="Accepted for Hydra users. Several values need no option here."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

PACKAGES_OF_RUN = (
    "mlflow",
    "pooch",
    "ray",
    "sacrebleu",
    "sacremoses",
    "safetensors",
    "sentencepiece",
    "torch",
)
"""The packages of the extra ``run``."""


def guarded(run: Callable[..., int | None], effect: str = "") -> Callable[..., None]:
    """Turn refusals, Ctrl-C and SIGTERM into messages and exit codes. ``effect``: see EFFECTS."""
    effect = effect or EFFECTS.get(run.__name__, "")
    outcome = f"Nothing was {effect}." if effect else ""

    @wraps(run)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            code = run(*args, **kwargs) or 0
        except (RefusedError, DamagedFileError) as error:
            print_refusal(error, outcome)
            code = 2
        except UnicodeEncodeError as error:
            if error.reason != UNREADABLE_LETTER:
                raise
            print_refusal(RefusedError([LOCALE_PROBLEM]), outcome)
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

    call.__doc__ = _help_text(run)
    return call


def _help_text(run: Callable[..., Any]) -> str | None:
    """The docstring with each paragraph on one line, since `--help` wraps lines itself."""
    text = inspect.getdoc(run)
    if text is None:
        return None
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        paragraph if LIST_ITEM.search(paragraph) else paragraph.replace("\n", " ")
        for paragraph in paragraphs
    )


def refuse_without_extra() -> None:
    """Raises RefusedError if a package of the extra ``run`` is missing."""
    missing = [package for package in PACKAGES_OF_RUN if find_spec(package) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        fault = f"is not installed: {', '.join(missing)} {verb} missing"
        raise refusal("allelse[run]", fault, "type pip install 'allelse[run]'")


def print_version(is_typed: bool) -> None:
    if is_typed:
        from tracking.provenance import DISTRIBUTION, own_version

        version = own_version() or f"of an unknown version: {DISTRIBUTION} is not installed"
        print(f"allelse {version}")
        raise typer.Exit


def taken_study(
    overrides: list[str] | None, used: tuple[str, ...] = ()
) -> "tuple[Study, Settings]":
    """The study to read, and its settings. If there was a choice, standard error names the study.

    ``used``: overrides that the verb takes besides those that name a study."""
    # These import Hydra, which `--help` does not need.
    from sweeps.planning.studies.named_study import study_to_read
    from sweeps.planning.study_rows.todays_words import with_todays_words

    selection = study_to_read(overrides, used)
    print_notices(selection.notices)
    return with_todays_words(selection.study, Path.cwd()), selection.settings


def next_run(
    verb: str, study: Study, settings: "Settings", overrides: list[str], failed: bool
) -> None:
    """Print the command that runs the remaining trials, and how to continue after a code change."""
    from sweeps.planning.study_rows.task_choice import source_of_study
    from sweeps.planning.user_code.versions import changed_since

    changed_files = None
    with suppress(RefusedError):  # a task that cannot be imported is refused once it is to run
        source = source_of_study(study, Path.cwd())
        changed_files = changed_since(study, source, settings.paths.checkpoints)
    mark = "the table marks what the new code trains"
    if changed_files:
        files = ", ".join(changed_files)
        print_line(OUT, f"{files} changed since {study.name} began: {mark}.")
        overrides = [*overrides, "--changed-code"]
    elif failed and changed_files is not None:
        line = f"After a change of the task's code, add --changed-code: {mark}."
        print_line(OUT, line, "dim")
    next_verb(verb, overrides)


def next_copy(published: Path) -> None:
    """Print the command that copies a published study, so that the copy can go on."""
    line = f"{published.name} is published and stays as it is. A copy of it can go on:"
    print_line(OUT, line, "dim")
    next_command(continuing(published))


def print_notices(notices: Iterable[str]) -> None:
    """Print dim lines to standard error, such as which of several studies is read."""
    for notice in notices:
        print_line(ERR, notice, "dim")


def names_and_overrides(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names among the arguments, then the overrides: those with ``=``."""
    words = list(arguments)
    names = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    return names, overrides
