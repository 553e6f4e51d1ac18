"""Temporary folders of this process. What a killed process left, the next one on its machine removes."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sweeps.processes.storage import at_place
from tracking.attempts import has_ended, own_process

PREFIX = "allelse-"


@contextmanager
def own_temporary() -> Iterator[Path]:
    """A folder named after the birth of this process. Within it, a fault of storage that names no file is its own."""
    _remove_dead()
    prefix = f"{PREFIX}{own_process().birth}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, at_place(Path(folder).parent):
        yield Path(folder)


@cache
def _remove_dead() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if has_ended(folder.name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
