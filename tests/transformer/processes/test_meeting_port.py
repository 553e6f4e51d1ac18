"""The port and the interface by which workers meet."""

import os
import socket
from datetime import timedelta
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist

from transformer.processes import rendezvous
from transformer.processes.meeting_port import held_port, host_and_port, interface_to, use_interface_to
from transformer.processes.rendezvous import form_group

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No interface is chosen; what a test chooses is undone."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_held_port_is_kept_from_other_programs(unset: None) -> None:
    held, address = held_port("127.0.0.1")
    with held, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(host_and_port(address))


def test_rank_zero_listens_on_the_held_port(unset: None) -> None:
    held, address = held_port("127.0.0.1")
    with held:
        form_group("gloo", address, 0, 1)
        total = torch.ones(3)
        dist.all_reduce(total)
        dist.destroy_process_group()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    assert os.environ["NCCL_SOCKET_IFNAME"] == "=lo"


def test_a_missing_worker_is_not_waited_for_long(unset: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timedelta(minutes=2) >= rendezvous.FORMING
    monkeypatch.setattr(rendezvous, "FORMING", timedelta(seconds=1))
    held, address = held_port("127.0.0.1")
    with held, pytest.raises(dist.DistError):
        form_group("gloo", address, 0, 2)


def test_the_interface_of_each_address_of_this_machine_is_found() -> None:
    """Of the first address of each; a machine without a network has only the loopback."""
    own = {name: _first_address(addresses) for name, addresses in psutil.net_if_addrs().items()}
    found = {name: interface_to(f"{address}:29500") for name, address in own.items() if address}
    assert found == {name: name for name in found}
    assert found["lo"] == interface_to("127.0.0.5:29500") == "lo"


def _first_address(addresses: list[Any]) -> str | None:
    return next((each.address for each in addresses if each.family == socket.AF_INET), None)


def test_an_interface_that_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "mine0")
    use_interface_to("127.0.0.1:1")
    assert [os.environ[name] for name in VARIABLES] == ["mine0", "mine0"]


def test_an_address_without_a_known_interface_changes_nothing(unset: None) -> None:
    use_interface_to("[::1]:29500")
    assert not [name for name in VARIABLES if name in os.environ]
