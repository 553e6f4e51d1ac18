"""A trial's ``log.txt``: what its processes printed. Bounded: the oldest lines go first."""

import os
import time
from pathlib import Path
from typing import IO

from tracking.files import write_atomic
from tracking.uri import without_password

LONGEST = 4 << 20
"""Bytes of a log; then its older half is dropped."""
DROPPED = "(earlier lines were dropped)\n"


def begin_log(path: Path, attempt: int, host: str) -> None:
    """A line that separates attempts."""
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    append_log(path, f"--- attempt {attempt}, {when}, started from {host}\n")


def append_log(path: Path, text: str) -> None:
    """Append, without passwords. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(without_password(text))
        size = file.tell()
    if size > LONGEST:
        _shorten(path)


def marked(text: str, rank: int) -> str:
    """The lines of rank zero as they are, those of others with their rank."""
    return text if rank == 0 else "".join(f"[{rank}] {line}" for line in text.splitlines(keepends=True))


def shortened(file: IO[bytes]) -> bytes:
    """What a log becomes once its older half is dropped. Raises OSError if it is shorter than that half."""
    file.seek(-LONGEST // 2, os.SEEK_END)
    return DROPPED.encode() + file.read().partition(b"\n")[2]


def _shorten(path: Path) -> None:
    with path.open("rb") as file:
        write_atomic(path, shortened(file).decode("utf-8", "replace"))
