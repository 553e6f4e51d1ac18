"""What all verbs share: their arguments, what names mean, and what becomes of an error."""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from sweeps.config.tasks import DEFAULT_TASK
from sweeps.console import ERR, OUT, next_verb, print_failure, print_interruption, print_refusal
from sweeps.planning.studies.advice import must_finish, some_of, studies_there
from sweeps.planning.studies.known_studies import known_study
from sweeps.problems import Problem, RefusedError, nearest
from tracking.card import Card
from tracking.files import DamagedFileError
from tracking.study import Study, StudyTrial, studies

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

DOES = {
    **dict.fromkeys(("plan", "sweep", "train", "ui"), "started"),
    **dict.fromkeys(("init", "report"), "written"),
    **dict.fromkeys(("drop", "rm"), "moved"),
    **{
        "stop": "stopped",
        "sync": "sent",
        "compare": "compared",
        "publish": "published",
        "restore": "restored",
        "rename": "renamed",
    },
}
"""What a verb does, and does not after a refusal; the others only print."""


UNREADABLE_LETTER = "surrogates not allowed"
"""Python's error at a letter of a name that it could not read in this locale."""
OTHER_LETTERS = Problem(
    "locale",
    "cannot read a letter in a name or in the command",
    "set PYTHONUTF8=1, or LC_ALL=C.UTF-8",
)


