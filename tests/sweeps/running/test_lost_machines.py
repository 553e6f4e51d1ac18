"""Machines and links are lost under a running sweep, and come back: it ends like an undisturbed
one, bit for bit."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faulty_task import reasons
from leftovers import check_nothing_left
from machines import NOTICED_WHEN_BUSY, Ended, Inside, Machine, Machines, machines
from same_bits import differing, state_after
from same_results import check_same_results
from small_text import TEXT, write_text
from studies import SMALL, lines, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS = 600
NAMES = ("node-a", "node-b", "node-c")


@dataclass
class Sweep:
    """The command that trains one small trial of translation on these machines, and its folder."""

    machines: Machines
    folder: Path
    name: str
    workers: int
    steps: int = STEPS

    @property
    def words(self) -> list[str]:
        cluster = [
            f"address={self.machines.address}",
            f"workers={self.workers}",
            "gpus_per_worker=0",
        ]
        words = [
            "sweep",
            *SMALL,
            *TEXT,
            f"sweep.name={self.name}",
            "sweep.rows=[base]",
            f"train.steps={self.steps}",
        ]
        words += [
            "train.checkpoint_every=20",
            "cluster=nodes",
            "cluster.cpus_per_worker=1",
            "sweep.share=false",
        ]
        return [*words, *(f"cluster.{word}" for word in cluster)]

    @property
    def trial(self) -> Path:
        return self.folder / "runs" / self.name / "base-s1"

    def run(self, machine: Machine) -> Ended:
        return machine.allelse(*self.words, cwd=self.folder)

    def start_to(self, step: int, machine: Machine) -> Inside:
        """On this machine, until the journal has this step."""
        running = machine.start(*self.words, cwd=self.folder)
        journal = self.trial / "journal.jsonl"
        wait_until(
            lambda: any(line["step"] >= step for line in lines(journal)) or running.ended(),
            f"step {step}",
        )
        assert not running.ended(), running.end().output
        return running

    def attempts(self) -> int:
        """How many began."""
        return sum("end" not in line for line in lines(self.trial / "attempts.jsonl"))

    def checkpoints(self, attempt: int) -> set[str]:
        return {path.name for path in self.trial.glob(f"checkpoints/*/a{attempt}/step-*")}

    def undisturbed(self) -> Path:
        """The study of the same trial, which nothing disturbs; it is trained once."""
        undisturbed_sweep = Sweep(
            self.machines, self.folder, f"undisturbed-{self.workers}", self.workers
        )
        if not (undisturbed_sweep.trial / "result.json").exists():
            outcome = undisturbed_sweep.run(self.machines.head)
            assert outcome.code == 0, outcome.output
        return undisturbed_sweep.trial.parent

    def check_as_undisturbed(self) -> None:
        """Same scores, same bits and every step once; one run in MLflow, and nothing is left on the
        cluster."""
        assert reasons(self.trial)[-1] == "finished"
        check_same_results(self.trial.parent, self.undisturbed())
        check_nothing_left(self.machines, self.trial.parent)


def workers(machine: Machine) -> list[psutil.Process]:
    """Those on this machine that train."""
    return machine.processes("ray::WorkerActor")


def machine_of_a_worker(cluster: Machines) -> Machine:
    """A machine with a worker, other than the head."""
    hosts: list[Machine] = []

    def looked() -> bool:
        hosts[:] = [machine for machine in cluster.all[1:] if workers(machine)]
        return bool(hosts)

    wait_until(looked, "a worker on another machine than the head", 120)
    return hosts[-1]


def resumed_at(output: str) -> list[int]:
    """From which steps the attempts of its only trial went on."""
    return [int(step) for step in re.findall(r"base-s1: resumed at step (\d+)", output)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("machines").resolve())


@pytest.fixture
def three() -> Iterator[Machines]:
    """Each has one CPU."""
    with machines(*NAMES, env=NOTICED_WHEN_BUSY) as cluster:
        yield cluster


@contextmanager
def idle_head(*names: str) -> Iterator[Machines]:
    """The head has no CPU for a worker, and each of the others has one.

    Their host names mean 127.0.0.1, and the workers of a trial meet all the same.
    """
    with closing(Machines(NOTICED_WHEN_BUSY)) as cluster:
        cluster.add("head", cpus=0)
        for name in names:
            cluster.add(name, host_is_local=True)
        for machine in cluster.all:
            cluster.start_ray(machine)
        yield cluster


def test_a_link_that_is_cut_and_restored_gives_no_step_twice(folder: Path) -> None:
    """The worker that was cut off stands still until its successor has begun. Then it trains on,
    and finds that out."""
    with idle_head(*NAMES) as cluster:
        sweep = Sweep(cluster, folder, "cut", workers=2)
        running = sweep.start_to(60, cluster.head)
        lost_machine = machine_of_a_worker(cluster)
        (cut_off,) = workers(lost_machine)
        cut_off.suspend()
        cluster.cut(lost_machine)
        wait_until(lambda: sweep.attempts() > 1 or running.ended(), "the next attempt", 180)
        assert cut_off.status() == psutil.STATUS_STOPPED
        first_checkpoints = sweep.checkpoints(attempt=1)
        cut_off.resume()
        cluster.restore(lost_machine)
        outcome = running.end()
        assert outcome.code == 0, outcome.output
        *causes, _ = reasons(sweep.trial)
        assert causes
        assert all(cause.startswith("worker lost: ") for cause in causes), causes
        assert resumed_at(outcome.output)[0] < STEPS
        assert sweep.checkpoints(attempt=1) <= first_checkpoints, (
            "who was cut off has saved another one"
        )
        sweep.check_as_undisturbed()
        assert not list(sweep.trial.glob("error.txt"))


@pytest.mark.parametrize(("size", "count"), [(2, 1), (3, 2)])
def test_workers_lie_on_one_node_if_they_fit(folder: Path, size: int, count: int) -> None:
    with machines("node-a", "node-b", cpus=2, env=NOTICED_WHEN_BUSY) as cluster:
        sweep = Sweep(cluster, folder, f"placed-{size}", size, steps=20)
        outcome = sweep.run(cluster.head)
        assert outcome.code == 0, outcome.output
        assert len(json.loads((sweep.trial / "provenance.json").read_text())["hosts"]) == count


def test_a_cluster_that_shrinks_to_nothing_and_grows_again_finishes(folder: Path) -> None:
    with idle_head("node-a") as cluster:
        sweep = Sweep(cluster, folder, "shrunk", workers=1)
        running = sweep.start_to(60, cluster.head)
        cluster.lose(cluster.all[1])
        wait_until(
            lambda: note(sweep).startswith("waiting for 1 CPU, 0 are free") or running.ended(),
            "the wait",
            180,
        )
        cluster.start_ray(cluster.add("node-b"))
        outcome = running.end()
        assert outcome.code == 0, outcome.output
        assert outcome.output.count("Waiting for 1 CPU, 0 are free\n") == 1
        provenance = json.loads((sweep.trial / "provenance.json").read_text())
        assert [provenance[name] for name in ("host", "hosts", "driver")] == [
            "node-b",
            ["node-b"],
            "head",
        ]
        sweep.check_as_undisturbed()


def note(sweep: Sweep) -> str:
    """What `allelse status` says of its trial."""
    status = sweep.machines.head.allelse(
        "status", "--json", f"sweep.name={sweep.name}", cwd=sweep.folder
    )
    assert status.code == 0, status.output
    (trial,) = json.loads(status.output[status.output.index("[") :])
    return str(trial["note"])


def test_a_second_sweep_from_another_machine_is_told_who_holds_the_study(
    three: Machines, folder: Path
) -> None:
    """The first one stands still meanwhile, and so has steps left for Ctrl-C."""
    sweep = Sweep(three, folder, "held", workers=1)
    running = sweep.start_to(20, three.head)
    training = [worker for machine in three.all for worker in workers(machine)]
    for worker in training:
        worker.suspend()
    outcome = sweep.run(three.all[1])
    assert outcome.code == 2, outcome.output
    assert re.search(r"base-s1 is being run by pid \d+ on node-a since ", outcome.output), (
        outcome.output
    )
    assert "Nothing was started." in outcome.output
    running.signal(signal.SIGINT)
    for worker in training:
        worker.resume()
    assert running.end().code == 130
    elsewhere = sweep.run(three.all[1])
    assert elsewhere.code == 0, elsewhere.output
    hosts = [line["host"] for line in lines(sweep.trial / "attempts.jsonl") if "end" not in line]
    assert hosts == ["node-a", "node-b"]
    assert reasons(sweep.trial) == ["interrupted", "finished"]
    undisturbed = sweep.undisturbed() / "base-s1"
    assert differing(state_after(sweep.trial, STEPS), state_after(undisturbed, STEPS)) == []
    check_nothing_left(three, sweep.trial.parent)
