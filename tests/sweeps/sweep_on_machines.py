"""A sweep of one small translation trial on several machines, and what an undisturbed one ends with."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from faulty_task import reasons
from machines import Ended, Inside, Machine, Machines
from small_text import TEXT
from studies import SMALL, lines, mlflow_runs, wait_until

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
        return machine.ablate(*self.words, cwd=self.folder)

    def step(self) -> int:
        """Of the newest line of the journal."""
        return max((int(line["step"]) for line in lines(self.trial / "journal.jsonl")), default=0)

    def wait_for_step(self, step: int, running: Inside) -> None:
        wait_until(lambda: self.step() >= step or running.ended(), f"step {step}")
        assert not running.ended(), running.end().output

    def attempts(self) -> int:
        """How many began."""
        return sum("end" not in line for line in lines(self.trial / "attempts.jsonl"))


def machine_of_a_worker(machines: Machines) -> Machine:
    """A machine with a worker, other than the head."""
    found: list[Machine] = []

    def looked() -> bool:
        found[:] = [machine for machine in machines.all[1:] if machine.processes("ray::WorkerActor.run")]
        return bool(found)

    wait_until(looked, "a worker on another machine than the head", 120)
    return found[-1]


def check_like(sweep: Sweep, undisturbed: Sweep) -> None:
    """Same scores, same weights and every step once; one run in MLflow, and no worker is left."""
    assert reasons(sweep.trial)[-1] == "finished"
    journal = [line["step"] for line in lines(sweep.trial / "journal.jsonl")]
    assert journal == list(range(10, sweep.steps + 1, 10))
    result, expected = (json.loads((each.trial / "result.json").read_text()) for each in (sweep, undisturbed))
    assert (result["scores"], result["flops"]) == (expected["scores"], expected["flops"])
    assert newest_weights(sweep.trial) == newest_weights(undisturbed.trial)
    assert ("base s1", "FINISHED") in mlflow_runs(sweep.folder / "runs")
    wait_until(lambda: not workers(sweep.machines), "the end of all workers", 60)


def newest_weights(trial: Path) -> dict[str, list[Any]]:
    """Of the newest checkpoint of all attempts, as plain lists, which compare bit for bit."""
    found = max(trial.glob("checkpoints/*/a*/step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    state = torch.load(found / "state.pt", weights_only=True)
    return {name: tensor.tolist() for name, tensor in state["model"].items()}


def workers(machines: Machines) -> list[Any]:
    return [process for machine in machines.all for process in machine.processes("ray::WorkerActor")]
