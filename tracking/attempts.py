"""Processes, and their attempts at a trial: ``attempts.jsonl`` has a line for each beginning and each end.

Containers may share a host name, and each counts its own pids. So a process is known by its birth: by which boot of
which kernel and in which pid namespace its pid is counted, and when it started there.
"""

import errno
import hashlib
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tracking.damage import NUMBER, TEXT, WHOLE, misfit
from tracking.files import Lines, append_line, to_json
from tracking.uri import without_password


@dataclass(frozen=True)
class Process:
    """One process of any machine. ``birth`` is the pid space, the pid, and the start in clock ticks since boot."""

    host: str
    pid: int
    birth: str = ""

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"

    @property
    def is_here(self) -> bool:
        """Whether it runs, or ran, on this machine, outside other containers."""
        return self.birth.partition("-")[0] == _pid_space()

    @property
    def lives_here(self) -> bool:
        """A zombie counts as dead. A process that got the same pid later has another birth."""
        if not self.is_here:
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # another user's
            pass
        try:
            state, ticks = _state_and_ticks(self.pid)
        except (OSError, ValueError, IndexError):  # macOS has no /proc
            return True
        return state != "Z" and self.birth == _birth(self.pid, ticks)


def own_process() -> Process:
    """This one."""
    pid, ticks = os.getpid(), 0
    with suppress(OSError, ValueError, IndexError):
        _, ticks = _state_and_ticks(pid)
    return Process(socket.gethostname(), pid, _birth(pid, ticks))


def has_ended(birth: str) -> bool:
    """Whether the process of this birth is known to have ended: not if it ran elsewhere."""
    space, _, pid_and_ticks = birth.partition("-")
    return space == _pid_space() and not Process("", int(pid_and_ticks.partition("-")[0]), birth).lives_here


@dataclass(frozen=True)
class Attempt:
    """One attempt at a trial. Times are in Unix seconds; `ended` and `reason` are None until it ends."""

    number: int
    began: float
    process: Process
    ended: float | None = None
    reason: str | None = None

    def lives(self) -> bool:
        """Whether it is open and its process runs on this machine."""
        return self.ended is None and self.process.lives_here


class Attempts:
    """The attempts at one trial. Reading raises DamagedFileError if their file is unusable, or UnreadableError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, number: int, process: Process) -> None:
        """Record with fsync that attempt ``number``, from 1, begins. An earlier open attempt is closed as lost.

        After an error it may be repeated. Raises OSError if another process has begun it, or a later one.
        """
        last = self.newest()
        if last and last.number >= number:
            self._check_own(last, process)
        if last and last.ended is None and last.number < number:
            self.end(last.number, "lost")
        if last is None or last.number < number:
            line = {"attempt": number, "ts": time.time(), **asdict(process)}
            append_line(self._path, to_json(line), fsync=True)

    def end(self, number: int, reason: str) -> None:
        """Record its end. The reason: finished, failed, interrupted, lost or worker lost, then free text."""
        line = {"attempt": number, "ts": time.time(), "end": True, "reason": without_password(reason)}
        append_line(self._path, to_json(line), fsync=True)

    def all(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        found: dict[int, Attempt] = {}
        for line in Lines(self._path, attempt_fault):
            number = line["attempt"]
            if not line.get("end"):
                process = Process(line["host"], line["pid"], str(line.get("birth", "")))
                found[number] = Attempt(number, line["ts"], process)
            elif number in found:
                found[number] = replace(found[number], ended=line["ts"], reason=line["reason"])
        return list(found.values())

    def newest(self) -> Attempt | None:
        return max(self.all(), key=lambda attempt: attempt.number, default=None)

    def check_begun(self, number: int) -> Attempt:
        """The newest attempt.

        Raises OSError unless the given one is recorded. It was, so the folder's storage is away or was emptied.
        """
        newest = self.newest()
        if newest is None or newest.number < number:
            raise OSError(errno.ESTALE, f"the record of attempt {number} is gone", str(self._path))
        return newest

    def check_running(self, number: int, process: Process) -> None:
        """Raises OSError also if another process has begun an attempt since, as it can where locks fail."""
        self._check_own(self.check_begun(number), process)

    def _check_own(self, attempt: Attempt, process: Process) -> None:
        if attempt.process != process:
            other = f"{attempt.process} has begun attempt {attempt.number}"
            fix = "so this process ends: let one sweep at a time run a trial"
            raise OSError(None, f"{other}, {fix}", str(self._path.parent))


def attempt_fault(line: dict[str, Any]) -> str | None:
    """What is wrong with a line: the beginning of an attempt, or its end."""
    form = {"attempt": WHOLE, "ts": NUMBER}
    return misfit(line, form | ({"reason": TEXT} if line.get("end") else {"host": TEXT, "pid": WHOLE}))


@cache
def _pid_space() -> str:
    """Where a pid means one process: this boot and this container. Without /proc (macOS), this host."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        space = socket.gethostname()
    return hashlib.sha256(space.encode()).hexdigest()[:12]


def _birth(pid: int, ticks: int) -> str:
    return f"{_pid_space()}-{pid}-{ticks}"


def _state_and_ticks(pid: int) -> tuple[str, int]:
    """The process's state letter and its start in ticks since boot; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])
