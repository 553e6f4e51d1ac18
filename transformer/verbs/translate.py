"""``allelse translate``: lines in, translations out, in order and as soon as they are ready."""

import math
import os
import select
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from sweeps.task import Problem, RefusedError, Trained, Typed
from transformer.config import TrialConfig
from transformer.data.corpora import BYTE_ORDER_MARK, byte_lines, line_text
from transformer.faults import FaultyError, NotFiniteError
from transformer.verbs.models import Average, averaging, open_translator, output_problem

if TYPE_CHECKING:
    # It loads torch, which no refusal needs.
    from transformer.decoding.translator import Translation, Translator

SourceOption = typer.Option("--input", help="Read this file, not standard input.")
Source = Annotated[Path | None, SourceOption]
TargetOption = typer.Option("--output", help="Write this file, not standard output.")
Target = Annotated[Path | None, TargetOption]
NBestOption = typer.Option(min=1, help="Print N lines per sentence: score TAB text.")
NBest = Annotated[int | None, NBestOption]
WINDOW_LINES = 1_000
"""How many lines are sorted by length together."""
NO_HYPOTHESIS = f"{-math.inf:.6f}\t"
PAUSE_S = 0.05
"""Lines that arrive within this time share a window."""


def translate(
    model: Trained[TrialConfig] | Path,
    typed: Typed,
    source: Source = None,
    target: Target = None,
    nbest: NBest = None,
    average: Average = None,
) -> int:
    """Translate lines with a trial, a checkpoint, an exported model or an MLflow run."""
    _check(source, target)
    err = Console(stderr=True, highlight=False, emoji=False)
    if not isinstance(model, Path):
        model = averaging(model, average, typed)
        _check_nbest(nbest, model.config.decode.beam)
    with err.status(f"Loading {escape(model.name)}"):
        translator = open_translator(model, average, typed)
    _check_nbest(nbest, translator.decode.beam)
    try:
        return _translate_lines(translator, source, target, nbest, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1


def _check_nbest(nbest: int | None, beam: int) -> None:
    """Raises RefusedError if ``nbest`` exceeds the beam."""
    if nbest is not None and nbest > beam:
        allowed = f"must be at most decode.beam, which is {beam}"
        raise RefusedError([Problem("--nbest", f"is {nbest}", allowed)])


def _check(source: Path | None, target: Path | None) -> None:
    """Find mistakes before the model is loaded and before an output replaces the input.

    Raises RefusedError.
    """
    problems = []
    if source and (source.is_dir() or not os.access(source, os.R_OK)):
        allowed = "must be a text file, one sentence per line"
        problems.append(Problem("--input", f"{source} cannot be read", allowed))
    if source is None and sys.stdin is None:
        problem = "is missing, and standard input is closed"
        problems.append(Problem("--input", problem, "must name a file"))
    elif target:
        problem_of_output = output_problem(target)
        if problem_of_output is not None:
            problems.append(problem_of_output)
        elif target.is_file() and _is_input(target, source):
            problems.append(Problem("--output", f"{target} is the input", "must be another file"))
    if problems:
        raise RefusedError(problems)


def _is_input(target: Path, source: Path | None) -> bool:
    """Whether the output is the input."""
    try:
        source_stat = source.stat() if source else os.fstat(sys.stdin.fileno())
        return os.path.samestat(target.stat(), source_stat)
    except OSError:  # an unreadable source is refused separately
        return False


def _translate_lines(
    translator: "Translator",
    source: Path | None,
    target: Path | None,
    nbest: int | None,
    err: Console,
) -> int:
    """Translate ``source`` or standard input to ``target`` or standard output.

    Returns the exit code. Raises NotFiniteError.
    """
    with ExitStack() as stack:
        input_file = stack.enter_context(source.open("rb")) if source else sys.stdin.buffer
        out = stack.enter_context(target.open("wb")) if target else sys.stdout.buffer
        stack.enter_context(translator.efficient())
        lines = arriving(input_file.fileno())
        if source and source.is_file():
            lines = byte_lines(source, "--input")
        if input_file.isatty():
            err.print("Type lines to translate; Ctrl-D ends.", style="dim")
        at_terminal = out.isatty() or input_file.isatty()
        status = None if at_terminal else stack.enter_context(err.status(""))
        name = str(source or "standard input")
        stream = LineStream(translator, out, nbest, err, status, name)
        return stream.translate(windows(lines, WINDOW_LINES, name))


@dataclass
class LineStream:
    """One stream of lines and the output of their translations.

    ``written`` counts the lines so far, ``name`` names the input in messages, and ``status`` shows
    the progress if nobody sees the lines themselves.
    """

    translator: "Translator"
    out: BinaryIO
    nbest: int | None
    err: Console
    status: Status | None
    name: str
    written: int = 0

    def translate(self, windows: Iterator[list[str]]) -> int:
        """Translate until the input ends or no process reads the output; returns the exit code.

        Raises NotFiniteError.
        """
        try:
            for lines in windows:
                self._translate_window(lines)
        except FaultyError as error:
            return self._refuse(error.faults[0].found)
        except BrokenPipeError:
            _discard(self.out)
        except KeyboardInterrupt:
            self.err.print(f"Interrupted after line {self.written}.")
            return 130
        except OSError as error:
            _discard(self.out)
            reason = escape(error.strerror or str(error))
            self.err.print(f"[bold red]Stopped[/] at line {self.written}: {reason}.")
            return 2
        return 0

    def _translate_window(self, lines: list[str]) -> None:
        """Write the translations of these lines; warn about lines that are cut."""
        sources, cut_lines = self.translator.sources(lines)
        longest = self.translator.model.config.longest_line
        lines_before = self.written
        for index in cut_lines:
            line = f"line {lines_before + index + 1}"
            warning = f"{line} has more than {longest} pieces; the rest of it is ignored"
            self.err.print(f"{escape(self.name)}: {warning}", soft_wrap=True)
        try:
            for best in self.translator.translations(sources, self.nbest or 1):
                self._write(best)
        except NotFiniteError as error:
            numbers = [lines_before + index for index in error.places]
            raise NotFiniteError(numbers, self.name, "line") from error

    def _write(self, best: "list[Translation]") -> None:
        """Write the translations of one line, and show the progress."""
        self.written += 1  # the reader may interrupt before ``write`` returns
        text = "".join(f"{line}\n" for line in self._lines(best))
        self.out.write(text.encode("utf-8"))
        self.out.flush()
        if self.status:
            self.status.update(f"{self.written} lines")

    def _lines(self, best: "list[Translation]") -> list[str]:
        """The best translation; with ``--nbest n`` always n lines, score and text, best first."""
        if self.nbest is None:
            return [best[0].text]
        lines = [f"{translation.score:.6f}\t{translation.text}" for translation in best]
        while len(lines) < self.nbest:
            lines.append(NO_HYPOTHESIS)
        return lines[: self.nbest]

    def _refuse(self, fault: str) -> int:
        """Print why the next line is refused; returns the exit code."""
        self.err.print(f"[bold red]Refused[/]: {escape(fault)}.", soft_wrap=True)
        self.err.print("The lines before it are translated.")
        return 2


def _discard(out: BinaryIO) -> None:
    """Discard the rest of the buffer, since no process reads the output.

    Otherwise writing it would fail again when Python closes the file.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, out.fileno())
    os.close(null)


def arriving(descriptor: int) -> Iterator[bytes]:
    """The lines from a file descriptor, as they arrive.

    An empty line without a line end means that nothing has arrived for ``PAUSE_S``.
    """
    unfinished_line = b""
    while True:
        readable, _, _ = select.select([descriptor], [], [], PAUSE_S)
        if not readable:
            yield b""
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        *lines, unfinished_line = (unfinished_line + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if unfinished_line:
        yield unfinished_line


def windows(lines: Iterator[bytes], size: int, name: str) -> Iterator[list[str]]:
    """The text of ``size`` lines at once, or of fewer where nothing more arrives.

    Raises FaultyError at the first line that cannot be read, after the lines before it.
    """
    window = list[str]()
    number = 0
    try:
        for line in lines:
            if line:
                if number == 0:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                number += 1
                window.append(line_text(line, "--input", f"{name}:{number}"))
            if window and (not line or len(window) == size):
                yield window
                window = []
    except FaultyError:
        if window:
            yield window
        raise
    if window:
        yield window
