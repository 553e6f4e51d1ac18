"""How fast base learns beside a peer: ``python -m benchmarks.peer_curves --data DIR``.

Ours and HF Marian train the base of a scale on the same text, pieces, batches and learning rates.
They take turns, step by step, in one process on one thread. Dev perplexity is plotted over the CPU
seconds that a program has trained. Each seed is written when it is done, and the figure is drawn
from all seeds of this commit.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import torch
import typer
from matplotlib.ticker import LogLocator, NullLocator
from rich.console import Console
from torch.nn import functional as F

from benchmarks.contest import MARIAN, OURS
from benchmarks.peers import PeerTraining
from benchmarks.record import RESULTS, Result, heading, provenance, write
from benchmarks.sheet import Sheet, to_markdown, to_terminal
from benchmarks.workloads import prepared_text, settings_of
from tracking.report.drawing import BLUE, VERMILION, Drawing, legend_below, new_figure, styled
from tracking.words import count_of
from transformer.config import TrialConfig
from transformer.data.batches import Batch, TrainingBatches, evaluation_batches
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.training.loss import perplexity, summed_loss
from transformer.training.precision import autocast, fast_matmuls, retained_memory
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

NAME = "peer-curves"
COLORS = {OURS: BLUE, MARIAN.name: VERMILION}
PLOT_HEIGHT = 2.4  # inches
LABELED = (1, 1.5, 2, 3, 5, 7)  # times powers of ten, on the axis of perplexity
TOKENS_PER_MICRO_BATCH = 25_000
OF_ONE_RUN = re.compile(r" --(?:seed|out)[ =]\S+")
"""What the commands of runs that share a figure may differ in."""


@dataclass
class Learner:
    """A program that trains base, the CPU seconds of its steps, and its curve so far.

    ``summed_nll`` returns nats over a batch's target pieces, without smoothing or dropout.
    """

    program: str
    train: Callable[[Sequence[Batch]], object]
    set_training: Callable[[bool], object]
    summed_nll: Callable[[Batch], float]
    matmuls: Callable[[], AbstractContextManager[None]]
    cpu_seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def step(self, blocks: Sequence[Batch]) -> None:
        with self.matmuls():
            began = time.process_time()
            self.train(blocks)
            self.cpu_seconds += time.process_time() - began

    def evaluate(self, step: int, batches: Sequence[Batch]) -> None:
        """Add dev perplexity to the curve; its time does not count."""
        self.set_training(False)
        with self.matmuls(), torch.no_grad():
            nats = sum(self.summed_nll(batch) for batch in batches)
        self.set_training(True)
        pieces = sum(batch.total_targets for batch in batches)
        point = {"step": step, "cpu_seconds": self.cpu_seconds, "ppl": perplexity(nats / pieces)}
        self.curve.append(point)


def our_learner(trial: TrialConfig, vocab_size: int) -> Learner:
    worker = Worker()
    state = start(trial, vocab_size, worker.device)
    model = state.model
    forward_backward = make_forward_backward(model, trial)

    def train(blocks: Sequence[Batch]) -> None:
        train_step(state, blocks, trial, worker, forward_backward)

    def summed_nll(batch: Batch) -> float:
        with autocast(trial.train.precision, batch.target.device):
            output = model(batch.source, batch.shifted, batch.source_padded)
            return float(summed_loss(model, output, batch.target, 0.0))

    return Learner(OURS, train, model.train, summed_nll, _matmuls(trial))


def marian_learner(trial: TrialConfig, vocab_size: int) -> Learner:
    """Tuned: fused Adam, explicit attention, and oneDNN's matmuls where ours use them."""
    precision = trial.train.precision
    training = PeerTraining(MARIAN.build_explicit, trial, vocab_size, fused=True)
    model = training.model

    def summed_nll(batch: Batch) -> float:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits = model(batch.source, batch.shifted).flatten(0, 1)
        gold = batch.target.flatten()
        return float(F.cross_entropy(logits.float(), gold, ignore_index=PAD, reduction="sum"))

    train = partial(training.step_on_blocks, precision=precision)
    return Learner(MARIAN.name, train, model.train, summed_nll, _matmuls(trial))


def _matmuls(trial: TrialConfig) -> Callable[[], AbstractContextManager[None]]:
    return partial(fast_matmuls, trial.model, trial.train.precision, Worker().device)


def curves(
    trial: TrialConfig, vocab_size: int, train_pairs: ParallelSet, dev: ParallelSet
) -> list[Learner]:
    """Both programs after ``train.steps`` steps in turn, with their curves."""
    train = trial.train
    batches = TrainingBatches(
        train_pairs, train.tokens_per_batch, trial.model.max_positions, train.seed
    )
    dev_batches = [batch for _, batch in evaluation_batches(dev, train.tokens_per_batch)]
    learners = [our_learner(trial, vocab_size), marian_learner(trial, vocab_size)]
    for step in range(1, train.steps + 1):
        blocks = batches.micro_batches(step, 0, 1, TOKENS_PER_MICRO_BATCH)
        for learner in learners:
            learner.step(blocks)
        if step % train.evaluate_every == 0 or step == train.steps:
            for learner in learners:
                learner.evaluate(step, dev_batches)
    return learners


