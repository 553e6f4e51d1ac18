"""Why an attempt ended: by an error of its work, by the death of a process, or by a hang, which
writes its stacks."""

import errno
import faulthandler
import os
import re
import sys
import threading
import time
import traceback
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from sweeps.config.tasks import is_fault_of_code
from sweeps.processes.events import Failed, Lost
from sweeps.processes.storage import AWAY, BUSY, StorageError, give_sign_of_life, signs_of_life
from sweeps.processes.times import CLEANING_S, LOOK_FOR_SIGNS_S, STARTING_S
from sweeps.worker.calls import cause, printable
from sweeps.worker.debugger import NEEDS_TERMINAL, debugs_now
from sweeps.worker.user_code.imports import in_users_folders

NO_MEMORY = re.compile(r"out of memory|can(no|')t allocate memory|not enough memory", re.I)
UNREACHABLE = re.compile(r"\bgloo\b|\bnccl|\bc10d\b|TCPStore|rendezvous", re.I)
"""In the words of torch's errors of a process group. A task's own "Connection refused", of a
database, has none."""
LOST_GPU = re.compile(
    r"uncorrectable (NVLink|ECC) error|fallen off the bus|GPU is lost|busy or unavailable"
    r"|no CUDA-capable device"
    r"|No CUDA GPUs are available|driver initialization failed|system not yet initialized",
    re.I,
)
"""What CUDA and torch say of a device that fails whatever runs on it. A kernel's own faults have
other words."""
BY_RAY = "was killed by Ray, because its node ran out of memory"
DEATHS = {
    r"OutOfMemory|(?i:out of memory)|low on memory": BY_RAY,
    r"node (?:was|has|is) (?:dead|died|terminated|lost)|node_id|its node": "was lost with its node",
    r"^ActorUnavailableError": "no longer answers: its node or the link to it is gone",
    r"\*\*\* (SIG\w+) received": "crashed with {}",
    r"SIGTERM": "was ended by SIGTERM",
    r"exit code (\d+)": "exited with code {}",
}
"""How a process ended, by what Ray's error or the process itself says; the first that is found."""
MAY_BE_MEMORY = "perhaps because memory ran out"
UNKNOWN_EXIT = "connection error code 2"
"""Ray's message for any process that was killed, crashed or exited by itself: Ray saw only the
connection end."""
NOT_INSTALLED = re.compile(r"No module named '(?:sweeps|tracking|transformer)(\.[\w.]+)?'")
INSTALL_SAME = "install this version there"
INSTALL_IT = "install it for the Python that starts Ray there"


HINTS = {
    "signal only works in main thread": (
        "a sweep calls work outside of the main thread; "
        "use trial.stopping() instead: it says when to save and return"
    )
}
"""What to do about an error, by a part of its message."""


class CannotBeginError(Exception):
    """A worker cannot begin. ``event`` says why."""

    def __init__(self, event: Failed | Lost) -> None:
        self.event = event


def ended_by(error: BaseException) -> Failed | Lost:
    """The event of a worker whose work raised ``error``."""
    details = printable(in_users_folders(traceback.format_exc()))
    message = _with_hint(cause(error))
    number = error.errno if isinstance(error, OSError) else None
    # torch's errors have few types of their own
    words = str(error) if isinstance(error, RuntimeError) else ""
    if isinstance(error, MemoryError) or number == errno.ENOMEM or NO_MEMORY.search(words):
        return Lost(f"out of memory: {message}", details, memory=True)
    if isinstance(error, BdbQuit):
        return Failed(NEEDS_TERMINAL, details)
    if isinstance(error, SystemExit):
        exited = f"the trial's code ended its process: {message}"
        if is_fault_of_code(error):  # a retry would end in the same way
            return Failed(exited, details)
        return Lost(exited, details)
    distributed = sys.modules.get("torch.distributed")
    if distributed and (
        number == errno.EADDRINUSE
        or isinstance(error, distributed.DistError)
        or UNREACHABLE.search(words)
    ):
        return Lost(message, details, peer=True)
    was_retried = isinstance(error, StorageError)  # for long enough
    if LOST_GPU.search(words) or (number in AWAY | BUSY and not was_retried):
        return Lost(message, details)
    return Failed(message, details)


def _with_hint(message: str) -> str:
    hints = [hint for part, hint in HINTS.items() if part in message]
    return "; ".join([message, *hints])


