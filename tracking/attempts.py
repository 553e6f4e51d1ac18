"""Processes, their attempts at trials, and which of them run.

``attempts.jsonl`` has a line for each beginning and each end. Containers may share a host name, and
each counts its own pids. So a process is identified by its birth: the boot and the pid namespace in
which its pid counts, and its start.

A process that holds the locks of trials rewrites its record in `<study>/.running/` every ``BEAT_S``
seconds, since other machines cannot ask whether it is alive. A request to stop lies next to the
record.
"""

import errno
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import NoneType

from tracking.files import (
    Lines,
    append_line,
    read_object,
    to_json,
    unless_damaged,
    write_atomic,
)
from tracking.source_trial import FORM as SOURCE_FORM
from tracking.source_trial import SOURCE, SourceTrial
from tracking.uri import without_password
from tracking.words import time as span

ATTEMPT = (
    {
        **{
            "attempt": int,
            "ts": float,
            "host": str,
            "pid": int,
            "birth": str | None,
            "reason": NoneType,
        },
        **{"lineage": str | None, "run": str | None},
    },
    {"attempt": int, "ts": float, "end": bool, "reason": str},
    {"ts": float, SOURCE: SOURCE_FORM},
)
"""A line of ``attempts.jsonl``: the beginning of an attempt, its end, or where all lines before it
come from."""
FOLDER = ".running"
BEAT_S = 10.0
"""Between two signs of life: a small file, on a folder that may be shared by many."""
SILENT_S = 120.0
"""After so long without a sign, a process on another machine may be gone. A shared folder may lag
by a minute."""


@dataclass(frozen=True)
class Process:
    """One process of any machine. ``birth`` is the pid space, the pid, and the start in clock ticks
    since boot."""

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
    pid = os.getpid()
    ticks = 0
    with suppress(OSError, ValueError, IndexError):
        _, ticks = _state_and_ticks(pid)
    return Process(socket.gethostname(), pid, _birth(pid, ticks))


def has_ended(birth: str) -> bool:
    """Whether the process of this birth is known to have ended: not if it ran elsewhere."""
    space, _, pid_and_ticks = birth.partition("-")
    return (
        space == _pid_space()
        and not Process("", int(pid_and_ticks.partition("-")[0]), birth).lives_here
    )


@dataclass(frozen=True)
class AttemptRecord:
    """One attempt at a trial. Times are in Unix seconds; `ended` and `reason` are None until it
    ends."""

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
    """The attempts of one trial from its first on, by which its checkpoints are known wherever they
    lie.

    ``name`` is random, and "" in studies of earlier versions. ``runs`` has the run of each attempt:
    a name that all attempts of one sweep share. A trial that is removed and trained again has
    another lineage; a copy of its folder has the same one, and further attempts with other runs.
    ``codes`` are the hashes of the code that trained the study.
    """

    name: str = ""
    runs: Mapping[int, str] = field(default_factory=dict)
    codes: Sequence[str] = ()

    def has(self, attempt: int, run: str) -> bool:
        """Whether this attempt is its own. One whose record is lost, or that has no run, counts as
        such."""
        return run in ("", self.runs.get(attempt) or run)


class Attempts:
    """The attempts at one trial. Reading raises DamagedFileError if their file is unusable, or
    UnreadableError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, number: int, process: Process, lineage: str = "", run: str = "") -> None:
        """Record with fsync that attempt ``number``, from 1, begins. An earlier open attempt is
        closed as lost.

        After an error it may be repeated. Raises OSError if another process has begun it, or a
        later one.
        """
        last = self.newest()
        if last and last.number >= number:
            self._check_own(last, process)
        if last and last.ended is None and last.number < number:
            self.end(last.number, "lost")
        if last is None or last.number < number:
            line = {
                "attempt": number,
                "ts": time.time(),
                **asdict(process),
                "lineage": lineage,
                "run": run,
            }
            append_line(self._path, to_json(line), fsync=True)

    def end(self, number: int, reason: str) -> None:
        """Record its end. The reason: finished, failed, interrupted, lost or worker lost, then free
        text."""
        line = {
            "attempt": number,
            "ts": time.time(),
            "end": True,
            "reason": without_password(reason),
        }
        append_line(self._path, to_json(line), fsync=True)

    def all(self) -> list[AttemptRecord]:
        """Every attempt, oldest first."""
        found: dict[int, AttemptRecord] = {}
        for line in Lines(self._path, ATTEMPT):
            if SOURCE in line:
                continue
            number = line["attempt"]
            if line.get("reason") is None:
                process = Process(line["host"], line["pid"], line.get("birth") or "")
                lineage = line.get("lineage") or ""
                run = line.get("run") or ""
                found[number] = AttemptRecord(number, line["ts"], process, lineage=lineage, run=run)
            elif number in found:
                found[number] = replace(found[number], ended=line["ts"], reason=line["reason"])
        return list(found.values())

    def take_from(self, source: SourceTrial) -> None:
        """Record with fsync that all attempts so far are those of another study's trial."""
        append_line(self._path, to_json({"ts": time.time(), SOURCE: asdict(source)}), fsync=True)

    def source(self) -> SourceTrial | None:
        """The trial that trained the weights, if they were taken: of several sources the first
        one."""
        lines = (line for line in Lines(self._path, ATTEMPT) if SOURCE in line)
        first = next(lines, None)
        return None if first is None else SourceTrial.of(first[SOURCE])

    def newest(self) -> AttemptRecord | None:
        return max(self.all(), key=lambda attempt: attempt.number, default=None)

    def check_begun(self, number: int) -> AttemptRecord:
        """The newest attempt.

        Raises OSError unless the given one is recorded. It was, so the folder's storage is away or
        was emptied.
        """
        newest = self.newest()
        if newest is None or newest.number < number:
            raise OSError(errno.ESTALE, f"the record of attempt {number} is gone", str(self._path))
        return newest

    def check_running(self, number: int, process: Process) -> None:
        """Raises OSError also if another process has begun an attempt since, as it can where locks
        fail."""
        self._check_own(self.check_begun(number), process)

    def _check_own(self, attempt: AttemptRecord, process: Process) -> None:
        if attempt.process != process:
            other = f"{attempt.process} has begun attempt {attempt.number}"
            fix = "so this process ends: run a trial in one sweep at a time"
            raise OSError(None, f"{other}, {fix}", str(self._path.parent))


