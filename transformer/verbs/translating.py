"""Lines in, translations out, in order and as soon as they are ready."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from transformer.data.text_file import BYTE_ORDER_MARK, text_chunks
from transformer.decoding.translate import Translation, Translator
from transformer.faults import FaultyError
from transformer.finite import NotFiniteError
from transformer.verbs.lines import arriving, decode, windows

WINDOW = 1_000  # lines that are sorted by length together
NO_HYPOTHESIS = Translation("", float("-inf"))


def translate_lines(
    translator: Translator, source: Path | None, target: Path | None, nbest: int | None, err: Console
) -> int:
    """Translate ``source`` or standard input to ``target`` or standard output; the exit code. Raises NotFiniteError."""
    with ExitStack() as stack:
        given = stack.enter_context(source.open("rb")) if source else None
        descriptor = given.fileno() if given else sys.stdin.fileno()
        out = stack.enter_context(target.open("wb")) if target else sys.stdout.buffer
        stack.enter_context(translator.efficient())
        if source and given and source.is_file():
            chunks = text_chunks(given, source, "--input")
        else:
            chunks = arriving(descriptor)
        seen = out.isatty() or os.isatty(descriptor)  # a person sees the translations, or types the lines
        shown = None if seen else stack.enter_context(err.status(""))
        name = str(source or "standard input")
        return Translating(translator, out, nbest, err, shown, name).run(windows(chunks, WINDOW))


class Translating:
    """Translates one stream of lines."""

    def __init__(
        self, translator: Translator, out: BinaryIO, nbest: int | None, err: Console, shown: Status | None, name: str
    ) -> None:
        self.translator, self.out, self.nbest = translator, out, nbest
        self.err, self.shown, self.name = err, shown, name
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

    def _write(self, best: list[Translation]) -> None:
        self.done += 1  # the reader may interrupt before ``write`` returns
        self.out.write("".join(f"{each}\n" for each in self._lines(best)).encode("utf-8"))
        self.out.flush()
        if self.shown:
            self.shown.update(f"{self.done} lines")

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


def _forget(out: BinaryIO) -> None:
    """No process reads the output: the rest of the buffer must not fail again when Python closes it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)
