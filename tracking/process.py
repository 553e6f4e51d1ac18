"""Whether the process that began an attempt is still alive.

Containers may share a host name, and each counts its own pids. So a process also records its birth: by which boot of
which kernel and in which pid namespace its pid is counted, and when it started there.
"""

import hashlib
import os
import socket
import time
from functools import cache
from pathlib import Path

CLOCK_SLACK = 3600.0  # seconds by which the clock may have been set forward since the attempt began


@cache
def pid_space() -> str:
    """Where a pid means one process: this boot and this container. "" without /proc (macOS)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return hashlib.sha256(f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}".encode()).hexdigest()[:12]
    except OSError:
        return ""


def own_birth() -> str:
    """Of this process: ``pid_space``, pid and start in clock ticks since boot. "" without /proc."""
    try:
        return _birth(os.getpid(), _state_and_ticks(os.getpid())[1])
    except (OSError, ValueError, IndexError):
        return ""


def is_here(host: str, birth: str) -> bool:
    """Whether this process can ask for the pid of that one. Without a birth (no /proc), by its host name."""
    return birth.partition("-")[0] == pid_space() if birth else host == socket.gethostname()


def is_alive(pid: int, since: float, birth: str = "") -> bool:
    """Whether process `pid` of this machine is running, and is the one that already was at `since` (Unix seconds).

    A zombie counts as dead, and so does a pid that a younger process got after a reboot: its birth differs. Without a
    birth its start is compared, which a clock that was set can disturb; without /proc (macOS) only the pid is checked.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    try:
        state, ticks = _state_and_ticks(pid)
    except (OSError, ValueError, IndexError):
        return True
    same = birth == _birth(pid, ticks) if birth else _unix_seconds(ticks) <= since + CLOCK_SLACK
    return state != "Z" and same


def has_ended(birth: str) -> bool:
    """Whether the process of this birth is known to have ended: not if it ran elsewhere."""
    space, _, pid_and_ticks = birth.partition("-")
    pid = pid_and_ticks.partition("-")[0]
    return space == pid_space() and pid.isdecimal() and not is_alive(int(pid), 0.0, birth)


def _birth(pid: int, ticks: int) -> str:
    return f"{pid_space()}-{pid}-{ticks}"


def _state_and_ticks(pid: int) -> tuple[str, int]:
    """The process's state letter and its start in ticks since boot; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _unix_seconds(ticks: int) -> float:
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age
