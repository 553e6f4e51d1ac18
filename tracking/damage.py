"""A file of the study that does not hold what was written, or cannot be read: which one, where and why."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
Other = TypeVar("Other")
REMEDIES = {
    "study.json": "move it away; `ablate sweep` writes it again and keeps what is finished",
    "result.json": "`ablate sweep` goes on from the last checkpoint and writes it again",
    "config.yaml": "`ablate sweep` writes it again",
    "provenance.json": "`ablate sweep` sets it aside; the next attempt writes it again",
    "attempts.jsonl": "`ablate sweep` keeps its good lines",
    "journal.jsonl": "`ablate sweep` keeps its good lines",
    "mlflow-runs.json": "`ablate sync` writes it again",
    "mlflow-synced.json": "`ablate sync` writes it again",
}


class DamagedFileError(ValueError):
    """A file that no reader can use. ``line`` counts from 1; None means the whole file."""

    def __init__(self, path: Path, cause: str, line: int | None = None) -> None:
        self.path, self.cause, self.line = path, cause, line
        super().__init__(f"{self.place}: {cause}")

    @property
    def place(self) -> str:
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    @property
    def remedy(self) -> str:
        """What a person does about it."""
        other = "`ablate evaluate` evaluates the set again" if self.path.suffix == ".jsonl" else "move it away"
        return REMEDIES.get(self.path.name, other)

    @property
    def note(self) -> str:
        """For a table, where the folder is known: "journal.jsonl:2 is damaged: not a JSON line"."""
        name = self.path.name if self.line is None else f"{self.path.name}:{self.line}"
        return f"{name} is damaged: {self.cause}"


class UnreadableError(DamagedFileError):
    """A file that the system does not let us read. It may be whole, so it is never replaced, nor taken for missing."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(path, f"cannot be read: {error.strerror or error}")

    @property
    def remedy(self) -> str:
        return "it may be whole and stays as it is: make it readable, then type the command again"

    @property
    def note(self) -> str:
        return f"{self.path.name} {self.cause}"


def unless_damaged(read: Callable[[], Found], otherwise: Other) -> Found | Other:
    """What ``read`` returns, or ``otherwise`` where its file is damaged or unreadable: for readers that name the fault
    elsewhere."""
    try:
        return read()
    except DamagedFileError:
        return otherwise


def unless_lost(read: Callable[[], Found], otherwise: Other) -> Found | Other:
    """The same for those who write the file again: raises UnreadableError, since such a file may be whole."""
    try:
        return read()
    except UnreadableError:
        raise
    except DamagedFileError:
        return otherwise


def read_whole(path: Path) -> bytes | None:
    """The file's bytes; None without a file. Raises DamagedFileError where something else stands in its place."""
    try:
        with naming(path):
            return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Around what reads the file: the system's errors name it, but that of a missing file stays as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise DamagedFileError(path, "is a folder, but must be a file") from None
    except NotADirectoryError:
        raise DamagedFileError(path.parent, "is a file, but must be a folder") from None
    except OSError as error:
        raise UnreadableError(path, error) from None


def decoded(path: Path, content: bytes) -> str:
    """The bytes as text. Raises DamagedFileError where they are not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DamagedFileError(path, f"not UTF-8: byte 0x{content[error.start]:02x}", line) from None


def set_aside(path: Path) -> Path:
    """Rename to a name beginning with ``<name>.damaged``; the new path. Nothing is deleted."""
    return path.rename(kept_name(path))


def kept_name(path: Path) -> Path:
    """``<name>.damaged``, or the first of ``<name>.damaged-2`` … that nothing has yet."""
    kept, number = path.with_name(f"{path.name}.damaged"), 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged-{number}")
    return kept