def died(error: BaseException, name: str, worker_place: Any = None) -> Lost:
    """``error`` is Ray's exception from a call to the process ``name``, such as "worker 0".

    ``worker_place`` is where it ran, in words for a person, with its ``last_lines``.
    """
    raised = getattr(error, "cause", None)  # by the work, in Ray's words
    error = raised if isinstance(raised, BaseException) else error
    text = str(error).strip() or type(error).__name__
    pid = _first_match(r"pid: (\d+)", text)
    address = _first_match(r"ip: (\S+)", text)
    lines: list[str] = worker_place.last_lines() if worker_place else []
    location = worker_place or (f"pid {pid} on {address}" if pid and address else None)
    process = f"{name} ({location})" if location else name
    if missing := NOT_INSTALLED.search(text):
        fault = (
            f"runs a different allelse; {INSTALL_SAME}"
            if missing[1]
            else f"found no allelse; {INSTALL_IT}"
        )
        return Lost(f"{process} {fault}", text, unfit=True)
    manner = _cause_of_death(error, text, lines)
    details = "\n\n".join(filter(None, [text, "\n".join(lines)]))
    return Lost(f"{process} {manner}", details, memory=manner == BY_RAY)


def _cause_of_death(error: BaseException, text: str, lines: list[str]) -> str:
    """The most certain explanation, as one line."""
    crashes = [line for line in lines if "*** SIG" in line]
    message = "\n".join([type(error).__name__, text, *crashes[-1:]])
    for pattern, manner in DEATHS.items():
        if match := re.search(pattern, message):
            return manner.format(*match.groups())
    if UNKNOWN_EXIT in text:
        last = f"; last line of its log: {lines[-1]}" if lines else ""
        return f"was killed (SIGKILL), {MAY_BE_MEMORY}, or exited by itself{last}"
    return f"was lost: {text.splitlines()[0]}"


def _first_match(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None


STDERR = 2
STACKS_AFTER = 0.75
"""After which part of the time without a sign the stacks are written."""


def silent(stall_s: float) -> str:
    """The cause of an end by a hang."""
    return f"no worker gave a sign of life for {stall_s / 60:g} min (sweep.stall_minutes)"


class Silence:
    """How long no worker has given a sign of life.

    Workers wait for each other, so one that hangs silences all. Time in which nobody looked does
    not count: the sweep itself may have been stopped. Before the first sign of any worker,
    ``STARTING_S`` is allowed.
    """

    def __init__(self, stall_s: float, signs: Sequence[int | None] = ()) -> None:
        self._stall_s = stall_s
        self._allowed_s = max(stall_s, STARTING_S)
        self._signs = signs
        self._silent_s = 0.0
        self._last_look = time.monotonic()

    def heard(self) -> None:
        """A worker has sent an event, so its work has begun."""
        self._allowed_s = self._stall_s

    def stalled(self, signs: Sequence[int | None]) -> bool:
        """Look at the signs of all unfinished workers so far, None for one that never answered."""
        last_signs = self._signs
        self._signs = signs
        last_look = self._last_look
        self._last_look = time.monotonic()
        if last_signs != signs:
            self._silent_s = 0.0
            pairs = zip(last_signs, signs, strict=False)
            if any(last is not None and last != current for last, current in pairs):
                self.heard()
        elif self._last_look - last_look <= self._stall_s / 2:
            self._silent_s += self._last_look - last_look
        return self._silent_s > self._allowed_s


class StackTimer:
    """Until ``close``, this process writes its stacks unless ``look`` is called and finds signs of
    life in time.

    It may hang within C code that holds Python's lock. Python's fault handler has a thread that
    needs no lock.
    """

    def __init__(self, stall_s: float, file: "IO[bytes] | int") -> None:
        self._after_s = STACKS_AFTER * stall_s
        self._file = file
        self._last_count: int | None = None
        self._closed = False
        self._lock = threading.Lock()  # a worker looks in one thread and closes in another

    def look(self) -> None:
        """Start the time again if there were signs of life."""
        with self._lock:
            count = signs_of_life()
            if count != self._last_count and not self._closed:
                self._last_count = count
                faulthandler.dump_traceback_later(self._after_s, file=self._file)

    def close(self) -> None:
        with self._lock:
            self._closed = True  # a poll that waits for the end of the work looks once more
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def ended_if_it_hangs(stall_s: float, log: Path, tell: Callable[[Failed], None]) -> Iterator[None]:
    """Within it, a hang ends this process: the stacks go to ``log``, and ``tell`` gets the failure.

    The main thread may hang within C code, so it cannot end in order.
    """
    over = threading.Event()
    failed = Failed(silent(stall_s), "log.txt has its stacks.")

    def watch() -> None:
        silence = Silence(stall_s, [signs_of_life()])
        with _opened(log) as file, closing(StackTimer(stall_s, file)) as stacks:
            while not over.wait(LOOK_FOR_SIGNS_S):
                if debugs_now():
                    give_sign_of_life()
                stacks.look()
                if silence.stalled([signs_of_life()]) and not over.is_set():
                    _end_after(partial(tell, failed))

    threading.Thread(target=watch, name="signs of life", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _opened(log: Path) -> IO[bytes]:
    """On a full disk, the stacks go to the terminal."""
    try:
        return log.open("ab")
    except OSError:
        return os.fdopen(os.dup(STDERR), "wb")


def _end_after(act: Callable[[], None]) -> None:
    """End this process; the terminal or the folder may be what hangs."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(CLEANING_S)
    os._exit(1)
