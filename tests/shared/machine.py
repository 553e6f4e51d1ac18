"""One machine made of Linux namespaces: programs on it, and its processes."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from studies import command, wait_until


@dataclass
class Machine:
    """One of them. ``first`` is its process 1: with it, all the others end."""

    name: str
    number: int
    env: dict[str, str]
    cpus: int
    host_is_local: bool
    unshared: Sequence[Path]
    first: psutil.Process = field(init=False)

    @property
    def address(self) -> str:
        return f"10.77.0.{self.number}"

    def popen(self, words: Sequence[str], cwd: Path | str = "/", env: Mapping[str, str] | None = None) -> "Inside":
        """Start a program here, its output captured."""
        enter = ["nsenter", "-t", str(self.first.pid), "-n", "-m", "-u", "-p", "-i", f"--wd={cwd}", "--", *words]
        process = subprocess.Popen(
            enter,
            env={**os.environ, **self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return Inside(process)

    def run(self, *words: str, cwd: Path | str = "/", timeout: float = 120) -> str:
        """Run a program here to its end; returns what it printed."""
        output, _ = (inside := self.popen(words, cwd)).process.communicate(timeout=timeout)
        assert inside.process.returncode == 0, output
        return output

    def allelse(self, *words: str, cwd: Path, timeout: float = 600, env: Mapping[str, str] | None = None) -> "Ended":
        """Run one command of ours here to its end."""
        return self.start(*words, cwd=cwd, env=env).end(timeout)

    def start(self, *words: str, cwd: Path, env: Mapping[str, str] | None = None) -> "Inside":
        return self.popen(command(*words), cwd, env)

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Its processes of which the title holds this."""
        return [process for process in psutil.process_iter() if self._has(process) and title in _title(process)]

    def kill(self) -> None:
        """Every process at once. The system still closes their connections: see ``Machines.lose``."""
        with suppress(psutil.NoSuchProcess):
            self.first.kill()
        wait_for_end(self.first, self.name)

    def kill_processes(self) -> None:
        """As a restart: its address, disk and name stay."""
        wait_until(lambda: not self._kill_others(), f"the end of all on {self.name}", 60)

    def _kill_others(self) -> bool:
        """Kill all but the first one; returns whether there were any. One may end, or begin, meanwhile."""
        others = [process for process in self.processes() if process.pid != self.first.pid]
        for process in others:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(others)

    def _has(self, process: psutil.Process) -> bool:
        try:
            here = Path(f"/proc/{self.first.pid}/ns/pid").readlink()
            return Path(f"/proc/{process.pid}/ns/pid").readlink() == here
        except OSError:
            return False


@dataclass
class Ended:
    code: int
    output: str


@dataclass
class Inside:
    """A program that was started on a machine."""

    process: subprocess.Popen[str]

    @property
    def program(self) -> psutil.Process:
        """The program itself: ``process`` only entered the machine."""
        (program,) = psutil.Process(self.process.pid).children()
        return program

    def ended(self) -> bool:
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self.program.send_signal(number)

    def end(self, timeout: float = 600) -> Ended:
        """Wait for its end."""
        output, _ = self.process.communicate(timeout=timeout)
        return Ended(self.process.returncode, output)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def wait_for_end(first: psutil.Process, name: str) -> None:
    """Of a first process, which ends after all others of its machine."""
    wait_until(lambda: _is_dead(first), f"the end of {name}", 60)


def _is_dead(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
