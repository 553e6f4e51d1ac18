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
from transformer.verbs.models import Average, averaging, translator_in, translator_of

if TYPE_CHECKING:
    from transformer.decoding.translator import Translation, Translator  # loads torch, which no refusal needs

NBest = Annotated[int | None, typer.Option(min=1, help="Print N lines per sentence: score TAB text.")]
LINES_TOGETHER = 1_000  # lines that are sorted by length together
NO_HYPOTHESIS = f"{-math.inf:.6f}\t"
PAUSE_S = 0.05  # lines that arrive within this time share a window


def translate(
    model: Trained[TrialConfig] | Path,
    typed: Typed,
    source: Annotated[Path | None, typer.Option("--input", help="Read this file, not standard input.")] = None,
    target: Annotated[Path | None, typer.Option("--output", help="Write this file, not standard output.")] = None,
    nbest: NBest = None,
    average: Average = None,
) -> int:
    """Translate lines with a trial, a checkpoint, an exported model or an MLflow run."""
    _check(source, target)
    err = Console(stderr=True, highlight=False)
    if not isinstance(model, Path):
        model = averaging(model, average, typed)
        _check_nbest(nbest, model.config.decode.beam)
    with err.status(f"Loading {escape(model.name)}"):
        translator = translator_in(model, average, typed) if isinstance(model, Path) else translator_of(model)
    _check_nbest(nbest, translator.decode.beam)
    try:
        return _translate_lines(translator, source, target, nbest, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1


def _check_nbest(nbest: int | None, beam: int) -> None:
    if nbest is not None and nbest > beam:
        raise RefusedError([Problem("--nbest", f"is {nbest}", f"must be at most decode.beam, which is {beam}")])


def _check(source: Path | None, target: Path | None) -> None:
    """Find mistakes before the model is loaded and before an output replaces the input. Raises RefusedError."""
    problems = []
    if source and (source.is_dir() or not os.access(source, os.R_OK)):
        problems.append(Problem("--input", f"{source} cannot be read", "must be a text file, one sentence per line"))
    if source is None and sys.stdin is None:
        problems.append(Problem("--input", "is missing, and standard input is closed", "must name a file"))
    elif target:
        problems += _problems_of_output(target, source)
    if problems:
        raise RefusedError(problems)


def _problems_of_output(target: Path, source: Path | None) -> list[Problem]:
    folder = target.absolute().parent
    if not folder.is_dir():
        return [Problem("--output", f"{target.parent} is not a folder", "must be in a folder that exists")]
    if target.is_dir() or not os.access(target if target.exists() else folder, os.W_OK):
        return [Problem("--output", f"{target} cannot be written", "must be a writable file")]
    if target.is_file() and _is_input(target, source):
        return [Problem("--output", f"{target} is the input", "must be another file")]
    return []


def _is_input(target: Path, source: Path | None) -> bool:
    """Whether the output is the input."""
    try:
        return os.path.samestat(target.stat(), source.stat() if source else os.fstat(sys.stdin.fileno()))
    except OSError:  # an unreadable source is refused separately
        return False


def _translate_lines(
    translator: "Translator", source: Path | None, target: Path | None, nbest: int | None, err: Console
) -> int:
    """Translate ``source`` or standard input to ``target`` or standard output; the exit code. Raises NotFiniteError."""
    with ExitStack() as stack:
        given = stack.enter_context(source.open("rb")) if source else sys.stdin.buffer
        out = stack.enter_context(target.open("wb")) if target else sys.stdout.buffer
        stack.enter_context(translator.efficient())
        lines = byte_lines(source, "--input") if source and source.is_file() else arriving(given.fileno())
        seen = out.isatty() or given.isatty()  # a person sees the translations, or types the lines
        shown = None if seen else stack.enter_context(err.status(""))
        name = str(source or "standard input")
        return Translating(translator, out, nbest, err, shown, name).run(windows(lines, LINES_TOGETHER, name))


@dataclass
class Translating:
    """Translates one stream of lines."""

    translator: "Translator"
    out: BinaryIO
    nbest: int | None
    err: Console
    shown: Status | None
    name: str
    done: int = 0  # lines

    def run(self, given: Iterator[list[str]]) -> int:
        """Translate until the input ends or no process reads the output; returns the exit code."""
        try:
            for lines in given:
                self._translate(lines)
        except FaultyError as error:
            return self._refuse(error.faults[0].found)
        except BrokenPipeError:
            _forget(self.out)
        except KeyboardInterrupt:
            self.err.print(f"Interrupted after line {self.done}.")
            return 130
        except OSError as error:
            _forget(self.out)
            self.err.print(f"[bold red]Stopped[/] at line {self.done}: {escape(error.strerror or str(error))}.")
            return 2
        return 0

    def _translate(self, lines: list[str]) -> None:
        sources, long = self.translator.sources(lines)
        longest, first = self.translator.model.config.max_positions, self.done + 1
        for place in long:
            what = f"line {first + place} has more than {longest} pieces; the rest of it is ignored"
            self.err.print(f"{escape(self.name)}: {what}", soft_wrap=True)
        try:
            for best in self.translator.translations(sources, self.nbest or 1):
                self._write(best)
        except NotFiniteError as error:
            raise NotFiniteError((first - 1 + place for place in error.places), self.name, "line") from error

    def _write(self, best: "list[Translation]") -> None:
        self.done += 1  # the reader may interrupt before ``write`` returns
        self.out.write("".join(f"{each}\n" for each in self._lines(best)).encode("utf-8"))
        self.out.flush()
        if self.shown:
            self.shown.update(f"{self.done} lines")

    def _lines(self, best: "list[Translation]") -> list[str]:
        """The best translation; with ``--nbest n`` always n lines, score and text, best first."""
        if self.nbest is None:
            return [best[0].text]
        lines = [f"{each.score:.6f}\t{each.text}" for each in best]
        return [*lines, *[NO_HYPOTHESIS] * self.nbest][: self.nbest]

    def _refuse(self, fault: str) -> int:
        self.err.print(f"[bold red]Refused[/]: {escape(fault)}.", soft_wrap=True)
        self.err.print("The lines before it are translated.")
        return 2


def _forget(out: BinaryIO) -> None:
    """No process reads the output: the rest of the buffer must not fail again when Python closes it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


def arriving(descriptor: int) -> Iterator[bytes]:
    """The lines from a file descriptor; an empty one where nothing more arrives for a moment."""
    rest = b""
    while True:
        if not select.select([descriptor], [], [], PAUSE_S)[0]:
            yield b""
        if not (chunk := os.read(descriptor, 1 << 16)):
            break
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def windows(lines: Iterator[bytes], size: int, name: str) -> Iterator[list[str]]:
    """The text of ``size`` lines at once, or of fewer at an empty one, where nothing more arrives.

    Raises FaultyError at the first line that cannot be read, after the lines before it.
    """
    waiting, number = list[str](), 0
    try:
        for line in lines:
            if line:
                line = line if number else line.removeprefix(BYTE_ORDER_MARK)
                number += 1
                waiting.append(line_text(line, "--input", f"{name}:{number}"))
            if waiting and (not line or len(waiting) == size):
                yield waiting
                waiting = []
    except FaultyError:
        if waiting:
            yield waiting
        raise
    if waiting:
        yield waiting
