"""The verbs of a task as commands: what is named on the command line becomes its trained trials."""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from sweeps.config.tasks import DEFAULT_TASK, TaskSource, known_tasks, source_of
from sweeps.console import next_command, print_refusal
from sweeps.planning.studies.study_overrides import naming
from sweeps.problems import COMMAND_LINE, Problem, RefusedError, damaged
from sweeps.task import Trained, Typed
from sweeps.verbs.command import Trials, guarded, named_folder, named_folders, refuse_without_extra
from sweeps.verbs.evaluate import evaluate
from tracking.files import DamagedFileError

if TYPE_CHECKING:
    from sweeps.config.settings import Settings
    from sweeps.verbs.trained_trial import TrainedTrial

TASK_IS = "task="
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's, of the copy that Typer has
TAKES = "its first parameter must be annotated with Trained, Sequence[Trained] or Trained | Path"
MULTIRUN = ("-m", "--multirun")
ONLY_SWEEPS = "only `plan` and `sweep` take several values, with or without -m"
FIRST = ({Trained}, {Sequence, Trained}, {Trained, Path})
"""The types that an annotation of the first parameter may name."""


class Verbs(TyperGroup):
    """The verbs of the platform, and those of the task that ``task=NAME`` names.

    The task is imported for its verbs alone, and for the list of all.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[TASK_IS] = next(
            (text.removeprefix(TASK_IS) for text in args if text.startswith(TASK_IS)), DEFAULT_TASK
        )
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_those_of_task(ctx)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._add_those_of_task(ctx)  # a faulty task is refused before the first line of help
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_those_of_task(ctx)
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except USAGE_ERROR as error:
            if "=" in args[0]:
                error.message += f" Did you mean 'allelse sweep {args[0]}'?"
            elif ctx.meta[TASK_IS] == DEFAULT_TASK:
                error.message += f" For a verb of your own task, add {_own_tasks()}."
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            if getattr(error, "option_name", "") in MULTIRUN:
                error.message += f"; {ONLY_SWEEPS}."
            elif not getattr(error, "possibilities", True):  # an unknown option that is like none
                error.message += "; write settings as key=value."
            raise

    def _add_those_of_task(self, ctx: Any) -> None:
        try:
            found = commands(source_of(ctx.meta.get(TASK_IS, DEFAULT_TASK), Path.cwd()))
        except RefusedError as error:
            print_refusal(error, "")
            raise typer.Exit(2) from None
        for name, command in found.items():
            self.commands.setdefault(name, command)


def _own_tasks() -> str:
    """How the tasks of this folder, and the installed ones, are named."""
    own = [name for name in known_tasks(Path.cwd()) if name != DEFAULT_TASK]
    return " or ".join(f"{TASK_IS}{name}" for name in own or ["NAME"])


def commands(source: TaskSource) -> dict[str, Any]:
    """The commands of a task, by name. Raises RefusedError."""
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    for verb in _verbs(source):
        panel = f"Trained models of the task {source.task.name}"
        app.command(rich_help_panel=panel)(guarded(_command(verb, source), does="done"))
    return dict(typer.main.get_group(app).commands)


def _verbs(source: TaskSource) -> tuple[Callable[..., Any], ...]:
    """The task's own, and ``evaluate`` where it has none of that name."""
    verbs = source.task.verbs
    if any(getattr(verb, "__name__", "") == evaluate.__name__ for verb in verbs):
        return verbs
    return (*verbs, evaluate)


def _command(verb: Callable[..., Any], source: TaskSource) -> Callable[..., int | None]:
    """The verb with names and overrides as its first argument. Raises RefusedError."""
    try:
        hints, (first, *others) = (
            get_type_hints(verb, include_extras=True),
            inspect.signature(verb).parameters.values(),
        )
        kinds = set(_types(hints[first.name]))
        if kinds not in FIRST:
            raise ValueError
    except (NameError, TypeError, ValueError, KeyError):
        found = f'is "{source.name}", whose verb {getattr(verb, "__name__", verb)} cannot be called'
        raise RefusedError([Problem("task", found, TAKES)]) from None

    def run(arguments: list[str], **options: Any) -> int | None:
        refuse_without_extra()
        request = read_request(run.__name__, arguments, source, several=Sequence in kinds)
        typed = {each.name: request.typed for each in others if hints.get(each.name) is Typed}
        returned = verb(request.opened(kinds), **typed, **options)
        if isinstance(returned, str):
            next_command(returned)
        return returned if isinstance(returned, int) else None

    shown = [
        each.replace(annotation=hints[each.name])
        for each in others
        if hints.get(each.name) is not Typed
    ]
    named = inspect.Parameter(
        "arguments", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Trials
    )
    run.__name__ = verb.__name__
    run.__doc__ = verb.__doc__
    run.__annotations__ = {each.name: each.annotation for each in (named, *shown)}
    run.__signature__ = inspect.Signature([named, *shown])  # type: ignore[attr-defined]
    return run


