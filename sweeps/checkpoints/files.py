"""Reads and writes the files of a checkpoint: its parts, and the manifest, which is written last."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from sweeps.checkpoints.manifest import MANIFEST, DamagedCheckpointError, Manifest
from sweeps.processes.storage import give_sign_of_life, unless_in_use
from tracking.files import sync_folder

TEMPORARY = ".part"  # suffix of a file that is being written


class CheckpointFiles:
    """Reads and writes checkpoints by their folder."""

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def write(self, folder: str, manifest: Manifest, parts: Mapping[str, bytes]) -> None:
        """A folder without a manifest was never finished."""
        self.filesystem.makedirs(folder, exist_ok=True)
        for name, content in parts.items():
            self.filesystem.makedirs(f"{folder}/{name}".rpartition("/")[0], exist_ok=True)
            self._put(f"{folder}/{name}", content)
            give_sign_of_life()  # a worker that waits for this write does not hang
        self._put(f"{folder}/{MANIFEST}", manifest.content())

    def manifest(self, folder: str) -> Manifest | None:
        """None if the checkpoint was never finished. Raises DamagedCheckpointError."""
        try:
            return Manifest.of(self.filesystem.cat_file(f"{folder}/{MANIFEST}"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            raise DamagedCheckpointError(f"{MANIFEST} is a folder") from None

    def parts(self, folder: str, manifest: Manifest) -> dict[str, bytes]:
        """The content of each file, whole. Raises DamagedCheckpointError."""
        contents: dict[str, bytes] = {}
        for name, (size, digest) in manifest.files.items():
            contents[name] = self._whole(folder, name, size, digest)
        return contents

    def remove(self, folder: str) -> None:
        """The manifest first: what a crash or an open file leaves is an unfinished checkpoint, not
        a damaged one."""
        for path in (f"{folder}/{MANIFEST}", folder):
            with unless_in_use():
                self.filesystem.rm(path, recursive=True)

    def numbers(self, folder: str, prefix: str) -> Iterator[int]:
        """The numbers of the entries ``<prefix><number>``."""
        try:
            paths = self.filesystem.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        for path in paths:
            name = path.rstrip("/").rpartition("/")[2]
            if name.startswith(prefix) and name[len(prefix) :].isdecimal():
                yield int(name[len(prefix) :])

    def _whole(self, folder: str, name: str, size: int, digest: str) -> bytes:
        try:
            content: bytes = self.filesystem.cat_file(f"{folder}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            raise DamagedCheckpointError(f"{name} is missing") from None
        if len(content) != size:
            raise DamagedCheckpointError(
                f"{name} has {len(content)} bytes, but {size} were written"
            )
        if hashlib.sha256(content).hexdigest() != digest:
            raise DamagedCheckpointError(f"{name} does not match its checksum")
        return content

    def _put(self, path: str, content: bytes) -> None:
        """On a local disk a file has its name once all of it is on the disk, so that a power cut
        takes no file of which an older one is removed."""
        if not isinstance(self.filesystem, LocalFileSystem):
            self.filesystem.pipe_file(path, content)
            return
        temporary = Path(f"{path}{TEMPORARY}")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(temporary.parent)


def described(parts: Mapping[str, bytes]) -> dict[str, tuple[int, str]]:
    return {
        name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in parts.items()
    }
