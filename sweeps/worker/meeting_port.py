"""Where the workers of a trial meet: one port that is held until they do, one network interface. Needs no torch."""

import os
import socket
from ipaddress import ip_address

import psutil


def held_port(host: str) -> tuple[socket.socket, str]:
    """A socket that keeps other programs from a free port of this machine, and ``host:port``.

    The socket does not listen, and allows reuse, so rank zero's store can listen there while it is held.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    return held, f"{host}:{held.getsockname()[1]}"


def use_interface_to(address: str) -> None:
    """Let gloo and NCCL use the interface by which this machine reaches ``address``, unless the user chose one.

    Without this gloo uses the address of the host name, which is 127.0.0.1 on many machines.
    """
    if name := interface_to(address):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")  # without "=" every name that begins so


def interface_to(address: str) -> str | None:
    """The name of that interface; None if it is unknown. Nothing is sent."""
    host, port = host_and_port(address)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            own = probe.getsockname()[0]
        found = (name for name, of in psutil.net_if_addrs().items() if own in {each.address for each in of})
        return next(found, _loopback(own))
    except OSError:  # an IPv6 host, or no route
        return None


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _loopback(own: str) -> str | None:
    """127.0.0.2 and its like belong to the loopback, which has only the address 127.0.0.1."""
    return "lo" if ip_address(own).is_loopback else None
