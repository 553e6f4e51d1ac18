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


DAMAGES: list[Callable[[Path], None]] = [empty, cut, garbage, other_kind, nothing_known, deep, folder, first_line]


def copied(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))
