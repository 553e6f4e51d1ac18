"""The stacks of a worker that hangs, taken by another process of its node.

The worker cannot give them itself: it may hang within C code that holds Python's lock. So Python's fault handler writes
them from a signal handler into a file in memory, which other processes of this user can open through /proc.
"""

import faulthandler
import os
import signal
import time
from pathlib import Path
from typing import IO

SIGNAL = signal.SIGUSR2
NAME = "ablate-stacks"
WRITING_S = 2.0
"""How long a process may take to write them."""

_kept: list[IO[bytes]] = []
"""The file must stay open. It goes with the process, however that ends."""


def offer_stacks() -> None:
    """From now on this process writes its stacks when it gets ``SIGNAL``."""
    if not _kept:
        _kept.append(os.fdopen(os.memfd_create(NAME), "wb", buffering=0))
        faulthandler.register(SIGNAL, file=_kept[0], all_threads=True, chain=False)


def stacks_of(pid: int) -> str:
    """The stacks of a process of this machine, or why there are none."""
    try:
        path = _file_of(pid)
        if path is None:
            return "the process has no stack dump enabled"
        os.kill(pid, SIGNAL)
        return _written(path)
    except OSError as error:
        return f"no stack: {error}"


def _file_of(pid: int) -> Path | None:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        if NAME in str(descriptor.readlink()):
            return descriptor
    return None


def _written(path: Path) -> str:
    """What stands there once nothing is added any more."""
    text, deadline = "", time.monotonic() + WRITING_S
    while time.monotonic() < deadline:
        time.sleep(0.1)
        before, text = text, path.read_text("utf-8", "replace")
        if text and text == before:
            break
    return text.strip() or "the process wrote no stack; it may be blocked in the kernel"
