"""A whole epoch of real text: every block has a shape of its own, as in a trial.

Ours and HF Marian take turns step by step in one process. Against an older checkout, each checkout
trains in a process of its own (`benchmarks/epoch_worker.py`), and the processes take turns.
"""

import os
import pickle
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Literal

from benchmarks.contest import MARIAN, OURS
from benchmarks.peers import PeerTraining
from benchmarks.record import Result
from benchmarks.workloads import SEED, prepared_text, settings_of
from tracking.provenance import ROOT
from transformer.config import Precision, TrialConfig
from transformer.cost import Lengths, training_flops
from transformer.data.batches import Batch, TrainingBatches
from transformer.data.prepared import ParallelSet
from transformer.training.precision import fast_matmuls
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

Step = Callable[[Sequence[Batch]], object]
Text = Literal["real", "synthetic"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
TOKENS_PER_MICRO_BATCH = 25_000
WARM_UP = 3
"""Steps that are not counted: the first ones fetch memory and make kernels."""
OLD = "old"
NEW = "new"


@dataclass(frozen=True)
class EpochSize:
    """A model with its batches; ``shapes`` is the number of block shapes that are trained on.

    ``words`` are overrides as for `allelse train`. ``peers`` is false where only checkouts are
    compared.
    """

    name: str
    words: tuple[str, ...]
    text: Text = "real"
    shapes: int = 200
    peers: bool = True


QUARTER = (
    "model.n_layers=3",
    "model.d_model=128",
    "model.d_ff=512",
    "model.d_k=16",
    "model.d_v=16",
)
EPOCH_SIZES = (
    EpochSize("half", ("scale=half",)),
    EpochSize("quarter", ("scale=half", *QUARTER, "train.tokens_per_batch=2000")),
    EpochSize("base", ("scale=paper", "train.tokens_per_batch=4000")),
    EpochSize("tiny", ("scale=tiny",), "synthetic", shapes=40, peers=False),  # of 48
)


@dataclass(frozen=True)
class Epoch:
    """The steps of one epoch, and the trial that takes them."""

    size: EpochSize
    trial: TrialConfig
    vocab_size: int
    pairs: ParallelSet

    @property
    def batches(self) -> TrainingBatches:
        return TrainingBatches(
            self.pairs,
            self.trial.train.tokens_per_batch,
            self.trial.model.max_positions,
            self.trial.train.seed,
        )

    def steps(self) -> Iterator[list[Batch]]:
        """The blocks of each step, until ``size.shapes`` shapes have been seen, or for one epoch if
        it has fewer."""
        batches = self.batches
        shapes = set[object]()
        for step in range(1, len(batches) + 1):
            if len(shapes) >= self.size.shapes:
                return
            blocks = batches.micro_batches(step, 0, 1, TOKENS_PER_MICRO_BATCH)
            shapes.update(block.shape for block in blocks)
            yield blocks

    def with_precision(self, precision: Precision) -> "Epoch":
        return replace(
            self, trial=replace(self.trial, train=replace(self.trial.train, precision=precision))
        )


def epoch(size: EpochSize, pairs: ParallelSet, vocab_size: int) -> Epoch:
    """The epoch of a size, on ``pairs`` or, where the size asks for it, on synthetic text."""
    data = ["data=synthetic"] if size.text == "synthetic" else []
    settings = settings_of([*size.words, *data, f"train.seed={SEED}"])
    if size.text == "real":
        return Epoch(size, settings.config, vocab_size, pairs)
    prepared = prepared_text(settings.config, Path(settings.paths.data))
    return Epoch(size, settings.config, len(prepared.vocabulary), prepared.pairs("train"))


@dataclass(frozen=True)
class Runner:
    """A program in one precision; ``matmuls`` is the context in which it computes."""

    program: str
    precision: Precision
    step: Step
    matmuls: Callable[[], AbstractContextManager[None]]

    def seconds(self, blocks: Sequence[Batch]) -> float:
        """CPU seconds of one step."""
        with self.matmuls():
            began = process_time()
            self.step(blocks)
            return process_time() - began


def runners(work: Epoch) -> list[Runner]:
    """Ours and tuned Marian, each in both precisions."""
    precise = [work.with_precision(precision) for precision in PRECISIONS]
    return [*map(_ours, precise), *map(_marian, precise)]


def _ours(work: Epoch) -> Runner:
    trial = work.trial
    worker = Worker()
    state = start(trial, work.vocab_size, worker.device)
    forward_backward = make_forward_backward(state.model, trial)
    step = partial(_own_step, state, trial, worker, forward_backward)
    return Runner(OURS, trial.train.precision, step, _matmuls(trial))


def _own_step(
    state: Any, trial: TrialConfig, worker: Worker, forward_backward: Any, blocks: Sequence[Batch]
) -> None:
    train_step(state, blocks, trial, worker, forward_backward)


def _marian(work: Epoch) -> Runner:
    """Fused Adam, explicit attention, and oneDNN's float32 matmuls where ours would use them."""
    precision = work.trial.train.precision
    training = PeerTraining(MARIAN.build_explicit, work.trial, work.vocab_size, fused=True)
    return Runner(
        MARIAN.name,
        precision,
        partial(training.step_on_blocks, precision=precision),
        _matmuls(work.trial),
    )


def _matmuls(trial: TrialConfig) -> Callable[[], AbstractContextManager[None]]:
    return partial(fast_matmuls, trial.model, trial.train.precision, Worker().device)


def against_marian(work: Epoch, rates: dict[str, float]) -> list[dict[str, Any]]:
    """One line per program and precision, over all steps of the epoch but the first ``WARM_UP``.

    ``rates`` are FLOP/s of matmuls by precision.
    """
    all_runners = runners(work)
    seconds: list[list[float]] = [[] for _ in all_runners]
    targets: list[int] = []
    lengths = Lengths()
    for number, blocks in enumerate(work.steps()):
        turn = [runner.seconds(blocks) for runner in all_runners]
        if number < WARM_UP:
            continue
        targets.append(blocks[0].total_targets)
        lengths = lengths + blocks[0].lengths  # of all blocks together
        for runner_seconds, turn_seconds in zip(seconds, turn, strict=True):
            runner_seconds.append(turn_seconds)
    flops = training_flops(work.trial.model, work.vocab_size, lengths)
    return [
        {
            "size": work.size.name,
            "program": runner.program,
            "precision": runner.precision,
            "targets": targets,
            "cpu_seconds": runner_seconds,
            "share_of_rate": flops / sum(runner_seconds) / rates[runner.precision],
        }
        for runner, runner_seconds in zip(all_runners, seconds, strict=True)
    ]


def faster(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The line whose median step took the least time."""
    return min(lines, key=lambda line: median(line["cpu_seconds"]))


def padding(work: Epoch) -> float:
    """Share of all cells of an epoch's blocks that hold no piece."""
    batches = work.batches
    cells = sum(shape.cells for shape in batches.shapes())
    pairs = work.pairs
    chosen = batches.chosen
    pieces = int(pairs.source.lengths[chosen].sum() + pairs.target.lengths[chosen].sum())
    return 1 - pieces / cells


class Process:
    """A checkout that trains in a process of its own, one step at a time."""

    def __init__(self, checkout: Path, job: Path) -> None:
        script = Path(__file__).with_name("epoch_worker.py")
        installed = checkout / ".venv" / "bin" / "python"
        python = installed if installed.exists() else sys.executable
        self.command = [str(python), "-P", str(script), str(job)]
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        self.process = subprocess.Popen(
            self.command,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=1,
        )

    def step(self) -> dict[str, float]:
        """CPU seconds, loss and resident bytes of the next step."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("step\n")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{shlex.join(self.command)} ended with exit code {self.process.wait()}"
            )
        seconds, loss, resident = map(float, line.split())
        return {"cpu_seconds": seconds, "loss": loss, "resident": resident}

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def processes(checkouts: dict[str, Path], work: Epoch) -> Iterator[dict[str, Process]]:
    """A process for each checkout, all with the same trial and text."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        job = Path(folder, "job")
        job.write_bytes(pickle.dumps((work.trial, work.vocab_size, work.pairs)))
        started = {}
        for name, checkout in checkouts.items():
            started[name] = Process(checkout, job)
            stack.callback(started[name].close)
        yield started


def in_processes(work: Epoch, old: Path | None) -> dict[str, Any]:
    """Memory of our process as the shapes grow in number and, with ``old``, our time against that
    checkout's."""
    checkouts = {NEW: ROOT}
    if old is not None:
        checkouts[OLD] = old.resolve()
    steps: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    shapes: list[int] = []
    distinct_shapes = set[object]()
    with processes(checkouts, work) as started:
        for blocks in work.steps():
            distinct_shapes.update(block.shape for block in blocks)
            shapes.append(len(distinct_shapes))
            for name, process in started.items():
                steps[name].append(process.step())
    return {
        "size": work.size.name,
        "precision": work.trial.train.precision,
        "shapes": shapes,
        "steps": steps,
    }


def resident_after(line: dict[str, Any], shapes: int, name: str = NEW) -> float:
    """Resident bytes of a process after the step that reached this number of shapes."""
    step_index = next(index for index, number in enumerate(line["shapes"]) if number >= shapes)
    return float(line["steps"][name][step_index]["resident"])


def measure_epoch(
    result: Result, size: EpochSize, text: tuple[ParallelSet, int], old: Path | None
) -> None:
    """Add one size's measurements to the result."""
    rates = matmul_rates(result["calibration"])
    work = epoch(size, *text)
    if size.peers:
        result["epochs"] += against_marian(work, rates)
    result["padding_of_epochs"][size.name] = padding(work)
    for precision in PRECISIONS if size.peers else (work.trial.train.precision,):
        result["processes"].append(in_processes(work.with_precision(precision), old))


def matmul_rates(calibration: Sequence[dict[str, Any]]) -> dict[str, float]:
    """FLOP/s of the fastest matmul of each precision; float32 in whichever library is faster."""
    rates: dict[str, float] = {}
    for precision in PRECISIONS:
        lines = [line for line in calibration if line["arithmetic"].startswith(precision)]
        rates[precision] = max(line["gflops"] for line in lines) * 1e9
    return rates