def lines_of_seed(words: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """The curves of one seed: a line for each program and evaluation."""
    settings = settings_of([*words, f"train.seed={seed}"])
    prepared = prepared_text(settings.config, Path(settings.paths.data))
    vocab_size = len(prepared.vocabulary)
    learners = curves(settings.config, vocab_size, prepared.pairs("train"), prepared.pairs("dev"))
    lines = []
    for learner in learners:
        for point in learner.curve:
            lines.append({"program": learner.program, "seed": seed, **point})
    return lines


def summary(lines: Sequence[dict[str, Any]]) -> Sheet:
    """A row for each program and seed: where it ended, and after how much time."""
    rows = []
    for program in COLORS:
        for seed in sorted({line["seed"] for line in lines}):
            end = [line for line in lines if (line["program"], line["seed"]) == (program, seed)][-1]
            rows.append(
                (program, str(seed), f"{end['ppl']:.3f}", f"{end['cpu_seconds']:,.0f}"),
            )
    note = "Dev perplexity after the last step, and the CPU seconds of all steps, on one thread."
    return Sheet("Base and a peer", note, ("program", "seed", "dev PPL", "CPU s"), rows, words=2)


def figure(lines: Sequence[dict[str, Any]]) -> Drawing:
    """Dev perplexity over CPU seconds: a line for each seed, a color for each program."""
    with styled():
        canvas, (axes,) = new_figure(PLOT_HEIGHT)
        signs = []
        for program, color in COLORS.items():
            curves_of_program = _by_seed(lines, program)
            for points in curves_of_program:
                seconds = [point["cpu_seconds"] for point in points]
                values = [point["ppl"] for point in points]
                (line,) = axes.plot(seconds, values, color=color, linewidth=1.0)
            end = mean(points[-1]["ppl"] for points in curves_of_program)
            seeds = count_of(len(curves_of_program), "seed")
            signs.append((f"{program}: {end:.2f}, mean of {seeds}", line))
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=LABELED))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title("dev perplexity")
        axes.set_xlabel("CPU seconds of training", loc="right", labelpad=1)
        legend_below(canvas, signs)
        description = "Dev perplexity of base over CPU seconds, ours and HF Marian."
        return Drawing(NAME, "Base and a peer", description, canvas)


def _by_seed(lines: Sequence[dict[str, Any]], program: str) -> list[list[dict[str, Any]]]:
    seeds: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        if line["program"] == program:
            seeds.setdefault(line["seed"], []).append(line)
    return list(seeds.values())


def lines_on_disk(folder: Path, latest: Result) -> list[dict[str, Any]]:
    """The lines of all seeds that the latest run's commit and command measured; of several runs of
    a seed, the newest."""
    command = OF_ONE_RUN.sub("", latest["command"])
    paths = folder.glob(f"{NAME}-*-{latest['commit'][:7]}-seed*.json")
    results = [json.loads(path.read_text("utf-8")) for path in paths]
    newest: dict[int, Result] = {}
    for result in sorted(results, key=lambda result: result["date"]):
        if OF_ONE_RUN.sub("", result["command"]) == command:
            newest[result["lines"][0]["seed"]] = result
    return [line for seed in sorted(newest) for line in newest[seed]["lines"]]


def main(
    data: Annotated[Path, typer.Option(help="Folder of Multi30k's files.")],
    seed: Annotated[list[int] | None, typer.Option(help="A seed; may be repeated.")] = None,
    scale: Annotated[str, typer.Option(help="The scale whose base is trained.")] = "quarter",
    steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = RESULTS,
) -> None:
    """Train base and HF Marian in turn, and draw dev perplexity over CPU seconds."""
    torch.set_num_threads(1)
    words = [f"scale={scale}", "data=multi30k", f"data.mirror='{data}'"]
    if steps is not None:
        words.append(f"train.steps={steps}")
    result: Result = {}
    for number in seed or [1, 2, 3]:
        result = provenance("benchmarks.peer_curves", ["transformers"])
        began = time.monotonic()
        with retained_memory():
            result["lines"] = lines_of_seed(words, number)
        result["seconds"] = time.monotonic() - began
        sheet = summary(result["lines"])
        Console(width=120).print(to_terminal(sheet))
        head = "\n".join(heading("Base and a peer", result))
        document = f"{head}\n\n{to_markdown(sheet)}"
        print(write(NAME, document, result, [f"seed{number}"], out))
    picture = out / f"{NAME}.svg"
    picture.write_bytes(figure(lines_on_disk(out, result)).svg_with_text())
    print(picture)


if __name__ == "__main__":
    typer.run(main)
