"""The content of data as a hash: of a file, or of all files of a folder."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from sweeps.processes.storage import give_sign_of_life
from tracking.files import write_atomic

MISSING = "missing"
"""In place of a hash: such data is refused before anything starts."""
LARGE = 1 << 25
"""Bytes from which a file's hash is remembered for later commands: it takes a tenth of a second."""
MOST_ENTRIES = 1000


def digest_of(path: Path) -> str:
    """SHA-256 of the file, or of names and contents of all files in the folder."""
    if path.is_file():
        return _file_digest(path)
    if not path.is_dir():
        return MISSING
    files = sorted(_files_in(path))
    lines = (f"{file.relative_to(path).as_posix()}\0{_file_digest(file)}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _files_in(folder: Path) -> Iterator[Path]:
    """All files below it, also behind links. A folder that two links lead to counts once."""
    visited: set[str] = set()
    for name, folders, files in os.walk(folder, followlinks=True):
        folders.sort()  # so that it is always the same link of the two
        real_path = os.path.realpath(name)
        if real_path in visited:
            folders.clear()
            continue
        visited.add(real_path)
        paths = [Path(name, file) for file in files]
        yield from filter(Path.is_file, paths)


def _file_digest(path: Path) -> str:
    """A file is read again only if its size, a time or its inode is another one."""
    stat = path.stat()
    stamp = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino} {stat.st_dev}"
    return _digest(path.resolve(), stamp, stat.st_size >= LARGE)


@cache
def _digest(path: Path, stamp: str, is_large: bool) -> str:
    entry = f"{path} {stamp}"
    if is_large and (digest := _remembered().get(entry)):
        return digest
    give_sign_of_life()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if is_large:
        _remember(entry, digest)
    return digest


def _cache_file() -> Path:
    home = os.environ.get("HOME") or tempfile.gettempdir()  # in a container, a user may have none
    folder = os.environ.get("XDG_CACHE_HOME") or Path(home, ".cache")
    return Path(folder, "allelse", "data.json")


def _remembered() -> dict[str, str]:
    with suppress(OSError, ValueError):
        content = json.loads(_cache_file().read_text("utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def _remember(entry: str, digest: str) -> None:
    """Without a place for it, the file is read again next time."""
    newest = [*_remembered().items(), (entry, digest)][-MOST_ENTRIES:]
    with suppress(OSError):
        _cache_file().parent.mkdir(parents=True, exist_ok=True)
        write_atomic(_cache_file(), json.dumps(dict(newest), indent=1))
