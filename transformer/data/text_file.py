"""One file of sentences, read once from its first byte to its last, and the sentence pairs of two such files."""

import gzip
import hashlib
import io
import zlib
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from transformer.faults import Fault, FaultyError, raise_any

SentencePair = tuple[str, str]

CHUNK = 1 << 20
LONGEST_LINE = 1 << 19
"""Bytes of the longest line that is read: memory must not grow with a file that has no line ends."""
GZIP, BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"  # neither of which is part of a text
MUST_BE_TEXT = "must be UTF-8 text, plain or compressed by gzip, one sentence per line"
ONE_SENTENCE = "is it one sentence per line?"


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
    """A fault for a file that exists but is unreadable."""
    cause = getattr(error, "strerror", None) or error
    return Fault(key, f"{path} cannot be read: {cause}", "must be a complete file with read permission")


def text_chunks(raw: "io.BufferedReader[Any]", path: Path, key: str) -> Iterator[bytes]:
    """The text of an opened file, plain or compressed by gzip, without its byte order mark. Raises FaultyError."""
    stream = gzip.GzipFile(fileobj=raw) if raw.peek(len(GZIP)).startswith(GZIP) else raw
    try:
        yield stream.read(CHUNK).removeprefix(BYTE_ORDER_MARK)
        while chunk := stream.read(CHUNK):
            yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise FaultyError(unreadable(key, path, error)) from None


class TextFile:
    """One sentence per line. Faults are collected while it is read, so that all of them are reported together."""

    def __init__(self, path: Path, key: str = "data") -> None:
        self.path, self.key = path, key
        self.count = 0  # lines so far
        self.bytes_read = 0  # of the file on disk
        self.complete = False  # whether its last line was reached
        self._digest = hashlib.sha256()
        self._faulty, self._first_faulty = 0, 0  # lines that are not text
        self._faults: list[Fault] = []

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
        """Every line without its end; a faulty one is empty. Raises nothing: see ``faults``."""
        try:
            with io.BufferedReader(_Counted(self)) as raw:
                blocks = self._blocks(text_chunks(raw, self.path, self.key))
                yield from chain.from_iterable(map(self._checked, blocks))
                self.complete = True
        except OSError as error:
            self._faults.append(unreadable(self.key, self.path, error))
        except FaultyError as error:
            self._faults += error.faults

    def faults(self) -> list[Fault]:
        """What is wrong with the file, once it was read."""
        found = list(self._faults)
        if self._faulty:
            others = f", like {self._faulty - 1} other lines" if self._faulty > 1 else ""
            found.append(Fault(self.key, f"{self.path}:{self._first_faulty} is not UTF-8 text{others}", MUST_BE_TEXT))
        elif self.complete and not self.count:
            found.append(Fault(self.key, f"{self.path} is empty", MUST_BE_TEXT))
        return found

    def _blocks(self, chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
        """Some lines at a time, without their line feeds."""
        rest = b""
        for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield lines
            if len(rest) > LONGEST_LINE:
                found = f"{self.path}:{self.count + 1} has more than {LONGEST_LINE} bytes"
                raise FaultyError(Fault(self.key, found, f"{ONE_SENTENCE} No longer line is read"))
        if rest:
            yield [rest]

    def _checked(self, lines: list[bytes]) -> list[str]:
        first, self.count = self.count + 1, self.count + len(lines)
        if (text := _decoded(b"\n".join(lines))) is not None:
            return [line.removesuffix("\r") for line in text.split("\n")]
        decoded = [_decoded(line.removesuffix(b"\r")) for line in lines]
        self._first_faulty = self._first_faulty or first + decoded.index(None)
        self._faulty += decoded.count(None)
        return [line or "" for line in decoded]


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
    """The lines of one file. Raises FaultyError with everything that is wrong with it."""
    file = TextFile(path, key)
    lines = list(file.lines())
    raise_any(file.faults())
    return lines


def read_pairs(source: TextFile, target: TextFile) -> Iterator[SentencePair]:
    """The sentence pairs of two files, one sentence per line; at their end, FaultyError with all faults of both."""
    sides = source.lines(), target.lines()
    yield from zip(*sides, strict=False)
    for side in sides:
        deque(side, maxlen=0)
    faults = [*source.faults(), *target.faults()]
    if source.complete and target.complete and source.count and target.count and source.count != target.count:
        found = f"{source.path} has {source.count} lines and {target.path} has {target.count}"
        faults.append(Fault(source.key, found, "both sides must have one line per sentence pair"))
    raise_any(faults)


def _decoded(content: bytes) -> str | None:
    """The text; None for what is not UTF-8 text, which has no zero bytes."""
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None
