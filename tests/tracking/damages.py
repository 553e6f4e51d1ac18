"""Ways in which a file can be damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    """As a full disk or a copy that was broken off leaves it."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00{]garbage\n" * 3)


def other_kind(path: Path) -> None:
    """Whole, and of another shape."""
    path.write_text("[1, 2]\n")


def nothing_known(path: Path) -> None:
    path.write_text("{}\n")


def deep(path: Path) -> None:
    """More brackets than a parser takes."""
    path.write_text("[" * 200_000 + "\n")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def first_line(path: Path) -> None:
    """One byte of the first line; the rest is whole."""
    path.write_bytes(b"\x00" + path.read_bytes()[1:])


def looped(path: Path) -> None:
    """The system refuses to read it, and says that it does not exist; the content lies at ``kept``."""
    _kept(path).symlink_to(path.name)


def broken_disk(path: Path) -> None:
    """The system finds it and reads no byte of it: EIO, as from a disk or a server with a fault."""
    _kept(path).symlink_to("/proc/self/mem")


def kept(path: Path) -> Path:
    return path.with_name(f"{path.name}.kept")


def _kept(path: Path) -> Path:
    if path.exists():
        path.rename(kept(path))
    return path


UNREADABLE: list[Callable[[Path], None]] = [looped, broken_disk]
DAMAGES: list[Callable[[Path], None]] = [empty, cut, garbage, other_kind, nothing_known, deep, folder, first_line]


def copied(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))
