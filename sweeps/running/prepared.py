"""The prepared data of a task: made once per fingerprint, in a folder that is whole or absent."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sweeps.planning.data_place import data_place
from sweeps.processes.patient_lock import patient_lock
from sweeps.processes.storage import at_place
from sweeps.task import Task


def prepared_folder(task: Task[Any], config: Any, data_folder: Path, fingerprint: str, identity: str = "") -> Path:
    """The folder, prepared now unless it is there. A failure leaves nothing behind."""
    folder = data_place(task, data_folder, fingerprint)
    if task.prepare is not None and not folder.is_dir():
        with _alone(folder):
            if not folder.is_dir():
                _prepare(task, config, folder)
    return folder


def _prepare(task: Task[Any], config: Any, folder: Path) -> None:
    assert task.prepare is not None
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        with at_place(folder):
            task.prepare([config], temporary, lambda *_: None)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out other processes that prepare the folder. After a failure, remove the lock and new empty folders."""
    new = [each for each in folder.parents if not each.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_suffix(".lock")
    try:
        with patient_lock(lock):
            yield
    except BaseException:
        lock.unlink(missing_ok=True)
        for each in new:
            with suppress(OSError):  # another process has put something into it
                each.rmdir()
        raise
