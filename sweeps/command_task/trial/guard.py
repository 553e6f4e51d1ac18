"""Starts a command and ends it with everything that it has started: ``python -IS guard.py``.

The worker of the trial holds the other end of ``orders``. A byte there asks for a gentle end:
SIGTERM to the command's group, and SIGKILL after the grace. When the worker dies, the pipe closes,
and everything ends at once. ``status`` takes lines: ``started PID``, ``failed ERRNO`` and ``ended
CODE``. The guard is the reaper of orphans below it, so it sees processes that left the group. It
imports the standard library alone, and little of it, since each trial waits for it.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

MARK = "ALLELSE_COMMAND"
"""An environment variable that a command's processes inherit. Its value is the trial's."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LEFTOVERS_S = 2.0
"""From SIGTERM to SIGKILL for processes that are left when their command has ended."""
PERSISTENT_S = 10.0
"""For processes that not even SIGKILL ends at once: the system still waits for their disk."""
LOOK_S = 0.02


def main() -> None:
    orders, status, grace, *words = sys.argv[1:]
    _control(PR_SET_CHILD_SUBREAPER, 1)
    guard = Guard(int(orders), int(status), float(grace))
    guard.start(words)
    guard.watch()


class Guard:
    """The parent of a command. File descriptors are closed in the command."""

    def __init__(self, orders: int, status: int, grace: float) -> None:
        self.orders = orders
        self.status = status
        self.grace = grace
        self.pid = 0
        self.code: int | None = None  # of the command, negative for a signal; None while it runs
        self.has_ended = False  # whether it has ended, and what it left was asked to end
        self.deadline: float | None = None  # then SIGKILL ends everything
        self.wakes, wake = os.pipe()
        for descriptor in (orders, status, self.wakes, wake):
            os.set_inheritable(descriptor, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)

    def start(self, words: list[str]) -> None:
        """Start the command in a group of its own. If it can't be started, say so and exit."""
        reads, writes = os.pipe()
        guard = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _become(words, guard, writes)
        os.close(writes)
        error = os.read(reads, 16).decode()
        os.close(reads)
        if error:
            self._say(f"failed {error}")
            sys.exit()
        self._say(f"started {self.pid}")

    def watch(self) -> None:
        """Wait for the end of the command and of everything that it has started."""
        poll = select.poll()
        poll.register(self.orders, select.POLLIN | select.POLLHUP)
        poll.register(self.wakes, select.POLLIN)
        while self._reap() or self.code is None:
            if self.code is not None:
                self._end_leftovers()
            ready = [descriptor for descriptor, _ in poll.poll(self._patience())]
            wanted = self.wakes in ready and self._was_terminated()
            abandoned = False
            if self.orders in ready:
                abandoned = not os.read(self.orders, 1)
                wanted = not abandoned
            if wanted:
                self._end_by(self.grace)
                _signal(-self.pid, signal.SIGTERM)
            if (abandoned or self._is_late()) and not end_all(os.getpid()):
                break
        self._say(f"ended {-signal.SIGKILL if self.code is None else self.code}")

    def _reap(self) -> bool:
        """Take what has ended. Returns whether anything is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.code = os.waitstatus_to_exitcode(status)

    def _was_terminated(self) -> bool:
        return any(number != signal.SIGCHLD for number in os.read(self.wakes, 512))

    def _end_leftovers(self) -> None:
        """Ask what is left, once, to end."""
        if not self.has_ended:
            self.has_ended = True
            self._end_by(LEFTOVERS_S)
            for pid in descendants(os.getpid()):
                _signal(pid, signal.SIGTERM)

    def _end_by(self, seconds: float) -> None:
        """Everything ends by then, or sooner if that was asked before."""
        deadline = time.monotonic() + seconds
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    def _patience(self) -> float | None:
        """Milliseconds until the deadline."""
        if self.deadline is None:
            return None
        return max(0.0, 1000 * (self.deadline - time.monotonic()))

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # the worker is gone
            os.write(self.status, f"{line}\n".encode())


def _become(words: list[str], guard: int, errors: int) -> None:
    """Become the command. It dies with its guard, even if that is killed."""
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _control(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(errors, str(error.errno).encode())
    os._exit(127)


def _control(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(target: int, number: int) -> None:
    """To a process, or to a group if it is negative."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(target, number)


def end_all(ancestor: int) -> bool:
    """Kill all processes below this one, also those that start meanwhile. Returns whether all have
    ended."""
    return _killed(lambda: descendants(ancestor))


def _killed(targets: Callable[[], list[int]]) -> bool:
    """Kill these processes until there are none. Returns whether all have ended."""
    deadline = time.monotonic() + PERSISTENT_S
    while time.monotonic() < deadline:
        pids = targets()
        if not pids:
            return True
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        time.sleep(LOOK_S)
    return False


def descendants(ancestor: int) -> list[int]:
    """The processes below this one that still run."""
    parents = {pid: parent for pid, parent, state in _processes() if state not in "ZX"}
    below = [pid for pid, parent in parents.items() if parent == ancestor]
    for pid in below:  # grows while it is read
        below += [child for child, parent in parents.items() if parent == pid]
    return below


def _processes() -> Iterator[tuple[int, int, str]]:
    """Process, parent and state of each process of this machine."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes as long to import as the rest
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:  # it has ended
                continue
            yield int(name), int(parent), state


def end_marked(mark: str) -> None:
    """Kill what is left of a command whose guard was killed, too: a trial's worker calls it."""
    _killed(lambda: [pid for pid in _marked(mark) if pid != os.getpid()])


def _marked(mark: str) -> Iterator[int]:
    entry = f"{MARK}={mark}".encode()
    for pid, _, state in _processes():
        if state in "ZX":
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                entries = file.read().split(b"\0")
        except OSError:  # another user's, or it has ended
            continue
        if entry in entries:
            yield pid


if __name__ == "__main__":
    main()
