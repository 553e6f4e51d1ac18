"""The prepared data of a task: made once per fingerprint, in a folder that is whole or absent."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from sweeps.planning.data_place import data_place
from sweeps.task import Task


def prepared_folder(task: Task[Any], config: Any, data_folder: Path, fingerprint: str) -> Path:
    """The folder, prepared now unless it is there."""
    folder = data_place(task, data_folder, fingerprint)
    if task.prepare is not None and not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _prepare(task, config, folder)
    return folder


def _prepare(task: Task[Any], config: Any, folder: Path) -> None:
    assert task.prepare is not None
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        task.prepare(config, temporary)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
