"""The bell, its listeners and the last lines of a dead process, on a real cluster of two nodes."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from ablate_in_folder import plan
from ray.cluster_utils import Cluster
from studies import SMALL, wait_until

from sweeps.events import Failed
from sweeps.planning.compose import compose_settings
from sweeps.running.bell import is_rung, listener, start_bell
from sweeps.running.deaths import describe
from sweeps.running.recorder import Recorder
from sweeps.running.resources import strategy
from sweeps.running.worker_actor import WorkerActor
from sweeps.running.worker_group import run_trial
from sweeps.task import Assignment

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ROUNDS = 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[str]]:
    """The ids of two nodes; the first is ours."""
    before = signal.getsignal(signal.SIGTERM)  # Ray replaces it
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    here = ray.get_runtime_context().get_node_id()
    yield sorted((node["NodeID"] for node in ray.nodes()), key=lambda name: name != here)
    ray.shutdown()
    cluster.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def worker(nodes: list[str]) -> Any:
    """One worker for all tests: its import of torch takes seconds."""
    return WorkerActor.remote()  # type: ignore[attr-defined]


@pytest.fixture
def refused(tmp_path: Path) -> Assignment:
    """An assignment that ends at once: its text differs from the plan's."""
    (planned,) = plan(tmp_path, *SMALL, "sweep.rows=[base]", f"paths.data={tmp_path}/gone").pending
    return replace(Recorder(planned).assignment(), data_fingerprint="0" * 64)


def node_of(actor: Any) -> str:
    return str(ray.get(actor.__ray_call__.remote(lambda self: ray.get_runtime_context().get_node_id())))


def run(worker: Any, assignment: Assignment, bell: Any) -> list[Any]:
    stream = worker.run.options(num_returns="streaming").remote(assignment, 0, 1, "", bell)
    return [ray.get(item) for item in stream]


def test_the_bell_runs_on_the_node_of_the_sweep(nodes: list[str]) -> None:
    bells = [start_bell() for _ in range(ROUNDS)]
    assert {node_of(bell) for bell in bells} == {nodes[0]}


def test_a_worker_of_many_trials_listens_with_one_thread(worker: Any, refused: Assignment) -> None:
    bell, threads = start_bell(), []
    for _ in range(ROUNDS):
        assert isinstance(run(worker, refused, bell)[-1], Failed)
        threads.append(ray.get(worker.__ray_call__.remote(lambda self: threading.active_count())))
    assert threads == threads[:1] * ROUNDS


def test_a_dead_bell_was_not_rung(worker: Any, refused: Assignment) -> None:
    bell = start_bell()
    ray.kill(bell)
    ray.get(worker.__ray_call__.remote(lambda self: setattr(self, "rung", None)))  # it listens to no bell yet
    assert isinstance(run(worker, refused, bell)[-1], Failed), "of the trial, not of the bell"
    with pytest.raises(KeyError, match="no such trial"):  # it gets past the bell
        run_trial({"trial": "no such trial", "again": None}, {}, compose_settings([]).cluster, bell)


def test_a_bell_whose_process_was_killed_rings_again(nodes: list[str]) -> None:
    bell = start_bell()
    heard = listener(bell)
    os.kill(ray.get(bell.__ray_call__.remote(lambda self: os.getpid())), signal.SIGKILL)

    def rung() -> bool:
        bell.ring.remote()
        return heard()

    wait_until(rung, "a listener that hears the bell again", timeout=60)
    assert node_of(bell) == nodes[0]


def test_a_ring_that_is_known_wakes_nobody(nodes: list[str]) -> None:
    bell = start_bell()
    ray.get(bell.ring.remote("one"))
    waiting = bell.for_whom.remote(1, 600.0)
    ray.get(bell.ring.remote("one"))
    assert ray.wait([waiting], timeout=1)[0] == []
    ray.get(bell.ring.remote())
    assert ray.get(waiting) == ["", "one"]


def test_all_listeners_hear_the_bell(nodes: list[str]) -> None:
    bell = start_bell()
    calls = [bell.for_whom.remote(0, 600.0) for _ in range(3)]
    assert is_rung(bell) is False
    ray.get(bell.ring.remote())
    assert ray.get(calls) == [[""]] * 3
    assert is_rung(bell) is True


def test_the_bell_rings_for_one_trial(nodes: list[str]) -> None:
    bell = start_bell()
    heard = listener(bell)
    heard.key = "other"
    ray.get(bell.ring.remote("one"))
    wait_until(lambda: is_rung(bell, "one"), "the bell")
    assert (is_rung(bell, "other"), is_rung(bell)) == (False, False)
    ray.get(bell.ring.remote("other"))
    wait_until(heard, "the ring for this listener's trial")
    heard.key = "third"
    assert not heard()
    ray.get(bell.ring.remote())
    wait_until(heard, "the ring for all")


def test_a_group_lies_on_one_node_if_it_fits(nodes: list[str]) -> None:
    cluster = compose_settings([]).cluster
    chosen = {workers: strategy(replace(cluster, workers=workers)) for workers in (1, 2, 3)}
    assert chosen == {1: "STRICT_PACK", 2: "STRICT_PACK", 3: "PACK"}, "each node has two CPUs"
    assert strategy(replace(cluster, workers=2, gpus_per_worker=1.0)) == "PACK", "no node takes such a worker"


@pytest.mark.parametrize("ours", [True, False])
def test_the_last_lines_are_read_only_on_the_node_of_the_process(nodes: list[str], ours: bool) -> None:
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    (logs / "worker-cafe-01-4194999.err").write_text("Segmentation fault somewhere\n")
    address = ray.util.get_node_ip_address() if ours else "203.0.113.9"
    text = f"The actor died.\n\tpid: 4194999\n\tip: {address}\nconnection error code 2. End of file."
    lost = describe(RuntimeError(text), "worker 0")
    assert f"worker 0 (pid 4194999 on {address}) was killed" in lost.cause
    assert ("Segmentation fault somewhere" in lost.cause, "Segmentation" in lost.details) == (ours, ours)
