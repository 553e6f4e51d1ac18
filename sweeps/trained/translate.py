"""``ablate translate``: lines in, translations out, in order and as soon as they are ready."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sweeps.discarded import discard
from sweeps.trained.lines import arriving, decode, windows
from sweeps.trained.models import open_model
from sweeps.trained.request import Request
from transformer.data.text_file import BYTE_ORDER_MARK, text_chunks
from transformer.decoding.translate import Translation, Translator
from transformer.finite import NotFiniteError
from transformer.schema import Problem, RefusedError

WINDOW = 1_000  # lines that are sorted by length together
NO_HYPOTHESIS = Translation("", float("-inf"))


def translate(request: Request, source: Path | None, target: Path | None, nbest: int | None, err: Console) -> int:
    """Translate ``source`` or standard input to ``target`` or standard output; the exit code.

    Raises RefusedError, NotFiniteError.
    """
    translator = open_model(request, err)
    if nbest is not None and nbest > translator.decode.beam:
        found, allowed = f"is {nbest}", f"must be at most decode.beam, which is {translator.decode.beam}"
        raise RefusedError([Problem("--nbest", found, allowed)])
    with ExitStack() as stack:
        given = stack.enter_context(source.open("rb")) if source else None
        descriptor = given.fileno() if given else _standard_input()
        out = stack.enter_context(target.open("wb")) if target else sys.stdout.buffer
        stack.enter_context(translator.efficient())
        if source and given and source.is_file():
            chunks = text_chunks(given, source, "--input")
        else:
            chunks = arriving(descriptor)
        with _progress(descriptor, out, err) as progress:
            return Translating(translator, out, nbest, err, progress, str(source or "standard input")).run(
                windows(chunks, WINDOW)
            )


class Translating:
    """Translates one stream of lines."""

    def __init__(
        self, translator: Translator, out: BinaryIO, nbest: int | None, err: Console, progress: "Shown", name: str
    ) -> None:
        self.translator, self.out, self.nbest = translator, out, nbest
        self.err, self.progress, self.name = err, progress, name
        self.done = 0  # lines

    def run(self, given: Iterator[list[bytes]]) -> int:
        """Translate until the input ends or no process reads the output; returns the exit code."""
        try:
            for window in given:
                if not self.done:
                    window[0] = window[0].removeprefix(BYTE_ORDER_MARK)
                lines = decode(window)
                self._translate(lines)
                if len(lines) < len(window):
                    return self._refuse(f"{self.name}:{self.done + 1} is not UTF-8 text")
        except RefusedError as error:
            return self._refuse(error.problems[0].found)
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
            for line, best in zip(lines, self.translator.translations(sources, self.nbest or 1), strict=True):
                self._write(line, best)
        except NotFiniteError as error:
            raise NotFiniteError((first - 1 + place for place in error.places), self.name, "line") from error

    def _write(self, line: str, best: list[Translation]) -> None:
        self.done += 1  # the reader may interrupt before ``write`` returns
        self.out.write("".join(f"{each}\n" for each in self._lines(best)).encode("utf-8"))
        self.out.flush()
        self.progress.advance(line)

    def _lines(self, best: list[Translation]) -> list[str]:
        """The best translation; with ``--nbest n`` always n lines, score and text, best first."""
        if self.nbest is None:
            return [best[0].text]
        padded = [*best, *[NO_HYPOTHESIS] * self.nbest][: self.nbest]
        return [f"{each.score:.6f}\t{each.text}" for each in padded]

    def _refuse(self, fault: str) -> int:
        self.err.print(f"[bold red]Refused[/]: {escape(fault)}.", soft_wrap=True)
        self.err.print("The lines before it are translated.")
        return 2


class Shown:
    """The progress of a translation, displayed if a person waits for it."""

    def __init__(self, progress: Progress | None = None, size: int | None = None) -> None:
        self.progress, self.lines = progress, 0
        self.task = progress.add_task("", total=size, lines=0) if progress else None

    def advance(self, line: str) -> None:
        """One more line is translated."""
        self.lines += 1
        if self.progress and self.task is not None:
            self.progress.update(self.task, advance=len(line.encode("utf-8")) + 1, lines=self.lines)


@contextmanager
def _progress(descriptor: int, out: BinaryIO, err: Console) -> Iterator[Shown]:
    """Displays nothing if the terminal shows the translations, or if a person types the lines."""
    if not err.is_terminal or out.isatty() or os.isatty(descriptor):
        yield Shown()
        return
    looks = os.fstat(descriptor)
    size = looks.st_size if stat.S_ISREG(looks.st_mode) else None  # compressed text only fills the bar too early
    columns = (SpinnerColumn(), TextColumn("{task.fields[lines]} lines"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        yield Shown(progress, size)


def _standard_input() -> int:
    if sys.stdin is None:
        raise RefusedError([Problem("--input", "is missing, and standard input is closed", "must name a file")])
    return sys.stdin.fileno()


def _forget(out: BinaryIO) -> None:
    """No process reads the output: the rest of the buffer must not fail again when Python closes it."""
    discard(out.fileno())
