"""Whether the process that began an attempt is still alive."""

import os
import time
from pathlib import Path

CLOCK_SLACK = 3600.0  # seconds by which the clock may have been set forward since the attempt began


def is_alive(pid: int, since: float) -> bool:
    """Whether process `pid` of this machine is running, and already was at `since` (Unix seconds).

    A zombie counts as dead, and so does a pid that a younger process got after a reboot. Without /proc
    (macOS) only the pid is checked.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    try:
        state, started = _state_and_start(pid)
    except (OSError, ValueError, IndexError):
        return True
    return state != "Z" and started <= since + CLOCK_SLACK


def _state_and_start(pid: int) -> tuple[str, float]:
    """The process's state letter and its start in Unix seconds; see proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0], time.time() - age
