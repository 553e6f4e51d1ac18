"""Machines of a cluster, as namespaces of this one: own network, processes, host name and scratch disk; shared files.

Nothing has to be removed: a machine is gone, with all of its processes, when its first process ends.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from studies import command, wait_until

SCRATCH = "/run/scratch"
"""Ray's files, on each machine's own disk. Unix sockets need a short path."""
PORT = 6379
STARTS = 3
"""How often Ray is started on a machine before that counts as impossible."""
NOTICED_SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
FIRST_PROCESS = """
import signal, socket, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who loses its parent here is reaped
socket.sethostname(sys.argv[1])
print(flush=True)
signal.pause()
"""
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))),
    reason="machines are made of Linux namespaces: this needs root, iproute2 and util-linux",
)


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

    def ablate(self, *words: str, cwd: Path, timeout: float = 600, env: Mapping[str, str] | None = None) -> "Ended":
        """Run one command of ours here to its end."""
        return self.start(*words, cwd=cwd, env=env).end(timeout)

    def start(self, *words: str, cwd: Path, env: Mapping[str, str] | None = None) -> "Inside":
        return self.popen(command(*words), cwd, env)

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Its processes of which the title holds this."""
        return [process for process in psutil.process_iter() if self._has(process) and title in _title(process)]

    def kill(self) -> None:
        """As a power cut: every process at once."""
        self.first.kill()
        wait_until(lambda: not self.first.is_running() or _is_dead(self.first), f"the end of {self.name}", 60)

    def kill_processes(self) -> None:
        """As a restart: its address, disk and name stay."""
        for process in self.processes():
            if process.pid != self.first.pid:
                process.kill()
        wait_until(lambda: len(self.processes()) <= 1, f"the end of all on {self.name}", 60)

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


class Machines:
    """Machines on one network. The first one is the head of their Ray cluster."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.all: list[Machine] = []
        self.env = {**NOTICED_SOON, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.env |= {"RAY_TMPDIR": SCRATCH, "TMPDIR": SCRATCH, "PYTHONPATH": str(Path.cwd()), **(env or {})}
        self.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._switch = _first_process("switch", ["--net", "--uts"])
        self._on_switch("ip", "link", "add", "net0", "type", "bridge")
        self._on_switch("ip", "link", "set", "net0", "up")

    @property
    def head(self) -> Machine:
        return self.all[0]

    @property
    def address(self) -> str:
        """Of the Ray cluster."""
        return f"{self.head.address}:{PORT}"

    def add(self, name: str, cpus: int = 1, host_is_local: bool = False, unshared: Sequence[Path] = ()) -> Machine:
        """A machine without Ray. ``host_is_local``: its host name means 127.0.0.1. It has ``unshared`` for itself."""
        machine = Machine(name, len(self.all) + 1, dict(self.env), cpus, host_is_local, unshared)
        self.all.append(machine)
        self.boot(machine)
        return machine

    def boot(self, machine: Machine) -> None:
        """Start a machine, also one that was killed."""
        machine.first = _first_process(machine.name, ["--net", "--mount", "--uts", "--pid", "--ipc", "--mount-proc"])
        port, pid = self._port(machine), machine.first.pid
        self._unplug(port)
        self._on_switch("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        for words in (f"link set {port} master net0", f"link set {port} up"):
            self._on_switch("ip", *words.split())
        for words in (f"address add {machine.address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            machine.run("ip", *words.split())
        self._disks(machine)

    def start_ray(self, machine: Machine) -> None:
        """As the head, or join it. Ray gives up after 30 s, which a busy machine may need, so it is tried again."""
        for left in reversed(range(STARTS)):
            if self._started(machine):
                return
            assert left, f"Ray did not start on {machine.name} {STARTS} times"
            machine.kill_processes()

    def _started(self, machine: Machine) -> bool:
        ray = [str(Path(sys.executable).with_name("ray")), "start", f"--node-ip-address={machine.address}"]
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        where = head if machine is self.head else [f"--address={self.address}"]
        rest = [f"--num-cpus={machine.cpus}", "--num-gpus=0", "--disable-usage-stats", "--no-monitor"]
        return machine.popen([*ray, *where, *rest]).end(120).code == 0

    def cut(self, machine: Machine) -> None:
        """Its link carries nothing any more, and nobody is told."""
        self._on_switch("ip", "link", "set", self._port(machine), "nomaster")

    def restore(self, machine: Machine) -> None:
        self._on_switch("ip", "link", "set", self._port(machine), "master", "net0")

    def close(self) -> None:
        for first in (*(machine.first for machine in self.all), self._switch):
            with suppress(psutil.NoSuchProcess):
                first.kill()

    def _port(self, machine: Machine) -> str:
        return f"port{machine.number}"

    def _disks(self, machine: Machine) -> None:
        for folder in (Path(SCRATCH), *machine.unshared):
            machine.run("sh", "-c", f"mkdir -p {folder} && mount -t tmpfs none {folder}")
        own = "127.0.0.1" if machine.host_is_local else machine.address
        names = [f"{other.address} {other.name}\n" for other in self.all if other is not machine]
        hosts = f"{SCRATCH}/hosts"
        text = f"127.0.0.1 localhost\n{own} {machine.name}\n{''.join(names)}"
        machine.run("sh", "-c", f"printf '%s' '{text}' > {hosts} && mount --bind {hosts} /etc/hosts")

    def _unplug(self, port: str) -> None:
        """Linux removes the port of a machine that was killed, but only after a while."""
        with suppress(subprocess.CalledProcessError):
            self._on_switch("ip", "link", "delete", port)

    def _on_switch(self, *words: str) -> None:
        enter = ["nsenter", "-t", str(self._switch.pid), "-n", "--"]
        subprocess.run([*enter, *words], check=True, capture_output=True)


@contextmanager
def machines(*names: str, **options: Any) -> Iterator[Machines]:
    """Machines with Ray on each, the first one its head; ``options`` are those of ``add``."""
    made = Machines()
    try:
        for name in names:
            made.add(name, **options)
        for machine in made.all:
            made.start_ray(machine)
        yield made
    finally:
        made.close()


def _first_process(name: str, namespaces: list[str]) -> psutil.Process:
    """A process that keeps new namespaces, until it is killed."""
    words = ["unshare", *namespaces, "--fork", "--kill-child", "--", sys.executable, "-S", "-c", FIRST_PROCESS, name]
    unshare = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    assert unshare.stdout is not None
    assert unshare.stdout.readline(), "no namespaces"
    (first,) = psutil.Process(unshare.pid).children()
    return first


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
