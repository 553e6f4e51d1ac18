"""Which process holds the locks of a study's trials: a small file per process, for the message to others."""

import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tracking.formats import time as span
from tracking.process import is_alive
from tracking.uri import without_password


@contextmanager
def holding(locks: Path, trials: Iterable[str]) -> Iterator[None]:
    """Within it, others that are refused one of the trials are told of this process."""
    path = locks / f"{socket.gethostname()}-{os.getpid()}.json"
    command = shlex.join(["ablate", *map(without_password, sys.argv[1:])])
    content = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time(), "command": command}
    try:
        path.write_text(json.dumps({**content, "trials": list(trials)}), "utf-8")
        yield
    finally:
        with suppress(OSError):  # storage that is read-only by now: others remove a dead process's file
            path.unlink(missing_ok=True)


def holder_of(locks: Path, trial: str) -> str:
    """Such as "pid 12 on node-a for 2:10 (ablate sweep)"; "another process" if it left no file."""
    found = [holder for holder in _holders(locks) if trial in holder["trials"]]
    if not found:
        return "another process"
    newest = max(found, key=lambda holder: float(holder["since"]))
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest["since"]))
    held = span(max(0.0, time.time() - newest["since"]))
    return f"pid {newest['pid']} on {newest['host']} since {since} ({held} ago): {newest['command']}"


def _holders(locks: Path) -> Iterator[dict[str, Any]]:
    """What the files say, without those of this machine's dead processes, which could not remove theirs."""
    for path in locks.glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            holder = json.loads(path.read_text("utf-8"))
            if holder["host"] == socket.gethostname() and not is_alive(int(holder["pid"]), float(holder["since"])):
                path.unlink(missing_ok=True)
            else:
                yield {key: holder[key] for key in ("host", "pid", "since", "command", "trials")}
