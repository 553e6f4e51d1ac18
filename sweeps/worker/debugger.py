"""`breakpoint()` in a trial: a sweep's worker has no terminal and continues; `allelse train` opens
the debugger."""

import os
import sys
import threading
from collections.abc import Callable
from pdb import Pdb
from types import FrameType
from typing import Any

from tracking.shell import quoted, shell_line

DEBUGGER = "bdb"
"""The module of the standard library on which pdb, ipdb and others are built."""
NEEDS_TERMINAL = (
    "the debugger needs a terminal, and workers of a sweep have none; run `allelse train row=…`"
)


def train_command(task: str, study: str, trial: str, seed: int) -> str:
    """The command that runs the row of this trial of the study in its own process, once no sweep
    runs it."""
    row = trial.removesuffix(f"-s{seed}")
    words = [
        f"task={task}",
        f"sweep.name={quoted(study)}",
        f"row={quoted(row)}",
        f"sweep.seeds=[{seed}]",
    ]
    return shell_line(["allelse", "train", *words])


def pass_breakpoints(notice: Callable[[str], None], command: str) -> None:
    """Make `breakpoint()` in this process do nothing but print one notice: the ``command`` that
    opens the debugger."""
    noticed = threading.Event()

    def hook(*_arguments: Any, **_options: Any) -> None:
        if not noticed.is_set():
            noticed.set()
            notice(f"breakpoint() was skipped: it needs a terminal. To debug, run: {command}")

    sys.breakpointhook = hook


def open_debugger_after(act: Callable[[], None]) -> None:
    """Make `breakpoint()` in this process call ``act`` and then open pdb. PYTHONBREAKPOINT takes
    precedence."""
    if "PYTHONBREAKPOINT" in os.environ:
        return

    def hook(*_arguments: Any, **_options: Any) -> None:
        act()
        Pdb().set_trace(sys._getframe().f_back)

    sys.breakpointhook = hook


def debugs_now() -> bool:
    """Whether the main thread is in a debugger, where a person may think for hours."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__") == DEBUGGER:
            return True
        frame = frame.f_back
    return False
