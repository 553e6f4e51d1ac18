"""The bytes of a text file as an editor would show them: unpacked, and without a byte order mark."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from transformer.data.first_bytes import BYTE_ORDER_MARK, MOST, compression, not_text
from transformer.data.source_file import unreadable
from transformer.schema import Problem, RefusedError

CHUNK = 1 << 20


def _zstd(file: Any) -> Any:
    return import_module("compression.zstd").ZstdFile(file)


UNPACK: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": _zstd,
}
COMPLETE = "must be complete; copy or download it again"


class Unpacked:
    """One file, read once. ``raw`` are its bytes on disk; their first bytes tell how they are compressed."""

    def __init__(self, raw: "io.BufferedReader[Any]", path: Path, key: str) -> None:
        self.raw, self.path, self.key = raw, path, key
        head = raw.peek(MOST)
        self._refuse_other_than_text(head)
        self.kind = compression(head)
        self._stream = UNPACK[self.kind](raw) if self.kind else raw

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        """The text, at most ``size`` bytes at a time. Raises RefusedError if it is damaged or no text."""
        chunk = self._read(size)
        self._refuse_other_than_text(chunk)
        if self.kind and (again := compression(chunk)):
            raise self._refused(f"is compressed twice, by {again} and {self.kind}", "decompress it once")
        yield chunk.removeprefix(BYTE_ORDER_MARK)
        while chunk := self._read(size):
            yield chunk

    def _refuse_other_than_text(self, head: bytes) -> None:
        if found := not_text(head[:MOST]):
            raise self._refused(found.fault, found.fix)

    def _read(self, size: int) -> bytes:
        try:
            chunk: bytes = self._stream.read(size)
            return chunk
        except EOFError:
            raise self._refused(f"is cut off: it ends before its {self.kind} data does", COMPLETE) from None
        except OSError as error:
            if error.errno is None:  # how gzip and bzip2 report bytes that are not theirs
                raise self._damaged(error) from None
            raise RefusedError([unreadable(self.key, self.path, error)]) from None
        except (zlib.error, lzma.LZMAError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> RefusedError:
        return self._refused(f"is a damaged {self.kind} file: {error}", COMPLETE)

    def _refused(self, fault: str, fix: str) -> RefusedError:
        return RefusedError([Problem(self.key, f"{self.path} {fault}", fix)])
