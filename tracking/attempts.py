"""Processes and their attempts at a trial.

``attempts.jsonl`` has a line for each beginning and each end. Containers may share a host name, and
each counts its own pids. So a process is identified by its birth: the boot and the pid namespace
that its pid belongs to, and its start.
"""

import errno
import hashlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any

from tracking.files import to_json
from tracking.json_lines.lines import Lines, append_line
from tracking.provenance import SOURCE, SOURCE_FORM, SourceTrial
from tracking.uri import without_password

BEGINNING = {
    "attempt": int,
    "ts": float,
    "host": str,
    "pid": int,
    "birth": str | None,
    "reason": NoneType,
    "lineage": str | None,
    "run": str | None,
}
END = {"attempt": int, "ts": float, "end": bool, "reason": str}
ATTEMPT = (BEGINNING, END, {"ts": float, SOURCE: SOURCE_FORM})
"""A line of ``attempts.jsonl``: an attempt's beginning or end, or the source of earlier lines."""


@dataclass(frozen=True)
class Process:
    """A process of any machine.

    ``birth``: the pid space, the pid, and its start in clock ticks since boot.
    """

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
        """Whether it runs on this machine. A zombie counts as dead. A later process with the same
        pid has a different birth."""
        if not self.is_here:
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:  # another user's process
            pass
        try:
            state, ticks = _state_and_ticks(self.pid)
        except (OSError, ValueError, IndexError):  # macOS has no /proc
            return True
        return state != "Z" and self.birth == _birth(self.pid, ticks)


def own_process() -> Process:
    """This one."""
    pid = os.getpid()
    ticks = 0
    with suppress(OSError, ValueError, IndexError):
        _, ticks = _state_and_ticks(pid)
    return Process(socket.gethostname(), pid, _birth(pid, ticks))


def has_ended(birth: str) -> bool:
    """Whether the process of this birth is known to have ended: not if it ran elsewhere."""
    space, _, pid_and_ticks = birth.partition("-")
    if space != _pid_space():
        return False
    pid = int(pid_and_ticks.partition("-")[0])
    return not Process("", pid, birth).lives_here


@dataclass(frozen=True)
class AttemptRecord:
    """One attempt at a trial.

    Times are in Unix seconds. `ended` and `reason` are None until it ends.
    """

    number: int
    began: float
    process: Process
    ended: float | None = None
    reason: str | None = None
    lineage: str = ""
    run: str = ""

    def lives(self) -> bool:
        """Whether it is open and its process runs on this machine."""
        return self.ended is None and self.process.lives_here


@dataclass(frozen=True)
class Lineage:
    """The attempts of one trial, which identify its checkpoints wherever they lie.

    ``name`` is random, and "" in studies of earlier versions. ``runs`` has the run of each attempt:
    a name that all attempts of one sweep share. A trial that is removed and trained again has a new
    lineage. A copy of its folder has the same one, and further attempts with other runs. ``codes``
    are the hashes of the code that trained the study.
    """

    name: str = ""
    runs: Mapping[int, str] = field(default_factory=dict)
    codes: Sequence[str] = ()

    def has(self, attempt: int, run: str) -> bool:
        """Whether this attempt belongs to it.

        So does one whose record is lost, or that has no run.
        """
        return run in ("", self.runs.get(attempt) or run)


class Attempts:
    """The attempts at one trial. Reading raises DamagedFileError or UnreadableError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, number: int, process: Process, lineage: str = "", run: str = "") -> None:
        """Record with fsync that attempt ``number``, from 1, begins. Closes an earlier open attempt
        as lost.

        You may repeat it after an error. Raises OSError if another process has begun this attempt
        or a later one.
        """
        last = self.newest()
        if last and last.number >= number:
            self._check_process(last, process)
            return
        if last and last.ended is None:
            self.end(last.number, "lost")
        line = {"attempt": number, "ts": time.time(), **asdict(process)}
        line |= {"lineage": lineage, "run": run}
        append_line(self._path, to_json(line), fsync=True)

    def end(self, number: int, reason: str) -> None:
        """Record its end.

        The reason: finished, failed, interrupted, lost or worker lost, then free text.
        """
        cause = without_password(reason)
        line = {"attempt": number, "ts": time.time(), "end": True, "reason": cause}
        append_line(self._path, to_json(line), fsync=True)

    def all(self) -> list[AttemptRecord]:
        """Every attempt, oldest first."""
        attempts: dict[int, AttemptRecord] = {}
        for line in Lines(self._path, ATTEMPT):
            if SOURCE in line:
                continue
            number = line["attempt"]
            if line.get("reason") is None:
                attempts[number] = _begun_attempt(line)
            elif number in attempts:
                ended = replace(attempts[number], ended=line["ts"], reason=line["reason"])
                attempts[number] = ended
        return list(attempts.values())

    def take_from(self, source: SourceTrial) -> None:
        """Record with fsync that all attempts so far are those of another study's trial."""
        append_line(self._path, to_json({"ts": time.time(), SOURCE: asdict(source)}), fsync=True)

    def source(self) -> SourceTrial | None:
        """The trial that trained the weights, if they were taken. The first of several sources."""
        lines = (line for line in Lines(self._path, ATTEMPT) if SOURCE in line)
        first = next(lines, None)
        return None if first is None else SourceTrial.of(first[SOURCE])

    def newest(self) -> AttemptRecord | None:
        return max(self.all(), key=lambda attempt: attempt.number, default=None)

    def check_begun(self, number: int) -> AttemptRecord:
        """The newest attempt.

        Raises OSError unless this attempt is recorded. It was, so the folder's storage is away or
        was emptied.
        """
        newest = self.newest()
        if newest is None or newest.number < number:
            raise OSError(errno.ESTALE, f"the record of attempt {number} is gone", str(self._path))
        return newest

    def check_running(self, number: int, process: Process) -> None:
        """Also raises OSError if another process has begun a new attempt, as when locks fail."""
        self._check_process(self.check_begun(number), process)

    def _check_process(self, attempt: AttemptRecord, process: Process) -> None:
        if attempt.process != process:
            cause = f"{attempt.process} has started attempt {attempt.number}"
            fix = "so this process ends: run a trial in one sweep at a time"
            raise OSError(None, f"{cause}, {fix}", str(self._path.parent))


def _begun_attempt(line: Mapping[str, Any]) -> AttemptRecord:
    process = Process(line["host"], line["pid"], line.get("birth") or "")
    lineage = line.get("lineage") or ""
    run = line.get("run") or ""
    return AttemptRecord(line["attempt"], line["ts"], process, lineage=lineage, run=run)


@cache
def _pid_space() -> str:
    """Where a pid identifies one process: this boot and container.

    Without /proc (macOS), this host.
    """
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
