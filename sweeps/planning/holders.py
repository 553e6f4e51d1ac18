"""Which process holds the locks of a study's trials: a small file per process, for the message to others."""

import json
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tracking.formats import time as span
from tracking.process import is_alive, is_here, own_birth
from tracking.shell import shell_line
from tracking.uri import without_password

UNKNOWN = "another process"
"""One that left no file: it is not a run of the study, such as `ablate evaluate`."""


@dataclass(frozen=True)
class Holder:
    """One process; ``since`` is in Unix seconds."""

    host: str
    pid: int
    since: float
    command: str
    trials: tuple[str, ...]
    birth: str = ""

    def is_dead(self) -> bool:
        """Whether it ran on this machine and has ended."""
        return is_here(self.host, self.birth) and not is_alive(self.pid, self.since, self.birth)


@contextmanager
def holding(locks: Path, trials: Iterable[str]) -> Iterator[None]:
    """Within it, others that are refused one of the trials are told of this process."""
    command = shell_line(["ablate", *map(without_password, sys.argv[1:])])
    holder = Holder(socket.gethostname(), os.getpid(), time.time(), command, tuple(trials), own_birth())
    try:
        _remove_dead(locks)
        _own_file(locks).write_text(json.dumps(asdict(holder)), "utf-8")
        yield
    finally:
        remove_own(locks)


def remove_own(locks: Path) -> None:
    """Remove the file of this process."""
    with suppress(OSError):  # storage that is read-only by now: others remove a dead process's file
        _own_file(locks).unlink(missing_ok=True)


def holder_of(locks: Path, trial: str) -> str:
    """Such as "pid 12 on node-a since 2030-01-31 12:00 (2 min 10 s ago): ablate sweep"; UNKNOWN without a file."""
    found = [holder for _, holder in _holders(locks) if trial in holder.trials and not holder.is_dead()]
    if not found:
        return UNKNOWN
    newest = max(found, key=lambda holder: holder.since)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest.since))
    held = span(max(0.0, time.time() - newest.since))
    return f"pid {newest.pid} on {newest.host} since {since} ({held} ago): {newest.command}"


def _own_file(locks: Path) -> Path:
    return locks / f"{socket.gethostname()}-{own_birth() or os.getpid()}.json"


def _remove_dead(locks: Path) -> None:
    """Remove the files of processes of this machine that were killed, other than those of another user."""
    for path, holder in _holders(locks):
        if holder.is_dead():
            with suppress(OSError):
                path.unlink()


def _holders(locks: Path) -> Iterator[tuple[Path, Holder]]:
    """What the files say; a damaged one says nothing."""
    for path in locks.glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text("utf-8"))
            host, pid, since = str(found["host"]), int(found["pid"]), float(found["since"])
            trials, birth = tuple(found["trials"]), str(found.get("birth", ""))
            yield path, Holder(host, pid, since, str(found["command"]), trials, birth)
