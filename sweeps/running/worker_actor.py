"""One worker of a trial on Ray.

Its process imports this. It needs no Ray Tune, so it starts a second sooner; torch follows with the first trial.
"""

import socket
import traceback
from collections.abc import Iterator
from typing import Any

import ray
from ray.util import get_node_ip_address

from sweeps.events import Event, Failed, Lost
from sweeps.running.bell import Listener, listener
from sweeps.running.lost import is_lost_peer
from sweeps.running.printed import printing
from sweeps.task import Assignment, RefusedError


@ray.remote(max_restarts=0)
class WorkerActor:
    """One process of a worker group, for all trials that Tune gives the group."""

    def __init__(self) -> None:
        self.rung: Listener | None = None  # the one listener of this process

    def address(self) -> str:
        """host:port on this worker's node where the group can meet."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{get_node_ip_address()}:{probe.getsockname()[1]}"

    def run(self, assignment: Assignment, rank: int, world: int, address: str, bell: Any) -> Iterator[Event]:
        from sweeps.running.driver import work

        self.rung = self.rung or listener(bell)
        self.rung.key = assignment.key
        try:
            yield from printing(rank, work(assignment, rank, world, address, self.rung))
        except RefusedError as error:
            yield Failed(str(error.problems[0]), str(error))
        except Exception as error:
            kind = Lost if is_lost_peer(error) else Failed
            yield kind(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())
