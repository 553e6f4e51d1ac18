"""A folder on a filesystem of its own, which a test fills, makes read-only or freezes. Needs root
and Linux."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from studies import wait_until

IMAGE_BYTES = 64 << 20
MARGIN_BYTES = 4 << 20
"""The end of a disk is filled byte by byte: its filesystem needs some of it for the ballast
itself."""


class OwnFilesystem:
    """The folder and what can be done to its filesystem."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Until no byte fits."""
        with (self.folder / "ballast").open("ab", buffering=0) as ballast:
            with suppress(OSError):
                os.posix_fallocate(ballast.fileno(), 0, max(1, _free(self.folder) - MARGIN_BYTES))
            ballast.seek(0, os.SEEK_END)
            with suppress(OSError):
                while ballast.write(bytes(4096)):
                    pass

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()

    def resize(self, limits: str) -> None:
        """Of a tmpfs, such as ``nr_blocks=12``."""
        _mount("-o", f"remount,{limits}", str(self.folder))

    def make_read_only(self) -> None:
        """For all files opened from now on: the system refuses to change a filesystem with files
        open for writing."""
        _mount("--bind", str(self.folder), str(self.folder))
        wait_until(self._remounted, "a moment in which no file is open for writing", 60)

    def _remounted(self) -> bool:
        process = subprocess.run(
            ["mount", "-o", "remount,bind,ro", str(self.folder)], check=False, capture_output=True
        )
        return process.returncode == 0

    def make_writable(self) -> None:
        _unmount(self.folder)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def freeze(self) -> None:
        """From now on every write blocks, and no signal ends who writes. Not for a tmpfs."""
        _run("fsfreeze", "--freeze", str(self.folder))

    def thaw(self) -> None:
        _run("fsfreeze", "--unfreeze", str(self.folder))


@contextmanager
def in_memory(folder: Path, limits: str = "size=4m") -> Iterator[OwnFilesystem]:
    """A tmpfs."""
    folder.mkdir(parents=True, exist_ok=True)
    with _mounted(folder, "-t", "tmpfs", "-o", limits, "tmpfs"):
        yield OwnFilesystem(folder)


@contextmanager
def on_image(folder: Path, image: Path, size: int = IMAGE_BYTES) -> Iterator[OwnFilesystem]:
    """An ext4 in a file."""
    folder.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", str(image))
    with _mounted(folder, "-o", "loop", str(image)):
        yield OwnFilesystem(folder)


@contextmanager
def _mounted(folder: Path, *words: str) -> Iterator[None]:
    _mount(*words, str(folder))
    try:
        yield
    finally:
        while folder.is_mount():  # more than one if a test failed while it was read-only
            _unmount(folder)


def _free(folder: Path) -> int:
    """In bytes, with those kept for root."""
    filesystem = os.statvfs(folder)
    return filesystem.f_bfree * filesystem.f_frsize


def _mount(*words: str) -> None:
    _run("mount", *words)


def _unmount(folder: Path) -> None:
    _run("umount", "--lazy", str(folder))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
