"""What a run shows of itself in a terminal is what `allelse status --watch` shows of it in another
one."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faulty_task import train_to, write_paced_task
from studies import STARTED, command, wait_until

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Screen:
    """All that a command has drawn in its terminal."""

    def __init__(self, terminal: int) -> None:
        self.terminal = terminal
        self.drawn = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self.terminal, 1 << 16):
                self.drawn += chunk
        except OSError:  # the command has ended
            return

    def lines(self) -> list[list[str]]:
        """The words of each line."""
        return [
            line.split()
            for line in ESCAPES.sub("", self.drawn.decode(errors="replace")).splitlines()
        ]

    def heads(self) -> list[list[str]]:
        """The names of the columns in each table that it has drawn."""
        return [line for line in self.lines() if line[:4] == ["row", "seed", "state", "step"]]

    def shows_step_6(self) -> bool:
        """In base's line, with the loss: noise that the seed and the step decide."""
        return any(
            line[:4] == ["base", "1", "running", "6/50"] and "0.156" in line
            for line in self.lines()
        )


@contextmanager
def in_terminal(folder: Path, *words: str) -> Iterator[tuple[Screen, subprocess.Popen[str]]]:
    screen_end, process_end = pty.openpty()
    fcntl.ioctl(process_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command(*words),
        cwd=folder,
        env=plain | {"TERM": "xterm"},
        stdin=process_end,
        stdout=process_end,
        stderr=process_end,
        start_new_session=True,
        text=True,
    )
    STARTED.append(process)
    os.close(process_end)
    try:
        yield Screen(screen_end), process
    finally:
        process.terminate()
        process.wait(600)


def test_a_run_shows_what_watching_it_shows(tmp_path: Path) -> None:
    write_paced_task(tmp_path)
    train_to(6, tmp_path)
    study = "sweep.name=s"
    with in_terminal(
        tmp_path, "train", "task=small", "row=base", "train.steps=50", "tracking=off", study
    ) as (
        view,
        run,
    ):
        wait_until(lambda: view.shows_step_6() or run.poll() is not None, "step 6")
        with in_terminal(tmp_path, "status", "--watch", study) as (watching, _):
            wait_until(lambda: watching.shows_step_6(), "the same view")
        head = view.heads()[-1]  # of this step: scores bring columns of their own
        train_to(50, tmp_path)
        wait_until(lambda: run.poll() is not None, "the end")
    assert head in watching.heads()
    assert any("Ctrl-C is safe" in " ".join(line) for line in view.lines())
    assert run.returncode == 0
