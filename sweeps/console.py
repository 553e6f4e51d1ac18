"""What every verb prints alike: to two consoles, what was refused and what to type next."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from sweeps.planning.stored_study import damaged
from sweeps.running.stopping import Interrupted
from tracking.damage import DamagedFileError
from tracking.uri import without_password
from transformer.schema import RefusedError


class DiscreetConsole(Console):
    """One that shows no password: whatever is printed, or stands in a table's cell, comes by here as text."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(without_password(text), **options)


class SteadyConsole(DiscreetConsole):
    """One whose reader may leave: `ablate sweep | head` shows no more, and goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


OUT = SteadyConsole(highlight=False)
if not OUT.is_terminal:
    OUT.width = 120  # a file or a pipe has no width of its own
ERR = DiscreetConsole(stderr=True, highlight=False)


def next_verb(verb: str, overrides: list[str] | None) -> None:
    """Name the verb to go on with."""
    next_command(shlex.join([_program(), verb, *(overrides or [])]))


def next_command(command: str) -> None:
    """Name the command to go on with."""
    OUT.print(f"Next: [bold]{escape(command)}[/]", soft_wrap=True)


def typed_command() -> list[str]:
    """What was typed, as it can be typed again once the passwords are filled in."""
    return [_program(), *map(without_password, sys.argv[1:])]


def typed() -> str:
    """The same as one line."""
    return shlex.join(typed_command())


def print_refusal(refused: RefusedError | DamagedFileError) -> None:
    """Every problem: its key, what was found, what is allowed; and what has come of the rest."""
    error = refused if isinstance(refused, RefusedError) else RefusedError([damaged(refused)])
    count = len(error.problems)
    ERR.print(f"[bold red]Refused[/], for {count} reason{'s' * (count > 1)}:")
    for problem in error.problems:
        place = f" [dim]({escape(problem.place)})[/]" if problem.place else ""
        ERR.print(f"  [bold]{escape(problem.key)}[/]{place} {escape(problem.found)}", soft_wrap=True)
        ERR.print(f"      {escape(problem.allowed)}", soft_wrap=True)
        if problem.nearest:
            ERR.print(f"      did you mean [bold]{escape(problem.nearest)}[/]?", soft_wrap=True)
    ERR.print(escape(error.outcome))


def print_interruption(error: KeyboardInterrupt) -> int:
    """From where each trial goes on, and by which command; the exit code."""
    ERR.print("\nInterrupted.")
    for line in error.lines if isinstance(error, Interrupted) else ():
        ERR.print(f"  {escape(line)}", soft_wrap=True)
    ERR.print(f"To go on, type again: [bold]{escape(typed())}[/]", soft_wrap=True)
    return error.exit_code if isinstance(error, Interrupted) else 130


def _program() -> str:
    """``ablate``, or the way to it for who has it in a virtual environment that is not on the path."""
    program = Path(sys.argv[0])
    unreachable = program.name == "ablate" and shutil.which("ablate") is None
    return os.path.relpath(program) if unreachable else "ablate"
