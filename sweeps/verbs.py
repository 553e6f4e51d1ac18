"""The names of verbs and options as people type them, and what they mean."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup
from typer.models import OptionInfo

from sweeps.planning.meant import VERBS
from transformer.schema import Problem, RefusedError, nearest

TAKES_ALL = {"ignore_unknown_options": True}
"""Unknown options reach the verb, which refuses them by ``refuse_options``."""
COMMAND_LINE = "command line"


class Verbs(TyperGroup):
    """The verbs, with a hint for a verb of another name and for an override without a verb."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and (meant := self._meant(name)):
            ctx.fail(f"No such command '{name}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)

    def _meant(self, name: str) -> str | None:
        plain = name.casefold().lstrip("-").replace("-", "").replace("_", "")
        if "=" in name:
            return f"ablate sweep {name}"
        others = {other: verb for verb, names in VERBS.items() for other in names.split()}
        return plain if plain in self.commands else others.get(plain)


def refuse_options(verb: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Refuse arguments that look like options and are none of the verb's. Raises RefusedError."""
    problems = [_unknown(verb, arguments, place) for place, text in enumerate(arguments) if text.startswith("-")]
    if problems:
        raise RefusedError(problems)


def refuse_removed_folder() -> None:
    """Raises RefusedError if the current folder is gone."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RefusedError([Problem("paths", "the current folder was removed", "change to another folder")]) from None


def _unknown(verb: Callable[..., Any], arguments: Sequence[str], place: int) -> Problem:
    from sweeps.planning.overrides import override_meant
    from sweeps.planning.task_named import library_of

    text, options = arguments[place], list(_options(verb))
    settings = [other for other in arguments if "=" in other and not other.startswith("-")]
    following = [value for value in arguments[place + 1 : place + 2] if "=" not in value and "=" not in text]
    name, mark, value = text.lstrip("-").partition("=")
    one_row = verb.__name__ in ("train", "config")
    library = library_of(settings, Path.cwd(), trains=False)
    meant = override_meant(f"{name}={value if mark else ' '.join(following)}", library, one_row)
    near = nearest(text.partition("=")[0], options)
    allowed = f"options are {', '.join(options)}; write settings as key=value"
    return Problem(text, f"is not an option of `ablate {verb.__name__}`", allowed, meant or near, COMMAND_LINE)


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

        print(f"ablate {own_version() or f'of an unknown version: {DISTRIBUTION} is not installed'}")
        raise typer.Exit


def program(help_text: str) -> typer.Typer:
    """The program without its verbs."""
    return typer.Typer(
        cls=Verbs,
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
