"""Ways in which a file can be damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    """As after a full disk or an interrupted copy."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00{]garbage\n" * 3)


def nothing_known(path: Path) -> None:
    path.write_text("{}\n")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def looped(path: Path) -> None:
    """A symbolic link to itself, which the system refuses to read. The content is at ``kept``."""
    _kept(path).symlink_to(path.name)


def broken_disk(path: Path) -> None:
    """The file exists, but every read fails with EIO, as on a faulty disk or server."""
    _kept(path).symlink_to("/proc/self/mem")


def kept(path: Path) -> Path:
    return path.with_name(f"{path.name}.kept")


def _kept(path: Path) -> Path:
    if path.exists():
        path.rename(kept(path))
    return path


UNREADABLE: list[Callable[[Path], None]] = [looped, broken_disk]


def copied(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))
