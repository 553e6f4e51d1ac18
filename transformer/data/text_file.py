"""Text files, one sentence per line: UTF-8, plain or compressed by gzip; and the sentence pairs of two of them."""

import gzip
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from transformer.faults import Fault, FaultyError

SentencePair = tuple[str, str]

LONGEST_LINE = 1 << 19
"""Bytes of the longest line that is read: memory must not grow with a file that has no line ends."""
GZIP, BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"  # neither of which is part of a text
MUST_BE_TEXT = "must be UTF-8 text, plain or compressed by gzip, one sentence per line"


def file_faults(key: str, name: str) -> Iterator[Fault]:
    """At most one fault, of those that show without reading the file."""
    path = Path(name)
    try:
        if not path.is_file():  # a pipe can be read only once
            yield Fault(key, f"{name} {'is not a file' if path.exists() else 'does not exist'}", MUST_BE_TEXT)
            return
        with path.open("rb") as file:
            if not file.read(1):
                yield Fault(key, f"{name} is empty", MUST_BE_TEXT)
    except OSError as error:
        yield unreadable(key, path, error)


def unreadable(key: str, path: Path, error: Exception) -> Fault:
    """A file that exists but cannot be read."""
    cause = getattr(error, "strerror", None) or error
    return Fault(key, f"{path} cannot be read: {cause}", "must be a complete file with read permission")


def byte_lines(path: Path, key: str) -> Iterator[bytes]:
    """The lines of a file with their ends, uncompressed and without a byte order mark. Raises FaultyError."""
    try:
        with path.open("rb") as raw:
            stream = gzip.GzipFile(fileobj=raw) if raw.peek(len(GZIP)).startswith(GZIP) else raw
            line, number = stream.readline(LONGEST_LINE + 1).removeprefix(BYTE_ORDER_MARK), 1
            while line:
                if len(line) > LONGEST_LINE:
                    found = f"{path}:{number} has more than {LONGEST_LINE} bytes"
                    raise FaultyError(Fault(key, found, "is it one sentence per line? No longer line is read"))
                yield line
                line, number = stream.readline(LONGEST_LINE + 1), number + 1
    except (OSError, EOFError, zlib.error) as error:
        raise FaultyError(unreadable(key, path, error)) from None


@dataclass
class TextFile:
    """One sentence per line. Reading ends at the first fault and keeps it, so that those of all files are told."""

    path: Path
    key: str = "data"
    count: int = 0  # lines so far
    faults: list[Fault] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Every line without its end; see ``faults`` after the last one."""
        try:
            for line in byte_lines(self.path, self.key):
                self.count += 1
                yield self._decoded(line)
            if not self.count:
                raise FaultyError(Fault(self.key, f"{self.path} is empty", MUST_BE_TEXT))
        except FaultyError as error:
            self.faults = list(error.faults)

    def _decoded(self, line: bytes) -> str:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise FaultyError(Fault(self.key, f"{self.path}:{self.count} is not UTF-8 text", MUST_BE_TEXT))
        return text.removesuffix("\n").removesuffix("\r")


def read_lines(path: Path, key: str) -> list[str]:
    """The lines of one file. Raises FaultyError."""
    file = TextFile(path, key)
    lines = list(file.lines())
    if file.faults:
        raise FaultyError(*file.faults)
    return lines


def read_pairs(source: TextFile, target: TextFile) -> Iterator[SentencePair]:
    """The sentence pairs of two files, one sentence per line; at their end FaultyError with the faults of both."""
    sides = source.lines(), target.lines()
    yield from zip(*sides, strict=False)
    for side in sides:
        deque(side, maxlen=0)
    faults = list(dict.fromkeys([*source.faults, *target.faults]))
    if not faults and source.count != target.count:
        found = f"{source.path} has {source.count} lines and {target.path} has {target.count}"
        faults = [Fault(source.key, found, "both sides must have one line per sentence pair")]
    if faults:
        raise FaultyError(*faults)