@cache
def _pid_space() -> str:
    """Where a pid means one process: this boot and this container. Without /proc (macOS), this
    host."""
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


@dataclass(frozen=True)
class Runner:
    """The record of a process that holds the locks of ``trials``. Times are in Unix seconds.

    ``seen`` is its last sign of life. ``waiting``: what its trials wait for. ``left``: seconds from
    ``seen`` until its last trial ends, extrapolated; None before one has finished.
    """

    process: Process
    command: str
    trials: tuple[str, ...]
    since: float
    seen: float
    waiting: str = ""
    left: float | None = None

    def __str__(self) -> str:
        """Such as "pid 12 on node-a since 2030-01-31 12:00 (2 min 10 s ago): allelse sweep"."""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"{self.process} since {since} ({span(max(0.0, time.time() - self.since))} ago): {self.command}"

    def lives(self) -> bool:
        """Whether it runs on this machine, or showed a sign of life on another one recently."""
        return (
            self.process.lives_here if self.process.is_here else time.time() - self.seen < SILENT_S
        )


def announce(study: Path, runner: Runner) -> None:
    """Write its record. Raises OSError."""
    write_atomic(_record(study, runner), to_json(asdict(runner)) + "\n")


def withdraw(study: Path, runner: Runner) -> None:
    """Remove its files, and those of processes that are gone. A fault of storage, read-only by now,
    leaves them.

    A process that was only silent writes its record again.
    """
    for each in (runner, *(other for other in known_runners(study) if not other.lives())):
        for path in (_record(study, each), _requests(study, each)):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def known_runners(study: Path) -> list[Runner]:
    """Every process that announced itself and did not withdraw, also one that was killed."""
    found = [_read(path) for path in sorted((study / FOLDER).glob("*.json"))]
    return [runner for runner in found if runner is not None]


def runners(study: Path) -> list[Runner]:
    """Those that run."""
    return [runner for runner in known_runners(study) if runner.lives()]


def holder_of(study: Path, trial: str) -> Runner | None:
    """Who holds the trial's lock, on another machine also if it is silent. `allelse evaluate`
    leaves no record."""
    there = [
        runner for runner in known_runners(study) if runner.lives() or not runner.process.is_here
    ]
    return max(
        (each for each in there if trial in each.trials), key=lambda each: each.since, default=None
    )


def runs(attempt: AttemptRecord, running: Sequence[Runner]) -> bool:
    """Whether the attempt is open and its process is here, or one of those that are ``running`` on
    any machine."""
    elsewhere = attempt.ended is None and attempt.process in [runner.process for runner in running]
    return elsewhere or attempt.lives()


def seconds_left(running: Sequence[Runner]) -> float | None:
    """Until the last of these processes ends; None if one of them does not know, or if all are
    late."""
    now = time.time()
    known = [runner.left - (now - runner.seen) for runner in running if runner.left is not None]
    left = max(known, default=0.0)
    return left if left > 0 and len(known) == len(running) else None


def request_stop(study: Path, runner: Runner, trials: Sequence[str] | None) -> None:
    """Ask the process to stop these trials, or everything. It looks every second. Raises
    OSError."""
    before = stop_requests(study, runner)
    wanted = None if trials is None or before is None else sorted({*trials, *before})
    write_atomic(_requests(study, runner), to_json({"trials": wanted}) + "\n")


def stop_requests(study: Path, runner: Runner) -> tuple[str, ...] | None:
    """The trials that it was asked to stop, () for none; None means everything."""
    content = unless_damaged(lambda: read_object(_requests(study, runner)), None) or {"trials": []}
    trials = content.get("trials")
    return None if trials is None else tuple(map(str, trials))


def in_hand(
    study: Path, trials: Collection[str], newest: Callable[[str], AttemptRecord | None]
) -> set[str]:
    """Those of the trials that a process runs, on any machine, or will run. ``newest`` gives a
    trial's last attempt."""
    asked = [(runner, stop_requests(study, runner)) for runner in runners(study)]
    return {
        each
        for runner, stops in asked
        for each in {*trials} & {*runner.trials}
        if _has_in_hand(runner, newest(each), stops is None or each in stops)
    }


def _has_in_hand(runner: Runner, newest: AttemptRecord | None, asked_to_stop: bool) -> bool:
    """A process that was asked to stop still ends the attempt that it has begun. It tries again
    after a loss alone."""
    own = newest if newest and newest.process == runner.process else None
    if own and own.ended is None:
        return True
    return not asked_to_stop and (own is None or str(own.reason).startswith("worker lost"))


def _read(path: Path) -> Runner | None:
    """None if it is damaged, or of another version."""
    try:
        content = json.loads(path.read_text("utf-8"))
        process = Process(**content.pop("process"))
        trials = tuple(content.pop("trials"))
        return Runner(process, trials=trials, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _record(study: Path, runner: Runner) -> Path:
    return study / FOLDER / f"{runner.process.host}-{runner.process.birth}.json"


def _requests(study: Path, runner: Runner) -> Path:
    return _record(study, runner).with_suffix(".stop")