def guarded(run: Callable[..., int | None], does: str = "") -> Callable[..., None]:
    """Turn refusals, Ctrl-C and SIGTERM into messages and exit codes. ``does``: as in DOES."""
    done = does or DOES.get(run.__name__)

    @wraps(run)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            code = run(*args, **kwargs) or 0
        except (RefusedError, DamagedFileError) as error:
            print_refusal(error, f"Nothing was {done}." if done else "")
            code = 2
        except UnicodeEncodeError as error:
            if error.reason != UNREADABLE_LETTER:
                raise
            print_refusal(RefusedError([OTHER_LETTERS]), f"Nothing was {done}." if done else "")
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
Trials = Annotated[
    list[str],
    typer.Argument(metavar="TRIAL… [KEY=VALUE …]", help="Finished trials, then overrides."),
]
Add = Annotated[
    bool, typer.Option("--add", help="Add rows and seeds that the study does not have yet.")
]
ChangedCode = Annotated[
    bool,
    typer.Option(
        "--changed-code", help="Train what is left with today's code; the table marks those rows."
    ),
]
Vouching = Annotated[
    bool,
    typer.Option(
        "--vouch",
        help="First train a finished trial again, to show that today's code trains the same.",
    ),
]
Multirun = Annotated[
    bool,
    typer.Option(
        "--multirun", "-m", help="Accepted for Hydra users; several values need no option here."
    ),
]
Checking = Annotated[
    bool,
    typer.Option("--check", help="Look at places, addresses and machines, as sweep does first."),
]
Calibrating = Annotated[
    bool, typer.Option("--calibrate", help="Time some steps of three rows, to know the hours.")
]
Locking = Annotated[
    bool,
    typer.Option(
        "--lock", help="Write rows, seeds, metrics and tests to lock.json, before the first result."
    ),
]
Reporting = Annotated[
    bool, typer.Option("--report", help="At the end write the report, as `allelse report` does.")
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


def refuse_without_extra() -> None:
    """Raises RefusedError if a package of the extra ``run`` is missing, as it is where studies are
    only read."""
    if missing := [package for package in PACKAGES_OF_RUN if find_spec(package) is None]:
        found = (
            f"is not installed: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
        raise RefusedError([Problem("allelse[run]", found, "type pip install 'allelse[run]'")])


def print_version(asked: bool) -> None:
    if asked:
        from tracking.provenance import DISTRIBUTION, own_version

        print(
            f"allelse {own_version() or f'of an unknown version: {DISTRIBUTION} is not installed'}"
        )
        raise typer.Exit


def taken_study(
    overrides: list[str] | None, used: tuple[str, ...] = ()
) -> "tuple[Study, Settings]":
    """The study to read, and its settings. Standard error says which one was taken, if there was a
    choice."""
    from sweeps.planning.studies.named_study import (
        study_to_read,  # these import Hydra, which `--help` does not need
    )
    from sweeps.planning.study_rows.todays_words import with_todays_words

    taken = study_to_read(overrides, used)
    print_notices(taken.notices)
    return with_todays_words(taken.study, Path.cwd()), taken.settings


def next_run(
    verb: str, study: Study, settings: "Settings", overrides: list[str], failed: bool
) -> None:
    """Print the command that runs what is left, and what it takes after a change of the user's
    code."""
    from sweeps.planning.study_rows.command_task import source_of_study
    from sweeps.planning.user_code.versions import changed_since

    changed = None
    with suppress(RefusedError):  # a task that cannot be imported is refused once it is to run
        changed = changed_since(
            study, source_of_study(study, Path.cwd()), settings.paths.checkpoints
        )
    mark = "the table marks what the new code trains"
    if changed:
        OUT.print(
            f"{escape(', '.join(changed))} changed since {escape(study.name)} began: {mark}.",
            soft_wrap=True,
        )
    elif failed and changed is not None:
        OUT.print(
            f"After a change of the task's code, add --changed-code: {mark}.",
            style="dim",
            soft_wrap=True,
        )
    next_verb(verb, [*overrides, "--changed-code"] if changed else overrides)


def print_notices(notices: Iterable[str]) -> None:
    """To standard error, such as which of several studies was taken."""
    for notice in notices:
        ERR.print(escape(notice), style="dim", soft_wrap=True)


def names_and_overrides(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Overrides are those with ``=``."""
    typed = list(arguments)
    return [text for text in typed if "=" not in text], [text for text in typed if "=" in text]


@dataclass(frozen=True)
class Named:
    """What a name means: trials of one row, or a whole study, whose ``row`` is None."""

    name: str
    study: Study
    row: str | None
    trials: tuple[StudyTrial, ...]

    def of_row(self, row: str) -> list[StudyTrial]:
        return [trial for trial in self.trials if trial.row == row]

    def states(self) -> list[str]:
        return [standing.state for standing in self.study.standings(self.trials)]


def meant(name: str, here: Study | None, runs: Path) -> Named | None:
    """A row or trial of the study ``here``; or STUDY, STUDY/ROW, STUDY/TRIAL, the folder of a study
    or of a trial.

    Raises RefusedError for a damaged study.
    """
    (study_name, _, inner), folder = name.rpartition("/"), Path(name).expanduser().resolve()
    if here and (found := part(here, name, name)):
        return found
    for place, of_study in (
        (runs / name, ""),
        (runs / study_name, inner),
        (folder, ""),
        (folder.parent, folder.name),
    ):
        if study := known_study(place):
            found = (
                part(study, of_study, name) if of_study else Named(name, study, None, study.trials)
            )
            if found:
                return found
    return None


TRIAL_KINDS = "must be a trial, the folder of a trial or checkpoint, or an MLflow run id"


def named_folder(name: str, settings: "Settings") -> Path:
    """The folder of this name, or that of the trial which it means. Raises RefusedError with the
    nearest known name."""
    from tracking.mlflow.ledger import trial_of_run

    runs = Path(settings.paths.runs)
    here = None if "/" in name else known_study(settings.study_folder)
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser().resolve()
    named = meant(name, here, runs)
    if named is not None and len(named.trials) == 1 and named.row:
        return named.study.trial_folder(named.trials[0]).path
    if re.fullmatch("[0-9a-f]{32}", name) and (found := trial_of_run(runs, name)):
        return found
    everywhere = [
        f"{study.name}/{trial.name}" for study in studies(runs)[0] for trial in study.trials
    ]
    if here is not None:
        raise RefusedError([unknown("TRIAL", name, here, "trials", TRIAL_KINDS, everywhere)])
    missing = "such trial" if "/" in name else f"study {settings.study_folder.name}"
    same_name = (other for other in everywhere if other.endswith(f"/{name}"))
    found_there = f'is "{name}", but {runs} holds no {missing}; {studies_there(runs)}'
    near = next(same_name, nearest(name, everywhere))
    raise RefusedError([Problem("TRIAL", found_there, TRIAL_KINDS, near)])


def named_folders(name: str, settings: "Settings") -> list[Path]:
    """Those of the trials that the name means: of a row, all of them. Raises RefusedError as
    ``named_folder``."""
    runs = Path(settings.paths.runs)
    here = None if "/" in name else known_study(settings.study_folder)
    named = None if Path(name).expanduser().is_dir() else meant(name, here, runs)
    if named is not None and named.row and len(named.trials) > 1:
        return [named.study.trial_folder(trial).path for trial in named.trials]
    return [named_folder(name, settings)]


def part(study: Study, inner: str, name: str) -> Named | None:
    """The row or trial ``inner`` of the study."""
    trials = tuple(trial for trial in study.trials if inner in (trial.row, trial.name))
    return Named(name, study, trials[0].row, trials) if trials else None


def rows_of(study: Study) -> list[str]:
    """In the order of the table."""
    return list(dict.fromkeys(trial.row for trial in study.trials))


def unknown(
    key: str, name: str, study: Study, kinds: str, allowed: str, others: Iterable[str] = ()
) -> Problem:
    """The refusal of a name that the study does not have. ``kinds``: "rows" or "trials", which it
    lists."""
    trials = [trial.name for trial in study.trials]
    inner = name.rpartition("/")[2]
    listed = rows_of(study) if kinds == "rows" else trials
    first_seed = next((trial for trial in trials if trial.startswith(f"{inner}-s")), None)
    near = first_seed or nearest(inner, dict.fromkeys([*listed, *trials, *others]))
    return Problem(
        key, f'is "{name}", but the {kinds} of {study.name} are {some_of(listed)}', allowed, near
    )


def unfinished(key: str, name: str, states: Iterable[str], study: Path) -> Problem:
    """The refusal of trials without a result: their states, and what to type."""
    words = sorted({"not trained yet" if state == "missing" else state for state in states})
    return Problem(key, f"{name} is {' and '.join(words)}", must_finish(study))


@dataclass
class Checked:
    """Collects the problems of names, each with the names that are allowed."""

    problems: list[Problem] = field(default_factory=list)

    def known(
        self, key: str, names: Iterable[str], allowed: Sequence[str], what: str, more: str = ""
    ) -> list[str]:
        """The names that exist, each once. A refusal ends with ``more``."""
        kept = list(dict.fromkeys(names))
        for name in [name for name in kept if name not in allowed]:
            found = f'names "{name}", which is not a {what}'
            near = nearest(name, allowed)
            self.problems.append(Problem(key, found, _one_of(allowed) + more, near))
        return [name for name in kept if name in allowed]

    def one(
        self, key: str, name: str | None, allowed: Sequence[str], what: str, more: str = ""
    ) -> str | None:
        """The value of an option, if it was typed and exists."""
        return name if name is not None and self.known(key, [name], allowed, what, more) else None

    def scored(self, name: str | None, card: Card, measured: Iterable[str]) -> str | None:
        """The set of ``--set`` if it has scores, or will have; a refusal says what scores a set."""
        known = list(measured)
        more = "; a trial scores its sets when its training ends"
        if known and card.name == DEFAULT_TASK:
            more = f"; `allelse evaluate TRIAL --set {name}` scores another set"
        return self.one("--set", name, known or card.scored_sets, "set with scores", more)

    def listed(self, key: str, text: str, allowed: Sequence[str], what: str) -> list[str]:
        """The same for a list, which must not be empty."""
        if not (names := listed(text)):
            self.problems.append(Problem(key, "is empty", _one_of(allowed)))
        return self.known(key, names, allowed, what)

    def refuse(self) -> None:
        """Raises RefusedError if there is a problem."""
        if self.problems:
            raise RefusedError(self.problems)


def listed(text: str | None) -> list[str]:
    """Names separated by commas, also in brackets."""
    return [name for part in (text or "").strip("[] ").split(",") if (name := part.strip())]


def _one_of(names: Sequence[str]) -> str:
    return f"must be one of {', '.join(names)}"
