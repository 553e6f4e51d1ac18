"""Output that all verbs share: two consoles, refusals and the next command."""

import errno
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from sweeps.planning.studies.advice import command, program
from sweeps.problems import RefusedError, damaged
from sweeps.processes.storage import FIXES
from sweeps.processes.streams import steady_streams
from sweeps.running.stopping import Interrupted, discard
from tracking.files import DamagedFileError
from tracking.uri import shown_words, without_password
from tracking.words import plural, shell_line

FAULTS = FIXES | dict.fromkeys((errno.EACCES, errno.EPERM), "check its permissions")


class SteadyConsole(Console):
    """A console that hides passwords, and whose reader may leave: `allelse sweep | head` stops
    printing and runs on."""

    @property  # type: ignore[misc]  # nothing sets it
    def file(self) -> IO[str]:
        """Standard output or standard error of the moment."""
        return cast(IO[str], StandardStream(super().file, self.stderr))

    def render_str(self, text: str, **options: Any) -> Text:
        """Every printed text and every cell of a table passes through here."""
        return super().render_str(without_password(text), **options)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(sys.stdout.fileno())


class StandardStream:
    """A stream whose terminal may be closed: its reader then has left, shortly before SIGHUP
    comes."""

    def __init__(self, stream: IO[str], is_error: bool) -> None:
        self._stream, self._is_error = stream, is_error

    def write(self, text: str) -> int:
        with self._leaving():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._leaving():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """Faults of stderr change nothing; a reader that left is a BrokenPipeError; other faults
        name the stream."""
        try:
            yield
        except OSError as error:
            if self._is_error and error.errno in {*FIXES, errno.EIO, errno.EPIPE}:
                return  # the exit code says the same
            if error.errno == errno.EIO:
                raise BrokenPipeError(error.errno, "the terminal was closed") from error
            error.filename = error.filename or f"standard {'error' if self._is_error else 'output'}"
            raise


@contextmanager
def printing_ends_nothing() -> Iterator[None]:
    """Within it, text that a full disk or a closed pipe cannot take is lost: `nohup allelse sweep`
    goes on."""
    streams = sys.stdout, sys.stderr
    steady_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for stream in filter(None, streams):
            try:
                stream.flush()
            except (
                OSError
            ):  # still full: Python would try again at its end, and change the exit code
                discard(stream.fileno())


OUT = SteadyConsole(highlight=False)
if not OUT.is_terminal:
    OUT.width = 120  # a file or a pipe has no width
ERR = SteadyConsole(stderr=True, highlight=False)


def print_json(content: Any) -> None:
    """For scripts."""
    print(json.dumps(content, indent=1, ensure_ascii=False))


def next_verb(verb: str, overrides: list[str] | None) -> None:
    """Print the next verb to run."""
    next_command(command(verb, *(overrides or [])))


def next_command(line: str) -> None:
    """Print the next command to run, such as ``allelse table``."""
    line = re.sub("^allelse(?= )", lambda _: shell_line([program()]), line)
    OUT.print(f"Next: [bold]{escape(line)}[/]", soft_wrap=True)


def typed_command() -> list[str]:
    """The typed command without passwords. It runs again once they are filled in."""
    return [program(), *shown_words(sys.argv[1:])]


def typed() -> str:
    """The typed command as one line."""
    return shell_line(typed_command())


def print_refusal(refused: RefusedError | DamagedFileError, outcome: str) -> None:
    """Print each problem's key, the value found and what is allowed, then the outcome: its own, or
    else this one."""
    error = refused if isinstance(refused, RefusedError) else RefusedError([damaged(refused)])
    count = len(error.problems)
    ERR.print(f"[bold red]Refused[/], for {count} {plural('reason', count)}:")
    for problem in error.problems:
        place = f" [dim]({escape(problem.place)})[/]" if problem.place else ""
        ERR.print(
            f"  [bold]{escape(problem.key)}[/]{place} {escape(problem.found)}", soft_wrap=True
        )
        ERR.print(f"      {escape(problem.allowed)}", soft_wrap=True)
        if problem.nearest:
            ERR.print(f"      did you mean [bold]{escape(problem.nearest)}[/]?", soft_wrap=True)
    if said := error.outcome or outcome:
        ERR.print(escape(said))


def print_failure(error: OSError) -> None:
    """Print a fault of a file, disk or network as one line with its path, and what to do about
    it."""
    place = ": ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    cause = error.strerror or str(error) or type(error).__name__
    fix = f"; {FAULTS[error.errno]}, then run again: {typed()}" if error.errno in FAULTS else ""
    ERR.print(
        f"[bold red]Failed[/]: {escape(f'{place}: ' if place else '')}{escape(cause + fix)}",
        soft_wrap=True,
    )


def print_interruption(error: KeyboardInterrupt) -> int:
    """Print where each trial will resume, and the command to run. Returns the exit code."""
    fault = error.fault if isinstance(error, Interrupted) else ""
    ERR.print(
        f"\n[bold red]Failed[/]: {escape(fault)}" if fault else "\nInterrupted.", soft_wrap=True
    )
    for line in error.lines if isinstance(error, Interrupted) else ():
        ERR.print(f"  {escape(line)}", soft_wrap=True)
    ERR.print(f"To continue, run again: [bold]{escape(typed())}[/]", soft_wrap=True)
    return error.exit_code if isinstance(error, Interrupted) else 130
