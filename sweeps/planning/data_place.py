"""Where the prepared data of a task lies."""

import hashlib
from pathlib import Path
from typing import Any

from sweeps.task import Task


def data_place(task: Task[Any], folder: Path, fingerprint: str) -> Path:
    """Below ``paths.data``, prepared or not. A task that prepares nothing reads that folder itself."""
    if task.prepare is None:
        return folder
    return folder / task.name / hashlib.sha256(fingerprint.encode()).hexdigest()[:16]


def identity(task: Task[Any], folder: Path, fingerprint: str) -> str:
    """What tells the prepared copy from another one; "" if nothing does."""
    return ""
