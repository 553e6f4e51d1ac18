"""A control group with little memory and no swap, so that the kernel really kills what joins it and takes more."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEBIBYTES = 1024
BYTES = str(MEBIBYTES << 20)
KINDS = (
    ("memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", BYTES),  # of memory and swap together
    ("", "memory.max", "memory.swap.max", "0"),
)
"""Versions 1 and 2: the controller's name in /proc/self/cgroup, the files of its limits, and that of swap."""


@contextmanager
def memory_group(name: str) -> Iterator[Path]:
    """A child of this process's own group. A process joins it by its pid in ``cgroup.procs``."""
    for controller, limit, swap_limit, swap in KINDS:
        folder = _own_group(controller) / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if _limited(folder / limit, BYTES):
                if not _limited(folder / swap_limit, swap) and _swaps():
                    pytest.skip("this machine swaps, and its kernel keeps no count of it: nothing would be killed")
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip("no memory control group can be made here: it takes root and a writable /sys/fs/cgroup")


def _limited(limit: Path, to: str) -> bool:
    try:
        limit.write_text(to)
    except OSError:
        return False
    return True


def _swaps() -> bool:
    _, *places = Path("/proc/swaps").read_text().splitlines()
    return bool(places)


def _own_group(controller: str) -> Path:
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = next((path for _, controllers, path in lines if controller in controllers.split(",")), "/")
    return Path(f"/sys/fs/cgroup/{controller}{own}")
