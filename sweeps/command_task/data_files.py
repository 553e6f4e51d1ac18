"""The content of data as a hash: of a file, or of all files of a folder."""

import hashlib
from functools import cache
from pathlib import Path

from sweeps.processes.storage import alive

MISSING = "missing"
"""In place of a hash: such data is refused before anything starts."""


def digest_of(path: Path) -> str:
    """SHA-256 of the file, or of names and contents of all files in the folder."""
    if path.is_file():
        return _file_digest(path)
    if not path.is_dir():
        return MISSING
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = (f"{file.relative_to(path).as_posix()}\0{_file_digest(file)}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    stat = path.stat()
    return _digest(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)


@cache
def _digest(path: Path, size: int, changed: int, node: int) -> str:
    """A file is read again only if its size, time or inode is another one."""
    alive()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
