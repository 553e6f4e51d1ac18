"""Output that all verbs share: two consoles, refusals and the next command."""

import errno
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from sweeps.planning.studies.advice import command, program
from sweeps.problems import RefusedError, damaged
from sweeps.processes.interruption import Interrupted
from sweeps.processes.storage import FIXES
from sweeps.processes.streams import discard, steady_streams
from tracking.files import DamagedFileError
from tracking.shell import shell_line
from tracking.uri import shown_words, without_password
from tracking.words import plural

FAULTS = FIXES | dict.fromkeys((errno.EACCES, errno.EPERM), "check its permissions")


class SteadyConsole(Console):
    """A console that hides passwords and survives its reader: `allelse sweep | head` runs on."""

    @property  # type: ignore[misc]  # nothing sets it
    def file(self) -> IO[str]:
        """The current standard output or standard error."""
        return cast(IO[str], StandardStream(super().file, self.stderr))

    def render_str(self, text: str, **options: Any) -> Text:
        """Hide passwords. Every printed text and every cell of a table passes through here."""
        return super().render_str(without_password(text), **options)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(sys.stdout.fileno())


class StandardStream:
    """A stream whose terminal may close. The error of a closed terminal comes before SIGHUP."""

    def __init__(self, stream: IO[str], is_error: bool) -> None:
        self._stream = stream
        self._is_error = is_error

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
        """Ignore faults of standard error; raise BrokenPipeError for a reader that left.

        All other faults name the stream.
        """
        try:
            yield
        except OSError as error:
            if self._is_error and error.errno in {*FIXES, errno.EIO, errno.EPIPE}:
                return  # the exit code says the same
            if error.errno == errno.EIO:
                raise BrokenPipeError(error.errno, "the terminal was closed") from error
            if not error.filename:
                error.filename = "standard error" if self._is_error else "standard output"
            raise


@contextmanager
def printing_ends_nothing() -> Iterator[None]:
    """Lose text that a full disk or a closed pipe cannot take: `nohup allelse sweep` continues."""
    streams = (sys.stdout, sys.stderr)
    steady_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for stream in filter(None, streams):
            try:
                stream.flush()
            except OSError:
                # Still full. Python would try again as it ends, and change the exit code.
                discard(stream.fileno())


OUT = SteadyConsole(highlight=False, emoji=False)
if not OUT.is_terminal:
    OUT.width = 120  # a file or a pipe has no width
ERR = SteadyConsole(stderr=True, highlight=False, emoji=False)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print text as it is, on one line however narrow the terminal is."""
    console.print(escape(text), style=style, soft_wrap=True, highlight=False)


def print_json(content: Any) -> None:
    """Print plain data as JSON, for scripts."""
    print(json.dumps(content, indent=1, ensure_ascii=False))


def next_verb(verb: str, overrides: list[str] | None) -> None:
    """Print the next verb to run."""
    next_command(command(verb, *(overrides or [])))


def next_command(line: str) -> None:
    """Print the next command to run, such as ``allelse table``."""
    line = re.sub("^allelse(?= )", lambda _: shell_line([program()]), line)
    OUT.print(f"Next: [bold]{escape(line)}[/]", soft_wrap=True)


def typed_command() -> list[str]:
    """The command as you typed it, without passwords. Fill them in, and it runs again."""
    return [program(), *shown_words(sys.argv[1:])]


def typed_line() -> str:
    """The command as you typed it, on one line."""
    return shell_line(typed_command())


def print_refusal(refused: RefusedError | DamagedFileError, outcome: str) -> None:
    """Print each problem, and then the error's own outcome, or else ``outcome``."""
    error = refused if isinstance(refused, RefusedError) else RefusedError([damaged(refused)])
    count = len(error.problems)
    ERR.print(f"[bold red]Refused[/], for {count} {plural('reason', count)}:")
    for problem in error.problems:
        key = f"[bold]{escape(problem.key)}[/]"
        if problem.place:
            key += f" [dim]({escape(problem.place)})[/]"
        ERR.print(f"  {key} {escape(problem.found)}", soft_wrap=True)
        ERR.print(f"      {escape(problem.allowed)}", soft_wrap=True)
        suggestion = problem.suggestion
        if suggestion:
            ERR.print(f"      did you mean [bold]{escape(suggestion)}[/]?", soft_wrap=True)
    outcome = error.outcome or outcome
    if outcome:
        ERR.print(escape(outcome))


def print_failure(error: OSError) -> None:
    """Print a fault of a file, disk or network on one line: its paths, its cause and the fix."""
    paths = [str(path) for path in (error.filename, error.filename2) if path not in (None, "")]
    cause = error.strerror or str(error) or type(error).__name__
    line = ": ".join([*paths, cause])
    if error.errno in FAULTS:
        line += f"; {FAULTS[error.errno]}, then run again: {typed_line()}"
    ERR.print(f"[bold red]Failed[/]: {escape(line)}", soft_wrap=True)


def print_interruption(error: KeyboardInterrupt) -> int:
    """Print where each trial will resume, and the command to run. Returns the exit code."""
    run = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
    outcome = f"[bold red]Failed[/]: {escape(run.fault)}" if run.fault else "Interrupted."
    ERR.print(f"\n{outcome}", soft_wrap=True)
    for line in run.lines:
        ERR.print(f"  {escape(line)}", soft_wrap=True)
    ERR.print(f"To continue, run again: [bold]{escape(typed_line())}[/]", soft_wrap=True)
    return run.exit_code
