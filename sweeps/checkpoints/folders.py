"""Where the checkpoints of a trial are, and the files of its own work next to them."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.processes.storage import answer_in_time, give_sign_of_life
from tracking.attempts import Lineage

WORK_FILES = "files"  # the folder of a trial's own files, next to its checkpoints
KEY_DIGITS = 16  # of a key, in a path; the manifest holds the whole key


def root_name(key: str, lineage: str) -> str:
    """The folder of the attempts of this lineage at the trial ``key``."""
    return f"{key[:KEY_DIGITS]}-{lineage}" if lineage else key[:KEY_DIGITS]


def work_folder(url: str, key: str, lineage: Lineage) -> Path:
    """The folder for the work's own files: next to local checkpoints, else in this machine's
    temporary folder."""
    filesystem, home = fsspec.core.url_to_fs(url)
    root = home if isinstance(filesystem, LocalFileSystem) else tempfile.gettempdir()
    return Path(root, root_name(key, lineage.name), WORK_FILES)


def folders_at(url: str) -> set[str]:
    """The names of the folders at this address; none where nothing is, or where nothing answers in
    time."""

    def names() -> set[str]:
        filesystem, home = fsspec.core.url_to_fs(url)
        paths = filesystem.ls(home, detail=False)
        return {path.rstrip("/").rpartition("/")[2] for path in paths}

    with suppress(Exception):  # each filesystem has its own errors, and preflight reports them
        return answer_in_time(names)
    return set()


def copy_work_files(source: Path, target: Path) -> None:
    """Make ``target`` hold what ``source`` holds, and nothing else. They share no file: work may
    change its own."""

    def copy(path: str, copy_path: str) -> None:
        shutil.copyfile(path, copy_path)
        give_sign_of_life()

    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target, copy_function=copy)
