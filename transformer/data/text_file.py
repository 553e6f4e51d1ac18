"""One file of sentences, read once from its first byte to its last, and the sentence pairs of two such files."""

import hashlib
import io
from collections import Counter, deque
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from transformer.data.source_file import FILE, ONE_SENTENCE, unreadable
from transformer.data.unpacked import Unpacked
from transformer.schema import Problem, RefusedError

SentencePair = tuple[str, str]

LEARNED = 4192
"""Bytes of the longest line that SentencePiece learns from; it drops longer ones without a word."""
LONGEST = 1 << 19
"""Bytes of the longest line that is read: memory must not grow with a file that has no line ends."""
TOLD = 5
"""Lines of one fault that are named."""
CARRIAGE_RETURNS = "must end its lines with a line feed; convert it by `tr '\\r' '\\n'`"


class TextFile:
    """One sentence per line. Faults are collected while it is read, so that all of them are reported together."""

    def __init__(self, path: Path, key: str = "data", learned: bool = False) -> None:
        self.path, self.key = path, key
        self.learned = learned  # whether a vocabulary is learned from it
        self.count = 0  # lines so far
        self.bytes_read = 0  # of the file on disk
        self.complete = False  # whether its last line was reached
        self._digest = hashlib.sha256()
        self._longest = (0, 0)  # bytes, line
        self._long = 0  # lines longer than LEARNED
        self._filled = self._split = False  # whether any line has text, and whether the first has carriage returns
        self._faults: dict[str, list[int]] = {}  # the first lines of each
        self._faulty = Counter[str]()
        self._problems: list[Problem] = []

    @cached_property
    def size(self) -> int:
        """Bytes on disk; 0 if it cannot be known."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    @property
    def sha256(self) -> str:
        """Of the exact bytes that were read, so that it fits the prepared text even if the file changes later."""
        return self._digest.hexdigest()

    def lines(self) -> Iterator[str]:
        """Every line without its end; a faulty one is empty. Raises nothing: see ``problems``."""
        try:
            with io.BufferedReader(_Counted(self)) as raw:
                blocks = self._blocks(Unpacked(raw, self.path, self.key).chunks())
                yield from chain.from_iterable(map(self._checked, blocks))
                self.complete = True
                deque(iter(lambda: raw.read(1 << 20), b""), maxlen=0)  # bytes after the end count in the hash, too
        except OSError as error:
            self._problems.append(unreadable(self.key, self.path, error))
        except RefusedError as error:
            self._problems += error.problems

    def problems(self) -> list[Problem]:
        """What is wrong with the file, once it was read."""
        found = [*self._problems, *(self._fault(fault, lines) for fault, lines in self._faults.items())]
        if self.complete and not found:
            found += self._problems_of_whole()
        return found

    def _problems_of_whole(self) -> Iterator[Problem]:
        if self._split and self.count == 1:
            self.complete = False  # its number of lines says nothing
            yield Problem(self.key, f"{self.path} uses CR line ends, so it is one line", CARRIAGE_RETURNS)
        elif not self._filled:
            fault = "holds only blank lines" if self.count else "is empty"
            yield Problem(self.key, f"{self.path} {fault}", "must hold at least one sentence")
        elif self.learned and self._long > 0.9 * self.count:
            length, line = self._longest
            found = f"{self.path}:{line} has {length} bytes, and {self._long} of {self.count} lines more than {LEARNED}"
            allowed = f"{ONE_SENTENCE} Vocabularies are learned from lines of at most {LEARNED} bytes"
            yield Problem(self.key, found, allowed)

    def _blocks(self, chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
        """Some lines at a time, without their line feeds."""
        rest = b""
        for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield lines
            if len(rest) > LONGEST:
                raise RefusedError([self._endless(rest, self.count + 1, _length(rest, chunks))])
        if rest:
            yield [rest]

    def _checked(self, lines: list[bytes]) -> list[str]:
        first, self.count = self.count + 1, self.count + len(lines)
        self._measure(first, lines)
        try:
            text = b"\n".join(lines).decode("utf-8")
        except UnicodeDecodeError:
            return [self._decoded(number, line) for number, line in enumerate(lines, first)]
        if "\0" in text:
            return [self._decoded(number, line) for number, line in enumerate(lines, first)]
        decoded = text.split("\n")
        if "\r" in text:
            decoded = [line.removesuffix("\r") for line in decoded]
            self._split = self._split or (first == 1 and "\r" in decoded[0])
        self._filled = self._filled or any(map(str.strip, decoded))
        return decoded

    def _measure(self, first: int, lines: list[bytes]) -> None:
        lengths = list(map(len, lines))
        longest = max(lengths)
        if longest > self._longest[0]:
            self._longest = (longest, first + lengths.index(longest))
        if longest > LEARNED:
            self._long += sum(length > LEARNED for length in lengths)
        if longest > LONGEST:
            raise RefusedError([self._endless(lines[lengths.index(longest)], self._longest[1], longest)])

    def _decoded(self, number: int, line: bytes) -> str:
        """The line; empty if it is faulty."""
        try:
            text = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            self._note("is not valid UTF-8", number)
            return ""
        if "\0" in text:
            self._note("holds a zero byte", number)
        return text

    def _note(self, fault: str, number: int) -> None:
        self._faulty[fault] += 1
        if len(lines := self._faults.setdefault(fault, [])) < TOLD:
            lines.append(number)

    def _endless(self, line: bytes, number: int, length: int) -> Problem:
        if b"\r" in line[:-1]:
            return Problem(
                self.key, f"{self.path} uses CR line ends: line {number} has {length} bytes", CARRIAGE_RETURNS
            )
        found = f"{self.path}:{number} has {length} bytes"
        return Problem(self.key, found, f"{ONE_SENTENCE} A line may have at most {LONGEST} bytes")

    def _fault(self, fault: str, lines: list[int]) -> Problem:
        others, hidden = ", ".join(map(str, lines[1:])), self._faulty[fault] - len(lines)
        more = f" and {hidden} more" * bool(hidden)
        found = f"{self.path}:{lines[0]} {fault}" + (f", as well as lines {others}{more}" if others else "")
        return Problem(self.key, found, f"{FILE}; convert it by `iconv`, or remove these lines")


class _Counted(io.FileIO):
    """The bytes of a text file on their way: counted and hashed."""

    def __init__(self, file: TextFile) -> None:
        super().__init__(file.path)
        self._file = file

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer) or 0
        self._file.bytes_read += size
        self._file._digest.update(memoryview(buffer)[:size])
        return size


def read_lines(path: Path, key: str) -> list[str]:
    """The lines of one file. Raises RefusedError with everything that is wrong with it."""
    file = TextFile(path, key)
    lines = list(file.lines())
    if problems := file.problems():
        raise RefusedError(problems)
    return lines


def read_pairs(source: TextFile, target: TextFile) -> Iterator[SentencePair]:
    """The sentence pairs of two files, one sentence per line; at their end, RefusedError with all faults of both."""
    sides = source.lines(), target.lines()
    yield from zip(*sides, strict=False)
    for side in sides:
        deque(side, maxlen=0)
    problems = [*source.problems(), *target.problems()]
    if source.complete and target.complete and source.count and target.count and source.count != target.count:
        found = f"{source.path} has {source.count} lines and {target.path} has {target.count}"
        problems.append(Problem(source.key, found, "both sides must have one line per sentence pair"))
    if problems:
        raise RefusedError(problems)


def _length(rest: bytes, chunks: Iterator[bytes]) -> int:
    """Bytes of a line that begins with ``rest``."""
    length = len(rest)
    for chunk in chunks:
        if (end := chunk.find(b"\n")) >= 0:
            return length + end
        length += len(chunk)
    return length
