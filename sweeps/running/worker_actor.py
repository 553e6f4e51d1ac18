"""One worker of a trial on Ray.

Its process imports this. It needs no Ray Tune, so it starts a second sooner; torch follows with the first trial.
"""

import os
import socket
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ray
from ray.util import get_node_ip_address

from sweeps.events import Event, Failed, Lost
from sweeps.preflight.node_facts import Packages, packages
from sweeps.processes.alive import alive
from sweeps.running.bell import Listener
from sweeps.running.lost import is_lost_gpu, is_lost_peer, is_lost_storage, is_out_of_memory
from sweeps.running.printed import printing
from sweeps.running.same_start import SameStart
from sweeps.running.signs_of_life import Teller
from sweeps.running.stacks import STDERR
from sweeps.task import Assignment, RefusedError


@dataclass(frozen=True)
class Place:
    """Where a worker runs. ``log`` is the file of its standard error there.

    ``packages`` are those of this worker, if they are compared.
    """

    host: str
    node: str
    pid: int
    log: Path
    packages: Packages | None

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


@ray.remote(max_restarts=0)
class WorkerActor:
    """One process of a worker group, for all trials that Tune gives the group."""

    def __init__(self) -> None:
        self.rung: Listener | None = None  # the one listener of this process
        self.teller: Teller | None = None
        self.held: socket.socket | None = None

    def place(self, compared: bool) -> Place:
        """Where this worker runs, and the packages that are ``compared``."""
        node = ray.get_runtime_context().get_node_id()
        log = Path(f"/proc/self/fd/{STDERR}").resolve()
        return Place(socket.gethostname(), node, os.getpid(), log, _packages() if compared else None)

    def address(self) -> str:
        """host:port on this worker's node where the group can meet. The port is held until the next call."""
        from sweeps.processes.meeting_port import held_port

        self.held, address = held_port(get_node_ip_address())
        return address

    def run(
        self,
        assignment: Assignment,
        rank: int,
        world: int,
        address: str,
        bell: Any,
        sign: str,
        stall_s: float,
        same_start: SameStart,
    ) -> Iterator[Event]:
        """The worker's events. Its signs of life are stored as ``sign``, so that a stall of ``stall_s`` shows."""
        from sweeps.running.driver import work

        self.rung, self.teller = self.rung or Listener(bell), self.teller or Teller()
        self.rung.key = assignment.key
        with self.teller.telling(sign, stall_s):
            try:
                for event in printing(rank, work(assignment, rank, world, address, self.rung, same_start)):
                    alive()
                    yield event
            except RefusedError as error:
                yield Failed(str(error.problems[0]), str(error))
            except (Exception, SystemExit) as error:
                yield ended_by(error)


@cache
def _packages() -> Packages:
    """Once per process: it has imported these files."""
    return packages()


def ended_by(error: BaseException) -> Failed | Lost:
    """The event of a worker whose work raised ``error``."""
    cause = f"{type(error).__name__}: {error}".splitlines()[0]
    if is_out_of_memory(error):
        return Lost(f"out of memory: {cause}", traceback.format_exc(), memory=True)
    if isinstance(error, SystemExit):
        return Lost(f"the trial's code ended its process: {cause}", traceback.format_exc())
    if is_lost_peer(error):
        return Lost(cause, traceback.format_exc(), peer=True)
    may_pass = is_lost_storage(error) or is_lost_gpu(error)
    return (Lost if may_pass else Failed)(cause, traceback.format_exc())
