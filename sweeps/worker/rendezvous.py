"""How the workers of a trial form their process group."""

from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout

from sweeps.processes.times import FORMING_S, PEERS_S
from sweeps.worker.meeting_port import host_and_port, use_interface_to

FORMING, WAITING = timedelta(seconds=FORMING_S), timedelta(seconds=PEERS_S)


def form_group(backend: str, address: str, rank: int, world: int) -> None:
    """Join the process group that meets at ``address`` (host:port of rank zero).

    Raises DistError or RuntimeError if the workers do not meet within ``FORMING_S``.
    """
    use_interface_to(address)
    host, port = host_and_port(address)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, world, is_master=rank == 0, timeout=FORMING
    )
    dist.init_process_group(backend, store=store, timeout=FORMING, rank=rank, world_size=world)
    store.set_timeout(WAITING)
    _set_pg_timeout(WAITING)
