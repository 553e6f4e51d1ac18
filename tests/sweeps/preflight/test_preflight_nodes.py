"""Every node of a cluster is looked at before anything starts: its packages, torch, task, data and
folders."""

import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from allelse_in_folder import contents
from machines import NOTICED_BY_DEFAULT, Ended, Inside, Machine, Machines, machines
from other_packages import python_without_ours, with_others, without_ours
from small_task import write_task
from small_text import TEXT, write_text

PATIENT = """
from sweeps import cli
from sweeps.preflight import nodes
nodes.NODE_ANSWER_S = 600.0
cli.main()
"""
"""The command, with ten minutes for the answers of nodes that import torch on a busy machine."""
HANGS = """
import socket, time
if socket.gethostname() == "node":
    time.sleep(1000)
"""
OURS = version("allelse")
pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task and some text."""
    return write_text(write_task(tmp_path_factory.mktemp("work").resolve()))


@pytest.fixture(scope="module")
def cluster(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """A head, and three nodes with faults: ``bare`` has no allelse, ``other`` another one and
    another torch, ``alone`` has another folder, in which nothing can be written. ``outside`` has
    not joined them.
    """
    software = tmp_path_factory.mktemp("software")
    with closing(Machines(NOTICED_BY_DEFAULT)) as nodes:
        nodes.start_ray(nodes.add("head"))
        nodes.start_ray(without_ours(nodes.add("bare")), python_without_ours(software / "python"))
        nodes.start_ray(with_others(nodes.add("other"), software / "other"))
        nodes.start_ray(read_only(nodes.add("alone", unshared=[folder]), folder))
        nodes.add("outside")
        yield nodes


def read_only(machine: Machine, folder: Path) -> Machine:
    machine.run("mount", "-o", "remount,ro", str(folder))
    return machine


def check(cluster: Machines, folder: Path, *words: str) -> Ended:
    """`allelse plan --check` on the head, which waits for every node; its output on one line."""
    return on_one_line(
        cluster.head.popen(
            [sys.executable, "-P", "-c", PATIENT, *plan(cluster, *words)], cwd=folder
        )
    )


def plan(cluster: Machines, *words: str) -> list[str]:
    return ["plan", "--check", f"cluster.address={cluster.address}", *words]


def on_one_line(running: Inside) -> Ended:
    outcome = running.end()
    return Ended(outcome.code, " ".join(outcome.output.split()))


@pytest.mark.faults
def test_each_fault_of_each_node_is_named_at_once(cluster: Machines, folder: Path) -> None:
    files_before = contents(folder)
    outcome = check(cluster, folder, "task=translation", *TEXT, "sweep.rows=[base]")
    assert outcome.code == 2
    for line in (
        (
            "cluster.address (command line) on 10.77.0.2 (bare): "
            "allelse is not installed install allelse"
        ),
        (
            f"on 10.77.0.3 (other): allelse {OURS} in {cluster.all[2].env['PYTHONPATH']}/sweeps "
            f"differs from {OURS}"
        ),
        "on 10.77.0.3 (other): torch is 1.0 must be",
        (
            f"on 10.77.0.4 (alone): is {folder}/runs, but no file can be written in {folder}: "
            "Read-only file system"
        ),
        f"data.train (command line) on 10.77.0.4 (alone): {folder}/train.txt does not exist",
        f"on 10.77.0.4 (alone): {folder}/runs is not shared",
        "Refused, for 8 reasons",
        "Nothing was started.",
    ):
        assert line in outcome.output, outcome.output
    assert "(head)" not in outcome.output
    assert contents(folder) == files_before


@pytest.mark.faults
def test_a_task_travels_to_nodes_that_lack_its_file(cluster: Machines, folder: Path) -> None:
    outcome = check(cluster, folder, "task=small")
    assert outcome.code == 2
    assert "on 10.77.0.4 (alone): is" in outcome.output
    assert "task (command line)" not in outcome.output


@pytest.mark.faults
def test_a_machine_that_has_not_joined_the_cluster_is_told_how(
    cluster: Machines, folder: Path
) -> None:
    files_before = contents(folder)
    words = plan(cluster, "task=translation", *TEXT, "sweep.rows=[base]")
    outcome = on_one_line(cluster.all[-1].start(*words, cwd=folder))
    assert outcome.code == 2, outcome.output
    assert (
        f"cluster.address (command line) is {cluster.address}, "
        "but this machine is not one of its nodes "
        f"type `ray start --address={cluster.address}` here first"
    ) in outcome.output
    assert "Nothing was started." in outcome.output
    assert contents(folder) == files_before


@pytest.mark.faults
def test_a_folder_that_a_node_does_not_share_is_named_and_a_node_that_hangs_is_refused(
    tmp_path: Path,
) -> None:
    shared = tmp_path.resolve() / "shared"
    unshared = tmp_path.resolve() / "own"
    unshared.mkdir()
    write_task(
        shared, {"from dataclasses import dataclass": f"from dataclasses import dataclass{HANGS}"}
    )
    with machines("head", "node", env=NOTICED_BY_DEFAULT, unshared=[unshared]) as nodes:
        outcome = check(nodes, unshared, "sweep.rows=[base]")
        assert outcome.code == 2, outcome.output
        assert (
            f"on 10.77.0.2 (node): {unshared}/runs is not shared must be a folder" in outcome.output
        )
        outcome = on_one_line(nodes.head.start(*plan(nodes, "task=small"), cwd=shared))
        assert outcome.code == 2, outcome.output
        assert (
            "cluster.address (command line) on 10.77.0.2 (node): no answer within 60 s"
            in outcome.output
        )
        assert "(head)" not in outcome.output
