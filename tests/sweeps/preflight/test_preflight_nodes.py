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
from functools import partial
from sweeps import cli
from sweeps.preflight import checks
checks.nodes_of = partial(checks.nodes_of, answer_s=600.0)
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
    with closing(Machines(NOTICED_BY_DEFAULT)) as made:
        made.start_ray(made.add("head"))
        made.start_ray(without_ours(made.add("bare")), python_without_ours(software / "python"))
        made.start_ray(with_others(made.add("other"), software / "other"))
        made.start_ray(read_only(made.add("alone", unshared=[folder]), folder))
        made.add("outside")
        yield made


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
    done = running.end()
    return Ended(done.code, " ".join(done.output.split()))


@pytest.mark.faults
def test_each_fault_of_each_node_is_named_at_once(cluster: Machines, folder: Path) -> None:
    before = contents(folder)
    done = check(cluster, folder, "task=translation", *TEXT, "sweep.rows=[base]")
    assert done.code == 2
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
        assert line in done.output, done.output
    assert "(head)" not in done.output
    assert contents(folder) == before


@pytest.mark.faults
def test_a_task_travels_to_nodes_that_lack_its_file(cluster: Machines, folder: Path) -> None:
    done = check(cluster, folder, "task=small")
    assert done.code == 2
    assert "on 10.77.0.4 (alone): is" in done.output
    assert "task (command line)" not in done.output


@pytest.mark.faults
def test_a_machine_that_has_not_joined_the_cluster_is_told_how(
    cluster: Machines, folder: Path
) -> None:
    before = contents(folder)
    words = plan(cluster, "task=translation", *TEXT, "sweep.rows=[base]")
    done = on_one_line(cluster.all[-1].start(*words, cwd=folder))
    assert done.code == 2, done.output
    assert (
        f"cluster.address (command line) is {cluster.address}, "
        "but this machine is not one of its nodes "
        f"type `ray start --address={cluster.address}` here first"
    ) in done.output
    assert "Nothing was started." in done.output
    assert contents(folder) == before


@pytest.mark.faults
def test_a_folder_that_a_node_does_not_share_is_named_and_a_node_that_hangs_is_refused(
    tmp_path: Path,
) -> None:
    shared = tmp_path.resolve() / "shared"
    own = tmp_path.resolve() / "own"
    own.mkdir()
    write_task(
        shared, {"from dataclasses import dataclass": f"from dataclasses import dataclass{HANGS}"}
    )
    with machines("head", "node", env=NOTICED_BY_DEFAULT, unshared=[own]) as made:
        done = check(made, own, "sweep.rows=[base]")
        assert done.code == 2, done.output
        assert f"on 10.77.0.2 (node): {own}/runs is not shared must be a folder" in done.output
        done = on_one_line(made.head.start(*plan(made, "task=small"), cwd=shared))
        assert done.code == 2, done.output
        assert (
            "cluster.address (command line) on 10.77.0.2 (node): no answer within 60 s"
            in done.output
        )
        assert "(head)" not in done.output
