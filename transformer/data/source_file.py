"""A file of text that somebody names: the faults that show without reading it to its end."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from transformer.data.first_bytes import MOST, not_text
from transformer.schema import Problem, nearest

FILE = "must be a file of UTF-8 text, one sentence per line"
ONE_SENTENCE = "is it one sentence per line?"


def file_problems(key: str, name: str) -> Iterator[Problem]:
    """At most one problem: where the path leads, whether it can be read, and what its first bytes are."""
    path = Path(name)
    try:
        status = path.stat()
        if fault := _fault_of_kind(status.st_mode, status.st_size):
            yield Problem(key, f"{name} {fault}", FILE)
        else:
            yield from problems_of_content(key, path)
    except (OSError, ValueError) as error:
        yield _missing(key, name, error)


def problems_of_content(key: str, path: Path) -> Iterator[Problem]:
    """A problem if the first bytes of a file that can be read are those of something other than text."""
    with path.open("rb") as file:
        if found := not_text(file.read(MOST)):
            yield Problem(key, f"{path} {found.fault}", found.fix)


def unreadable(key: str, path: Path, error: OSError) -> Problem:
    """A problem for a file that exists but is unreadable."""
    return Problem(key, f"{path} cannot be read: {error.strerror or error}", "must be a file with read permission")


def _fault_of_kind(mode: int, size: int) -> str:
    if stat.S_ISDIR(mode):
        return "is a folder"
    if stat.S_ISFIFO(mode):
        return "is a pipe, which can be read only once"
    if stat.S_ISSOCK(mode):
        return "is a socket"
    if not stat.S_ISREG(mode):
        return "is a device"
    return "" if size else "is empty"


def _missing(key: str, name: str, error: OSError | ValueError) -> Problem:
    path = Path(name)
    if "://" in name:
        return Problem(key, f"{name} is an address", f"{FILE}; download it first")
    if path.is_symlink():
        leads = os.readlink(path)  # noqa: PTH115 - as it is written, not as a Path
        loop = not isinstance(error, FileNotFoundError)
        fault = "leads back to itself" if loop else "does not exist"
        return Problem(key, f"{name} is a link to {leads}, which {fault}", FILE)
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError | NotADirectoryError):
        return unreadable(key, path, error)
    return Problem(key, f"{name} does not exist", "must be a file", _alike(path))


def _alike(path: Path) -> str | None:
    """The file of the same folder whose name is closest."""
    try:
        found = nearest(path.name, (each.name for each in path.parent.iterdir() if each.is_file()))
    except (OSError, ValueError):
        return None
    return found and str(path.with_name(found))
