"""The checkpoints of a finished trial, copied for another study: as hard links where the file
system allows it.

A checkpoint file is never changed in its place, so that both studies may have the same one, and
each may remove its own. On an object store the server copies.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.processes.storage import alive
from sweeps.worker.checkpoint_files import (
    MANIFEST,
    TEMPORARY,
    WORK_FILES,
    CheckpointId,
    DamagedCheckpointError,
    Manifest,
)
from sweeps.worker.checkpoints import Checkpoints, root_name


class CheckpointCopy:
    """Copies the checkpoints of one study to the URL ``target_url`` of another, for the same trial
    key and lineage."""

    def __init__(self, source: Checkpoints, target_url: str) -> None:
        self._source = source
        self._filesystem, home = fsspec.core.url_to_fs(target_url)
        self._root = f"{home.rstrip('/')}/{root_name(source.key, source.lineage.name)}"

    def run(self) -> None:
        """Copy every finished checkpoint, its manifest last: until then it counts as unfinished.

        Raises DamagedCheckpointError, OSError.
        """
        for checkpoint in self._source.finished():
            self._copy(checkpoint)
        self._copy_own_files()

    def _copy(self, checkpoint: CheckpointId) -> None:
        folder = f"{self._source.root}/{checkpoint}"
        target = f"{self._root}/{checkpoint}"
        manifest = self._source.files.manifest(folder)
        if manifest is None:
            raise FileNotFoundError(folder)
        self._filesystem.makedirs(target, exist_ok=True)
        for name in (*manifest.files, MANIFEST):
            self._filesystem.makedirs(f"{target}/{name}".rpartition("/")[0], exist_ok=True)
            self._copy_file(f"{folder}/{name}", f"{target}/{name}")
            alive()

    def _copy_file(self, path: str, target: str) -> None:
        filesystem = self._source.files.filesystem
        if isinstance(filesystem, LocalFileSystem) and isinstance(
            self._filesystem, LocalFileSystem
        ):
            link_or_copy(Path(path), Path(target))
        elif filesystem == self._filesystem:
            filesystem.cp_file(path, target)
        else:
            self._filesystem.pipe_file(target, filesystem.cat_file(path))

    def _copy_own_files(self) -> None:
        """Copy the files that the trial itself wrote beside its checkpoints. They may change in
        place, so no links."""
        folder = Path(self._source.root, WORK_FILES)
        if (
            self._source.is_local
            and isinstance(self._filesystem, LocalFileSystem)
            and folder.is_dir()
        ):
            shutil.copytree(folder, Path(self._root, WORK_FILES), dirs_exist_ok=True)


def whole_manifest(checkpoints: Checkpoints, checkpoint: CheckpointId) -> Manifest:
    """The manifest of a checkpoint, after reading all its files. Raises DamagedCheckpointError if
    one is damaged."""
    folder = f"{checkpoints.root}/{checkpoint}"
    manifest = checkpoints.files.manifest(folder)
    if manifest is None:
        raise DamagedCheckpointError(f"{MANIFEST} is missing")
    parts: dict[str, Any] = checkpoints.files.parts(folder, manifest)
    assert parts.keys() == manifest.files.keys()
    return manifest


def link_or_copy(path: Path, target: Path) -> None:
    """A hard link, or a copy on the disk where the file system or the file's owner allows none."""
    temporary = Path(f"{target}{TEMPORARY}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
    temporary.replace(target)