def _types(hint: Any) -> Iterator[Any]:
    """The types that an annotation names. Parameters of a generic type do not count, except for
    those of sequences."""
    kind = get_origin(hint) or hint
    if kind is Sequence:
        yield kind
    if kind in (Union, UnionType, Sequence):
        for inner in get_args(hint):
            yield from _types(inner)
    else:
        yield kind


@dataclass(frozen=True)
class Request:
    """Names, the typed settings that only score, and the settings that locate the study."""

    source: TaskSource
    names: list[str]
    typed: Typed
    settings: "Settings"
    swept: dict[str, list[Any]] = field(
        default_factory=dict
    )  # several values by key, for verbs that take many trials

    def opened(self, kinds: Collection[Any]) -> Any:
        """What the first parameter of a verb takes, by the types in its annotation. Raises
        RefusedError."""
        from sweeps.verbs.trained_trial import is_of_study  # loads what no list of verbs needs

        if Sequence in kinds:
            return self._trials()
        if len(self.names) > 1:
            found = f"names {len(self.names)}: {', '.join(self.names)}"
            allowed = f"must name one trial{' or folder' if Path in kinds else ''}"
            raise RefusedError([Problem("TRIAL", found, allowed)])
        path = named_folder(self.names[0], self.settings)
        return path if Path in kinds and not is_of_study(path) else self._read(path)

    def _trials(self) -> list["TrainedTrial"]:
        """The named trials, each once. Raises RefusedError with all their problems."""
        found: dict[tuple[Path, int, str], TrainedTrial] = {}
        problems: list[Problem] = []
        for name in self.names:
            try:
                for folder, values in product(named_folders(name, self.settings), self._settings()):
                    trial = self._read(folder, values)
                    found[trial.folder, trial.step, repr(trial.config)] = trial
            except RefusedError as error:
                problems += error.problems
            except DamagedFileError as error:
                problems.append(damaged(error))
        if problems:
            raise RefusedError(problems)
        return list(found.values())

    def _settings(self) -> list[Typed]:
        """What was typed, once for each combination of several values."""
        combinations = product(*self.swept.values())
        return [
            Typed(self.typed | dict(zip(self.swept, values, strict=True)))
            for values in combinations
        ]

    def _read(self, path: Path, typed: Typed | None = None) -> "TrainedTrial":
        from sweeps.verbs.trained_trial import read_trained

        return read_trained(
            path, self.source, self.settings, self.typed if typed is None else typed
        )


def read_request(
    verb: str, arguments: list[str], source: TaskSource, several: bool = False
) -> Request:
    """Arguments without ``=`` are names, the others are overrides. Raises RefusedError with every
    problem.

    ``several``: the verb takes several values of a key that scores."""
    from sweeps.config.hydra import Library
    from sweeps.config.overrides import parse_overrides
    from sweeps.planning.study_rows.compose import compose_settings

    names = [argument for argument in arguments if "=" not in argument or Path(argument).exists()]
    overrides = [argument for argument in arguments if argument not in names]
    library = Library(source, Path.cwd())
    parsed, problems = parse_overrides(overrides, library, sweeps=several)
    for key in (*parsed.choices, *parsed.values, *parsed.sweeps):
        if key not in library.schema.scores and not naming([f"{key}="]):
            ways = ", ".join(
                name for name in library.schema.short_names if name in library.schema.scores
            )
            allowed = f"`allelse {verb}` takes {f'{ways}; and ' if ways else ''}what names a study, such as scale="
            found = "cannot be changed once a model is trained"
            problems.append(Problem(key, found, allowed, None, COMMAND_LINE))
    if not names:
        problems.append(
            Problem("TRIAL", "is missing", "must name a trial; `allelse status` lists them")
        )
    if problems:
        raise RefusedError(problems)
    typed = Typed(
        {key: value for key, value in parsed.values.items() if key in library.schema.scores}
    )
    return Request(source, names, typed, compose_settings(naming(overrides)), parsed.sweeps)
