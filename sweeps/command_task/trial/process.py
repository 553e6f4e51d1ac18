"""A command's process as the worker of its trial sees it."""

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sweeps.command_task.trial import guard

GENTLY = b"t"
UNGUARDED = "the guard of the command was killed"


@dataclass(frozen=True)
class Start:
    """What a process starts with. ``mark`` tells the processes of this trial from all others."""

    words: Sequence[str]
    env: Mapping[str, str]
    output: Path
    grace: float
    mark: str


class CommandProcess:
    """A command that runs below a guard. What it prints goes to the end of ``output``.

    ``code`` is the exit code, negative for a signal. ``fault`` says why it never started, or that
    its guard is gone.
    """

    def __init__(self, start: Start) -> None:
        self.code: int | None = None
        self.fault = ""
        self.has_ended = False
        self._mark = start.mark
        self._lines = b""
        self._status, status = os.pipe()
        orders, self._orders = os.pipe()
        try:
            self._guard = _guard(start, orders, status)
        finally:
            os.close(orders)
            os.close(status)

    def __enter__(self) -> "CommandProcess":
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End everything at once, if it still runs: the guard sees that its orders have closed."""
        os.close(self._orders)
        self._guard.wait()
        os.close(self._status)

    def wait(self, seconds: float) -> None:
        """Until it has ended, or for so long. ``has_ended`` then tells."""
        readable, _, _ = select.select([self._status], [], [], seconds)
        if not readable:
            return
        content = os.read(self._status, 4096)
        self._lines += content
        if not content:
            self._take_end()

    def end_gently(self) -> None:
        """Ask for its end: SIGTERM, and SIGKILL after the grace. Returns at once."""
        with suppress(BrokenPipeError):
            os.write(self._orders, GENTLY)

    def _take_end(self) -> None:
        """The guard has closed its side. If it was killed, what it guarded is ended here."""
        self.has_ended = True
        words = dict(line.split() for line in self._lines.decode().splitlines())
        if "ended" in words:
            self.code = int(words["ended"])
        elif "failed" in words:
            self.fault = os.strerror(int(words["failed"]))
        else:
            self.fault = UNGUARDED
            guard.end_marked(self._mark)


def _guard(start: Start, orders: int, status: int) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-I", "-S", guard.__file__, str(orders), str(status)]
    with start.output.open("ab") as output:
        return subprocess.Popen(
            [*words, str(start.grace), *start.words],
            env={**start.env, guard.MARK: start.mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(orders, status),
            start_new_session=True,
        )
