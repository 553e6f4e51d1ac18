"""``python -m benchmarks.gpu``: training steps on one GPU against their goals, in a few minutes.

Base, big, half and quarter: eager, compiled, and replayed from CUDA graphs as training does it,
with cuDNN's attention, and block by block; and the device's limits. Without a GPU it prints a
refusal and ends with exit code 2.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle, pairwise
from statistics import mean, median
from typing import Annotated

import torch
import typer
from rich.console import Console

from benchmarks.record import provenance
from benchmarks.sheet import MET, MISSED, Sheet, to_terminal
from benchmarks.workloads import drawn_pairs, settings_of
from tracking.provenance import changes
from transformer.config import TrialConfig
from transformer.cost import training_flops
from transformer.data.batches import Batch, Shape, TrainingBatches
from transformer.training.graphs import buckets, into_bucket
from transformer.training.precision import torch_attention
from transformer.training.state import start
from transformer.training.train import make_forward_backward, plan_graphs, train_step
from transformer.training.worker_group import Worker, tokens_per_micro_batch

SEED = 1
PAIRS = 60_000
ROUNDS = 3
STEPS = 24
IN_TURN = 8
WARM_UP = 2 * IN_TURN  # a graph is recorded when its shape occurs for the second time
MATMUL_SIZE = 8192
COPY_BYTES = 2**31


@dataclass(frozen=True)
class Size:
    """A model by the overrides of ``allelse train``, its text, and the goal on one H200: tokens/s,
    or ms per step.

    Source lengths are lognormal: ``ln_length`` is mean and sd of their logarithm.
    """

    name: str
    words: tuple[str, ...]
    vocab_size: int
    ln_length: tuple[float, float]
    least_tokens_per_s: float | None = None
    most_milliseconds: float | None = None


SIZES = (
    Size("base", ("row=base", "scale=paper"), 37_000, (3.1, 0.5), least_tokens_per_s=1.0e6),
    Size("big", ("row=big", "scale=paper"), 37_000, (3.1, 0.5), least_tokens_per_s=3.5e5),
    Size("half", ("row=base", "scale=half"), 8_000, (2.685, 0.296), most_milliseconds=1.0),
    Size("quarter", ("row=base", "scale=quarter"), 8_000, (2.685, 0.296), most_milliseconds=1.0),
)


class Way(StrEnum):
    """How the device gets its work."""

    EAGER = "eager"
    COMPILED = "compiled"
    GRAPHED = "graphs"
    CUDNN = "graphs, cuDNN"
    BY_BLOCK = "graphs, by block"


@dataclass(frozen=True)
class Ceiling:
    """Limits of this device: FLOP/s of a large bf16 matmul, bytes/s read and written by a large
    copy."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Workload:
    """A trial, the shapes of its buckets, and the micro-batches of its steps, used in turn."""

    size: Size
    trial: TrialConfig
    shapes: list[Shape]
    steps: list[list[Batch]]
    joined: bool


@dataclass(frozen=True)
class Measured:
    """A workload in one way: median milliseconds of a step in each round."""

    workload: Workload
    way: Way
    rounds: list[float]

    @property
    def milliseconds(self) -> float:
        return median(self.rounds)

    @property
    def tokens_per_s(self) -> float:
        """Real target pieces."""
        return (
            mean(micro_batches[0].total_targets for micro_batches in self.workload.steps)
            / self.milliseconds
            * 1e3
        )

    @property
    def flops(self) -> float:
        """Model FLOP/s, forward and backward, of real pieces."""
        model = self.workload.trial.model
        vocab_size = self.workload.size.vocab_size
        counts = (
            training_flops(model, vocab_size, micro_batches[0].lengths)
            for micro_batches in self.workload.steps
        )
        return mean(counts) / self.milliseconds * 1e3

    @property
    def met(self) -> bool:
        size = self.workload.size
        if size.most_milliseconds is not None:
            return self.milliseconds <= size.most_milliseconds
        return self.tokens_per_s >= (size.least_tokens_per_s or 0)


Sizes = Annotated[
    list[str] | None, typer.Option("--only", help=f"Of {', '.join(size.name for size in SIZES)}.")
]
Ways = Annotated[
    list[Way] | None, typer.Option("--way", help="Of the ways in which the device gets its work.")
]


def main(only: Sizes = None, way: Ways = None) -> None:
    """Measure training steps on one GPU."""
    if not torch.cuda.is_available():
        Console(stderr=True).print(
            "[bold red]Refused[/]: torch finds no CUDA device here. Nothing was measured."
        )
        raise typer.Exit(2)
    device = torch.device("cuda", torch.cuda.current_device())
    console = Console(highlight=False)
    console.width = max(console.width, 120)
    ceiling = calibrate(device)
    measurements = list[Measured]()
    for size in SIZES:
        if only and size.name not in only:
            continue
        for line in all_ways(size, list(way or Way), device):
            measurements.append(line)
            # now, should the time run out
            console.print(f"{size.name}, {line.way}: {line.milliseconds:.2f} ms")
    console.print(to_terminal(sheet(measurements, ceiling)))
    console.print(origin(device), soft_wrap=True)


def all_ways(size: Size, ways: list[Way], device: torch.device) -> Iterator[Measured]:
    """One size in each of ``ways``; block by block only where training joins blocks."""
    as_trained = workload(size, device, joins=True)
    by_block = workload(size, device, joins=False)
    for way in ways:
        if way is not Way.BY_BLOCK:
            yield measure(as_trained, way, device)
        elif as_trained.joined:
            yield measure(by_block, way, device)


