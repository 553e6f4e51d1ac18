"""A sweep of one small translation trial on several machines, and what an undisturbed one ends with."""

from dataclasses import dataclass
from pathlib import Path

import psutil
from faulty_task import reasons
from leftovers import check_nothing_left
from machine import Ended, Inside, Machine
from machines import Machines
from same_results import check_same_results
from small_text import TEXT
from studies import SMALL, lines, wait_until

EVERY = 20


@dataclass
class Sweep:
    """The command, its folder and its only trial."""

    machines: Machines
    folder: Path
    name: str
    steps: int
    workers: int

    @property
    def words(self) -> list[str]:
        cluster = [f"address={self.machines.address}", f"workers={self.workers}", "gpus_per_worker=0"]
        words = ["sweep", *SMALL, *TEXT, f"sweep.name={self.name}", "sweep.rows=[base]", f"train.steps={self.steps}"]
        words += [f"train.checkpoint_every={EVERY}", "cluster=nodes", "cluster.cpus_per_worker=1"]
        return [*words, *(f"cluster.{word}" for word in cluster)]

    @property
    def trial(self) -> Path:
        return self.folder / "runs" / self.name / "base-s1"

    def start(self, machine: Machine) -> Inside:
        return machine.start(*self.words, cwd=self.folder)

    def run(self, machine: Machine) -> Ended:
        return machine.allelse(*self.words, cwd=self.folder)

    def step(self) -> int:
        """Of the newest line of the journal."""
        return max((int(line["step"]) for line in lines(self.trial / "journal.jsonl")), default=0)

    def wait_for_step(self, step: int, running: Inside) -> None:
        wait_until(lambda: self.step() >= step or running.ended(), f"step {step}")
        assert not running.ended(), running.end().output

    def attempts(self) -> int:
        """How many began."""
        return sum("end" not in line for line in lines(self.trial / "attempts.jsonl"))


def workers(machine: Machine) -> list[psutil.Process]:
    """Those on this machine that train."""
    return machine.processes("ray::WorkerActor")


def machine_of_a_worker(machines: Machines) -> Machine:
    """A machine with a worker, other than the head."""
    found: list[Machine] = []

    def looked() -> bool:
        found[:] = [machine for machine in machines.all[1:] if workers(machine)]
        return bool(found)

    wait_until(looked, "a worker on another machine than the head", 120)
    return found[-1]


def check_like(sweep: Sweep, undisturbed: Sweep) -> None:
    """Same scores, same bits and every step once; one run in MLflow, and nothing is left on the cluster."""
    assert reasons(sweep.trial)[-1] == "finished"
    check_same_results(sweep.trial.parent, undisturbed.trial.parent)
    check_nothing_left(sweep.machines, sweep.trial.parent)
