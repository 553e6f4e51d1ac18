"""What training notices of a checkpoint that is written slowly: ``python -m benchmarks.saving [--rounds N]``.

One trial in this process, by the driver of a worker. Spans of steps with a checkpoint, whose write takes half a
second, and spans without one take turns: wall seconds of each, from its first report to its last. Ten rounds take
about 20 s.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import fsspec
import torch
from fsspec.implementations.memory import MemoryFileSystem

from sweeps.task import Metric, Task, Trial
from sweeps.worker.attempt import Driver
from sweeps.worker.events import Assignment, Event, Report
from sweeps.worker.plain_state import TENSORS
from tracking.words import time as as_time

SPAN = 100
"""Steps of about 10 ms: a write ends within its span."""
WRITE_S = 0.5
STATE = 4 << 20
"""Numbers of the state, 16 MiB."""
SAVES, SILENT = "a checkpoint", "none"


class SlowFiles(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory, of which tensors take their time."""

    protocol = "slow"

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        if TENSORS in path:
            time.sleep(WRITE_S)
        super().pipe_file(path, value, **options)


@dataclass(frozen=True)
class Train:
    steps: int


@dataclass(frozen=True)
class Config:
    train: Train


def work(trial: Trial[Config]) -> None:
    """Report each step; save before every other span."""
    state = torch.zeros(STATE)
    for step in range(1, trial.config.train.steps + 1):
        _step()
        trial.report(step, {"train/loss": 1.0})
        if step % (2 * SPAN) == 1:
            trial.checkpoint(step, {"weights": state})
    trial.evaluated("dev", {"score": 1.0})


task = Task("saving", 1, Config, (Metric("score"),), steps=lambda config: config.train.steps, work=work)


def _step() -> None:
    """Always the same work: a step that only slept would not notice another thread."""
    weights = torch.ones(128, 128)
    for _ in range(150):
        weights @ weights


def spans(rounds: int) -> dict[str, list[float]]:
    """Seconds of each span, after a first round that warms up and is not counted."""
    config, events = Config(Train(2 * SPAN * (rounds + 1) + 1)), list[Event]()
    assignment = Assignment(
        "benchmarks.saving", str(Path.cwd()), asdict(config), 1, 1, "data", "", "slow://s", 64 * "0"
    )
    driver = Driver(assignment, events.append)
    driver.newest()
    driver.work(0, 1, "", lambda: False)
    return _spans([event.ts for event in events if isinstance(event, Report)])


def _spans(times: Sequence[float]) -> dict[str, list[float]]:
    taken = [after - before for before, after in zip(times[::SPAN], times[SPAN::SPAN], strict=False)]
    return {SAVES: taken[2::2], SILENT: taken[3::2]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.saving", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="default: 10")
    fsspec.register_implementation("slow", SlowFiles)
    torch.set_num_threads(1)
    taken = spans(rounds := parser.parse_args().rounds)
    print(f"{SPAN} steps; writing a checkpoint takes {WRITE_S} s and {STATE * 4 >> 20} MiB.\n")
    print(f"| the span has | median of {rounds} | × none, median | range |\n| --- | --- | --- | --- |")
    for name, seconds in taken.items():
        ratios = [own / silent for own, silent in zip(seconds, taken[SILENT], strict=True)]
        spread = f"{min(ratios):.3f}–{max(ratios):.3f}"
        print(f"| {name} | {as_time(median(seconds))} | {median(ratios):.3f} | {spread} |")


if __name__ == "__main__":
    main()
