"""One file of sentences as it was read, and sentence pairs of two files; faulty files are refused."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from transformer.schema import Problem, RefusedError

SentencePair = tuple[str, str]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextFile:
    """The exact bytes that were read, so that the hash fits the prepared text even if the file changes later."""

    path: Path
    raw: bytes

    @staticmethod
    def read(path: Path, key: str = "data") -> "TextFile":
        """The file as it is now. Raises RefusedError, which names ``key``."""
        try:
            return TextFile(path, path.read_bytes())
        except OSError as error:
            raise RefusedError([unreadable(key, path, error)]) from None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    def lines(self) -> list[str]:
        """One sentence per line. Raises RefusedError if the file is not UTF-8 text."""
        raw = self._unpacked()
        if raw.startswith(BYTE_ORDER_MARK):
            found = f"{self.path} begins with a byte order mark, which would become part of its first sentence"
            raise RefusedError([Problem("data", found, "must be UTF-8 without this mark; save it again without one")])
        lines = raw.removesuffix(b"\n").split(b"\n") if raw else []
        try:
            return [line.removesuffix(b"\r").decode("utf-8") for line in lines]
        except UnicodeDecodeError:
            number = next(i for i, line in enumerate(lines, 1) if not _is_utf8(line))
            found = f"{self.path}:{number} is not valid UTF-8"
            raise RefusedError([Problem("data", found, "every line must be UTF-8")]) from None

    def _unpacked(self) -> bytes:
        if self.path.suffix != ".gz":
            return self.raw
        try:
            return gzip.decompress(self.raw)
        except (OSError, EOFError, zlib.error) as error:
            found = f"{self.path} is not a complete gzip file: {error}"
            raise RefusedError([Problem("data", found, "must be gzipped text, or have another suffix")]) from None


def read_pairs(source: TextFile, target: TextFile) -> list[SentencePair]:
    """The sentence pairs of two files (plain or .gz), one sentence per line; refused if their line counts differ."""
    sources, targets = source.lines(), target.lines()
    if len(sources) != len(targets):
        found = f"{source.path} has {len(sources)} lines and {target.path} has {len(targets)}"
        raise RefusedError([Problem("data", found, "both sides must have one line per sentence pair")])
    for file, lines in ((source, sources), (target, targets)):
        if not any(line.strip() for line in lines):
            raise RefusedError([Problem("data", f"{file.path} is empty", "must hold at least one sentence")])
    return list(zip(sources, targets, strict=True))


def unreadable(key: str, path: Path, error: OSError) -> Problem:
    """A problem for a file that exists but is unreadable."""
    return Problem(key, f"{path} cannot be read: {error.strerror or error}", "must be a file with read permission")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