def calibrate(device: torch.device) -> Ceiling:
    """Measured with random numbers, since zeros multiply faster."""
    a, b = (torch.randn(MATMUL_SIZE, MATMUL_SIZE, device=device).bfloat16() for _ in range(2))
    source = torch.randint(256, (COPY_BYTES,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    matmul, copy = (
        median(in_rounds(task)) / 1e3 for task in (lambda: a @ b, lambda: target.copy_(source))
    )
    return Ceiling(2 * MATMUL_SIZE**3 / matmul, 2 * COPY_BYTES / copy)


def workload(size: Size, device: torch.device, joins: bool) -> Workload:
    """The first steps of an epoch in micro-batches, padded up to their buckets; ``joins`` as
    training would."""
    trial = settings_of([*size.words, f"train.seed={SEED}"]).config
    pairs = drawn_pairs(PAIRS, size.ln_length, (0, 0.17), size.vocab_size, longest=200)
    epoch = TrainingBatches(pairs, trial.train.tokens_per_batch, trial.model.max_positions, SEED)
    shapes = buckets(epoch.shapes())
    limit = tokens_per_micro_batch(trial.train, device)
    if joins:
        epoch, shapes = plan_graphs(
            epoch, trial, size.vocab_size, Worker(device=device, tokens_per_micro_batch=limit)
        )
    steps = [epoch.micro_batches(step, 0, 1, limit) for step in range(1, IN_TURN + 1)]
    padded = []
    for micro_batches in steps:
        padded.append([into_bucket(batch, shapes) for batch in micro_batches])
    return Workload(size, trial, shapes, padded, epoch.joins_blocks)


def measure(work: Workload, way: Way, device: torch.device) -> Measured:
    """Measure a fresh model, with the previous one removed from memory."""
    torch.compiler.reset()
    torch.cuda.empty_cache()
    state = start(work.trial, work.size.vocab_size, device)
    state.model.train()
    if way is Way.COMPILED:
        state.model.compile(dynamic=True)  # with static shapes, up to 32 would have to be compiled
    recording = way in (Way.GRAPHED, Way.CUDNN, Way.BY_BLOCK)
    run = make_forward_backward(state.model, work.trial, work.shapes if recording else [])
    on_device = []
    for micro_batches in work.steps:
        on_device.append([batch.to(device) for batch in micro_batches])
    steps = cycle(on_device)
    worker = Worker(device=device)
    with attention(way, device):
        return Measured(
            work, way, in_rounds(lambda: train_step(state, next(steps), work.trial, worker, run))
        )


def attention(way: Way, device: torch.device) -> AbstractContextManager[None]:
    """torch's kernels of attention, or also cuDNN's."""
    return nullcontext() if way is Way.CUDNN else torch_attention(device)


def in_rounds(task: Callable[[], object]) -> list[float]:
    """Median milliseconds of ``task`` in each round, by events on the device, with a
    synchronization between rounds."""
    for _ in range(WARM_UP):
        task()
    return [median(_timed(task)) for _ in range(ROUNDS)]


def _timed(task: Callable[[], object]) -> list[float]:
    torch.cuda.synchronize()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        task()
        mark.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in pairwise(marks)]


def sheet(measurements: list[Measured], ceiling: Ceiling) -> Sheet:
    """The measurements and the goals."""
    note = (
        "ms: median and range of the rounds' medians. Target tokens and FLOPs: only real pieces; "
        "FLOPs are computed. "
        f"Peak: a bf16 matmul here, {ceiling.flops / 1e12:.0f} TFLOP/s; "
        f"a copy moves {ceiling.bytes / 1e12:.2f} TB/s. "
        "Goals: for one H200."
    )
    columns = (
        *(
            "size",
            "micro-batches",
            "ms per step",
            "range",
            "target tokens/s",
            "TFLOP/s",
            "of peak",
            "padding",
            "goal",
        ),
    )
    return Sheet(
        "Training steps on one GPU",
        note,
        columns,
        [row(line, ceiling) for line in measurements],
        words=2,
    )


def row(line: Measured, ceiling: Ceiling) -> tuple[str, ...]:
    """The cells of one measurement."""
    steps = line.workload.steps
    pieces = sum(
        micro_batches[0].lengths.source + micro_batches[0].lengths.target for micro_batches in steps
    )
    padding = 1 - pieces / sum(
        batch.shape.cells for micro_batches in steps for batch in micro_batches
    )
    times = f"{line.milliseconds:.2f}", f"{min(line.rounds):.2f}–{max(line.rounds):.2f}"
    rates = (
        f"{line.tokens_per_s:,.0f}",
        f"{line.flops / 1e12:.1f}",
        f"{line.flops / ceiling.flops:.0%}",
    )
    return line.workload.size.name, line.way, *times, *rates, f"{padding:.1%}", _goal(line)


def _goal(line: Measured) -> str:
    size = line.workload.size
    goal = (
        f"≤ {size.most_milliseconds} ms"
        if size.most_milliseconds
        else f"≥ {size.least_tokens_per_s:,.0f}"
    )
    return f"{goal} {MET if line.met else MISSED}"


def origin(device: torch.device) -> str:
    """Command, commit and machine."""
    record = provenance("benchmarks.gpu", [])
    commit = f"{record['commit']}{changes(record)}"
    versions = record["versions"]
    return (
        f"{record['command']}, commit {commit}, {torch.cuda.get_device_name(device)}, "
        f"torch {versions['torch']}"
    )


if __name__ == "__main__":
    typer.run(main)
