"""A control group with little memory, so that the kernel really kills what joins it and takes more."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEBIBYTES = 1024
KINDS = (("memory", "memory.limit_in_bytes"), ("", "memory.max"))
"""Versions 1 and 2: the controller's name in /proc/self/cgroup, and the file of its limit."""


@contextmanager
def memory_group(name: str) -> Iterator[Path]:
    """A child of this process's own group. A process joins it by its pid in ``cgroup.procs``."""
    for controller, limit in KINDS:
        folder = _own_group(controller) / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if _limited(folder / limit):
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip("no memory control group can be made here: it takes root and a writable /sys/fs/cgroup")


def _limited(limit: Path) -> bool:
    try:
        limit.write_text(str(MEBIBYTES << 20))
    except OSError:
        return False
    return True


def _own_group(controller: str) -> Path:
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = next((path for _, controllers, path in lines if controller in controllers.split(",")), "/")
    return Path(f"/sys/fs/cgroup/{controller}{own}")
