"""Machines of a cluster, as namespaces of this one: own network, processes, host name and scratch
disk; shared files.

Nothing has to be removed: a machine is gone, with all of its processes, when its first process
ends. That one ends with the process that made the machine, however that ends. Needs root and Linux.
"""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from studies import command, wait_until

SCRATCH = "/run/scratch"
"""Ray's files, on each machine's own disk. Unix sockets need a short path."""
PORT = 6379
STARTS = 3
"""How often Ray is started on a machine before that counts as impossible."""
FIRST_PROCESS = """
import signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who loses its parent here is reaped
socket.sethostname(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""
ISOLATED = ["--net", "--mount", "--uts", "--pid", "--ipc"]


def _health_checks(delay_ms: int, period_ms: int, timeout_ms: int, failures: int) -> dict[str, str]:
    """When Ray counts a node as lost."""
    limits = {"initial_delay_ms": delay_ms, "period_ms": period_ms, "timeout_ms": timeout_ms}
    return {
        f"RAY_health_check_{name}": str(limit)
        for name, limit in (limits | {"failure_threshold": failures}).items()
    }


NOTICED_SOON = _health_checks(1000, 1000, 1000, 3)
NOTICED_WHEN_BUSY = _health_checks(2000, 2000, 2000, 5)
"""A node that this machine leaves without a CPU for some seconds is not lost."""
NOTICED_BY_DEFAULT = _health_checks(5000, 3000, 10000, 5)
"""Ray's own limits."""


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

    def popen(
        self, words: Sequence[str], cwd: Path | str = "/", env: Mapping[str, str] | None = None
    ) -> "Inside":
        """Start a program here, its output captured."""
        enter = [
            "nsenter",
            "-t",
            str(self.first.pid),
            "-n",
            "-m",
            "-u",
            "-p",
            "-i",
            f"--wd={cwd}",
            "--",
            *words,
        ]
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

    def allelse(
        self, *words: str, cwd: Path, timeout: float = 600, env: Mapping[str, str] | None = None
    ) -> "Ended":
        """Run one command of ours here to its end."""
        return self.start(*words, cwd=cwd, env=env).end(timeout)

    def start(self, *words: str, cwd: Path, env: Mapping[str, str] | None = None) -> "Inside":
        return self.popen(command(*words), cwd, env)

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Its processes of which the title holds this."""
        return [
            process
            for process in psutil.process_iter()
            if self._has(process) and title in _title(process)
        ]

    def kill(self) -> None:
        """Every process at once. The system still closes their connections: see
        ``Machines.lose``."""
        with suppress(psutil.NoSuchProcess):
            self.first.kill()
        wait_for_end(self.first, self.name)

    def kill_processes(self) -> None:
        """As a restart: its address, disk and name stay."""
        wait_until(lambda: not self._kill_others(), f"the end of all on {self.name}", 60)

    def _kill_others(self) -> bool:
        """Kill all but the first one; returns whether there were any. One may end, or begin,
        meanwhile."""
        other_processes = [process for process in self.processes() if process.pid != self.first.pid]
        for process in other_processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(other_processes)

    def _has(self, process: psutil.Process) -> bool:
        try:
            namespace = Path(f"/proc/{self.first.pid}/ns/pid").readlink()
            return Path(f"/proc/{process.pid}/ns/pid").readlink() == namespace
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


class Machines:
    """Machines on one network. The first one is the head of their Ray cluster."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.all: list[Machine] = []
        self.env = {
            **NOTICED_SOON,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        # Ray gives its workers only what others leave of the CPUs
        self.env |= {"RAY_worker_niceness": "0"}
        self.env |= {
            "RAY_TMPDIR": SCRATCH,
            "TMPDIR": SCRATCH,
            "PYTHONPATH": str(Path.cwd()),
            **(env or {}),
        }
        self.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._input, self._end_of_input = os.pipe()
        try:
            self._switch = _first_process("switch", ["--net", "--uts"], self._input)
            self._on_switch("ip", "link", "add", "net0", "type", "bridge")
            self._on_switch("ip", "link", "set", "net0", "up")
        except BaseException:
            self.close()
            raise

    @property
    def head(self) -> Machine:
        return self.all[0]

    @property
    def address(self) -> str:
        """Of the Ray cluster."""
        return f"{self.head.address}:{PORT}"

    def add(
        self, name: str, cpus: int = 1, host_is_local: bool = False, unshared: Sequence[Path] = ()
    ) -> Machine:
        """A machine without Ray. ``host_is_local``: its host name means 127.0.0.1. It has
        ``unshared`` for itself."""
        machine = Machine(name, len(self.all) + 1, dict(self.env), cpus, host_is_local, unshared)
        self.boot(machine)
        self.all.append(machine)
        return machine

    def boot(self, machine: Machine) -> None:
        """Start a machine, also one that was killed."""
        machine.first = _first_process(machine.name, [*ISOLATED, "--mount-proc"], self._input)
        port = self._port(machine)
        pid = machine.first.pid
        self._unplug(port)
        self._on_switch(
            "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid)
        )
        for words in (f"link set {port} master net0", f"link set {port} up"):
            self._on_switch("ip", *words.split())
        for words in (
            f"address add {machine.address}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
        ):
            machine.run("ip", *words.split())
        self._disks(machine)

    def start_ray(self, machine: Machine, python: str = sys.executable) -> None:
        """As the head, or join it, by this Python, by which its workers run, too.

        Ray gives up after 30 s, which a busy machine may need, so it is tried again.
        """
        for starts_left in reversed(range(STARTS)):
            try:
                ended = machine.popen(self._start(machine, python)).end(120)
            except subprocess.TimeoutExpired as error:
                ended = Ended(-1, str(error))
            if ended.code == 0:
                return
            assert starts_left, (
                f"Ray did not start on {machine.name} {STARTS} times: {ended.output}"
            )
            machine.kill_processes()

    def _start(self, machine: Machine, python: str) -> list[str]:
        ray = [python, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={machine.address}"]
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        where = head if machine is self.head else [f"--address={self.address}"]
        arguments = [
            f"--num-cpus={machine.cpus}",
            "--num-gpus=0",
            "--disable-usage-stats",
            "--no-monitor",
        ]
        return [*ray, *where, *arguments]

    def lose(self, machine: Machine) -> None:
        """As a power cut: all of its processes end, and nobody is told."""
        self.cut(machine)
        machine.kill()

    def cut(self, machine: Machine) -> None:
        """Its link carries nothing any more, and nobody is told."""
        self._on_switch("ip", "link", "set", self._port(machine), "nomaster")

    def restore(self, machine: Machine) -> None:
        self._on_switch("ip", "link", "set", self._port(machine), "master", "net0")

    def close(self) -> None:
        """End all machines, also one that failed to boot."""
        os.close(self._end_of_input)
        os.close(self._input)
        for machine in self.all:
            wait_for_end(machine.first, machine.name)

    def _port(self, machine: Machine) -> str:
        return f"port{machine.number}"

    def _disks(self, machine: Machine) -> None:
        for folder in (Path(SCRATCH), *machine.unshared):
            machine.run("sh", "-c", f"mkdir -p {folder} && mount -t tmpfs none {folder}")
        host_address = "127.0.0.1" if machine.host_is_local else machine.address
        names = [f"{peer.address} {peer.name}\n" for peer in self.all if peer is not machine]
        hosts = f"{SCRATCH}/hosts"
        text = f"127.0.0.1 localhost\n{host_address} {machine.name}\n{''.join(names)}"
        machine.run(
            "sh", "-c", f"printf '%s' '{text}' > {hosts} && mount --bind {hosts} /etc/hosts"
        )

    def _unplug(self, port: str) -> None:
        """Linux removes the port of a machine that was killed, but only after a while."""
        with suppress(subprocess.CalledProcessError):
            self._on_switch("ip", "link", "delete", port)

    def _on_switch(self, *words: str) -> None:
        enter = ["nsenter", "-t", str(self._switch.pid), "-n", "--"]
        subprocess.run([*enter, *words], check=True, capture_output=True)


@contextmanager
def machines(
    *names: str, env: Mapping[str, str] | None = None, **options: Any
) -> Iterator[Machines]:
    """Machines with Ray on each, the first one its head; ``options`` are those of ``add``."""
    with closing(Machines(env)) as cluster:
        for name in names:
            cluster.add(name, **options)
        for machine in cluster.all:
            cluster.start_ray(machine)
        yield cluster


def _first_process(name: str, namespaces: list[str], stdin: int) -> psutil.Process:
    """A process that keeps new namespaces until its input ends, or until it is killed."""
    words = [
        "unshare",
        *namespaces,
        "--fork",
        "--kill-child",
        "--",
        sys.executable,
        "-S",
        "-c",
        FIRST_PROCESS,
        name,
    ]
    pipe = subprocess.PIPE
    unshare = subprocess.Popen(words, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True)
    assert unshare.stdout
    assert unshare.stderr
    assert unshare.stdout.readline(), unshare.stderr.read().decode()
    (first,) = psutil.Process(unshare.pid).children()
    return first
