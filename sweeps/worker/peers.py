"""The workers of one trial as torch.distributed joins them; with one worker nothing here needs
torch."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import psutil

from sweeps.processes.times import FORMING_S, PEERS_S

WAITING = timedelta(seconds=PEERS_S)


@contextmanager
def process_group(backend: str, address: str, rank: int, world: int) -> Iterator[None]:
    """Join as worker ``rank`` of ``world`` at ``address`` (host:port of rank zero).

    Raises DistError or RuntimeError if the workers do not meet within ``FORMING_S``.
    """
    if world == 1:
        yield
        return
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _set_pg_timeout

    use_interface_to(address)
    forming = timedelta(seconds=FORMING_S)
    host, port = _host_and_port(address)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, world, is_master=rank == 0, timeout=forming
    )
    dist.init_process_group(backend, store=store, timeout=forming, rank=rank, world_size=world)
    store.set_timeout(WAITING)
    _set_pg_timeout(WAITING)
    try:
        yield
    finally:
        dist.destroy_process_group()


def barrier() -> None:
    distributed = _joined()
    if distributed is not None:
        distributed.barrier()


class StopVote:
    """A vote at every step on stop requests: all workers must leave training after the same step.

    The votes of a step are counted after the next one, so that no step waits for them.
    """

    def __init__(self) -> None:
        self._group: Any = None
        self._cast: tuple[Any, Any] | None = None

    def agreed(self, wants_stop: bool) -> bool:
        """Whether training ends after this step. Without a process group, each worker decides by
        itself."""
        distributed = _joined()
        if distributed is None:
            return wants_stop
        import torch

        if self._group is None:
            self._group = _own_group()
        previous = self._cast
        votes = torch.tensor(float(wants_stop))
        self._cast = votes, distributed.all_reduce(votes, group=self._group, async_op=True)
        if previous is None:
            return False
        previous[1].wait()
        return bool(previous[0])


def _own_group() -> Any:
    """A vote on a GPU would wait for its queue, and one more of a worker would be added to a sum of
    the task's."""
    import torch.distributed

    return torch.distributed.new_group(backend="gloo", timeout=WAITING)


def _joined() -> Any:
    """torch.distributed, if a process group was formed, by the trial's ``process_group`` or by a
    framework."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed is not None and distributed.is_initialized() else None


def held_port(host: str) -> tuple[socket.socket, str]:
    """A socket that keeps other programs from a free port of this machine, and ``host:port``.

    The socket does not listen, and allows reuse, so rank zero's store can listen there while it is
    held.
    """
    port_socket = socket.socket()
    port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port_socket.bind(("", 0))
    return port_socket, f"{host}:{port_socket.getsockname()[1]}"


def use_interface_to(address: str) -> None:
    """Let gloo and NCCL use the interface by which this machine reaches ``address``, unless the
    user chose one.

    Without this gloo uses the address of the host name, which is 127.0.0.1 on many machines.
    """
    if name := _interface_to(address):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        # without "=" every name that begins so
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")


def _interface_to(address: str) -> str | None:
    """The name of that interface; None if it is unknown. Nothing is sent."""
    host, port = _host_and_port(address)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            source = probe.getsockname()[0]
        for name, addresses in psutil.net_if_addrs().items():
            if any(interface.address == source for interface in addresses):
                return name
        return _loopback(source)
    except OSError:  # an IPv6 host, or no route
        return None


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _loopback(address: str) -> str | None:
    """127.0.0.2 and its like belong to the loopback, which has only the address 127.0.0.1."""
    return "lo" if ip_address(address).is_loopback else None
