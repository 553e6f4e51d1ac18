"""The verbs of a task as commands: names on the command line become trained trials."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from sweeps.config.tasks import DEFAULT_TASK, TaskSource, known_tasks, source_of, tasks_in
from sweeps.console import next_command, print_refusal
from sweeps.problems import RefusedError, refusal
from sweeps.task import Trained, Typed
from sweeps.verbs.command import Trials, guarded, refuse_without_extra
from sweeps.verbs.trained.evaluate import evaluate
from sweeps.verbs.trained.request import read_request

TASK_OVERRIDE = "task="
ARGUMENT = type(typer.Argument())
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's, from the copy inside Typer
FIRST_PARAMETER = (
    "its first parameter must be annotated with Trained, Sequence[Trained] or Trained | Path"
)
MULTIRUN = ("-m", "--multirun")
ONLY_SWEEPS = "only `plan` and `sweep` take several values, with or without -m"
FIRST_TYPES = ({Trained}, {Sequence, Trained}, {Trained, Path})
"""The types that the annotation of a verb's first parameter may name."""


class Verbs(TyperGroup):
    """The verbs of the platform, and those of the task in ``task=NAME``.

    The task is imported only for one of its verbs, or to list all verbs.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        typed = [
            word.removeprefix(TASK_OVERRIDE) for word in args if word.startswith(TASK_OVERRIDE)
        ]
        ctx.meta[TASK_OVERRIDE] = typed[0] if typed else _task_of(args)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_task_verbs(ctx)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._add_task_verbs(ctx)  # a faulty task is refused before the first line of help
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_task_verbs(ctx)
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except USAGE_ERROR as error:
            if "=" in args[0]:
                error.message += f" Did you mean 'allelse sweep {args[0]}'?"
            elif ctx.meta[TASK_OVERRIDE] == DEFAULT_TASK:
                error.message += f" For a verb of your own task, add {_own_tasks()}."
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            if getattr(error, "option_name", "") in MULTIRUN:
                error.message += f"; {ONLY_SWEEPS}."
            elif not getattr(error, "possibilities", True):  # an unknown option like no other
                error.message += "; write settings as key=value."
            raise

    def _add_task_verbs(self, ctx: Any) -> None:
        task_name = ctx.meta.get(TASK_OVERRIDE, DEFAULT_TASK)
        try:
            task_commands = commands(source_of(task_name, Path.cwd()))
        except RefusedError as error:
            print_refusal(error, "")
            raise typer.Exit(2) from None
        for name, command in task_commands.items():
            self.commands.setdefault(name, command)


def _task_of(args: Sequence[str]) -> str:
    """The task of a command that names none. Every task has ``evaluate``: it is the folder's only
    one there."""
    names = tasks_in(Path.cwd()) if evaluate.__name__ in args[:1] else []
    return names[0] if len(names) == 1 else DEFAULT_TASK


def _own_tasks() -> str:
    """The overrides for the tasks of this folder and the installed ones."""
    names = [name for name in known_tasks(Path.cwd()) if name != DEFAULT_TASK]
    return " or ".join(f"{TASK_OVERRIDE}{name}" for name in names or ["NAME"])


def commands(source: TaskSource) -> dict[str, Any]:
    """The commands of a task, by name. Raises RefusedError."""
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    for verb in _verbs(source):
        panel = f"Trained models of the task {source.task.name}"
        app.command(rich_help_panel=panel)(guarded(_command(verb, source), effect="done"))
    return dict(typer.main.get_group(app).commands)


def _verbs(source: TaskSource) -> tuple[Callable[..., Any], ...]:
    """The task's own verbs, and ``evaluate`` if it has none of that name."""
    verbs = source.task.verbs
    if any(getattr(verb, "__name__", "") == evaluate.__name__ for verb in verbs):
        return verbs
    return (*verbs, evaluate)


def _command(verb: Callable[..., Any], source: TaskSource) -> Callable[..., int | None]:
    """A function for Typer that takes names and overrides instead of the verb's first parameter,
    and calls the verb.

    Raises RefusedError if the verb does not take trained trials.
    """
    types, parameters = _signature(verb, source)
    typed_names = [parameter.name for parameter in parameters if parameter.annotation is Typed]
    texts = {
        parameter.name: parameter.name.upper() for parameter in parameters if _is_text(parameter)
    }

    def run(arguments: list[str], **options: Any) -> int | None:
        refuse_without_extra()
        several = Sequence in types
        request = read_request(run.__name__, arguments, source, several, list(texts.values()))
        typed = dict.fromkeys(typed_names, request.typed)
        values = dict(zip(texts, request.texts, strict=True))
        returned = verb(request.opened(types), **values, **typed, **options)
        if isinstance(returned, str):
            next_command(returned)
        return returned if isinstance(returned, int) else None

    names = inspect.Parameter(
        "arguments",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        annotation=_arguments(list(texts.values())),
    )
    options = [
        parameter
        for parameter in parameters
        if parameter.annotation is not Typed and parameter.name not in texts
    ]
    run.__name__ = verb.__name__
    run.__doc__ = verb.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (names, *options)}
    run.__signature__ = inspect.Signature([names, *options])  # type: ignore[attr-defined]
    return run


def _is_text(parameter: inspect.Parameter) -> bool:
    """Whether the verb takes it after the trial on the command line, not as an option."""
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(entry, ARGUMENT) for entry in metadata)


def _arguments(texts: Sequence[str]) -> Any:
    """The annotation of what the command takes besides options."""
    if not texts:
        return Trials
    metavar = " ".join(["TRIAL", *texts, "[KEY=VALUE …]"])
    nouns = [f"the {text.lower()}" for text in texts]
    words = ", ".join(["A finished trial", *nouns, "then overrides."])
    return Annotated[list[str], typer.Argument(metavar=metavar, help=words)]


def _signature(
    verb: Callable[..., Any], source: TaskSource
) -> tuple[set[Any], list[inspect.Parameter]]:
    """The types of a verb's first parameter, and its other parameters with their annotations.

    Raises RefusedError if the first parameter takes no trained trials.
    """
    try:
        hints = get_type_hints(verb, include_extras=True)
        first, *parameters = inspect.signature(verb).parameters.values()
        types = set(_types(hints[first.name]))
        if types not in FIRST_TYPES:
            raise ValueError
    except (NameError, TypeError, ValueError, KeyError):
        name = getattr(verb, "__name__", verb)
        fault = f'is "{source.name}", whose verb {name} cannot be called'
        raise refusal("task", fault, FIRST_PARAMETER) from None
    return types, [
        parameter.replace(annotation=hints.get(parameter.name, parameter.annotation))
        for parameter in parameters
    ]


def _types(hint: Any) -> Iterator[Any]:
    """The types that an annotation names.

    Among generic types, only a sequence's parameter counts.
    """
    type_ = get_origin(hint) or hint
    if type_ is Sequence:
        yield type_
    if type_ in (Union, UnionType, Sequence):
        for argument in get_args(hint):
            yield from _types(argument)
    else:
        yield type_
