"""``python -m benchmarks.training``: our training and its peers on one CPU thread.

Prints the tables, and writes them with the raw figures, commit, machine and versions to
``benchmarks/results/``.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from benchmarks import record
from benchmarks.apart import checkpoint_stall, padding, start_up, two_against_one
from benchmarks.arithmetic import best_rates, calibrate
from benchmarks.contest import MARIAN, TORCH, Peer, contestants, describe, measure
from benchmarks.epoch import EPOCH_SIZES, EpochSize, measure_epoch
from benchmarks.record import Result
from benchmarks.report import document, sheets
from benchmarks.sheet import to_terminal
from benchmarks.timing import Rounds
from benchmarks.workloads import SIZES, VOCAB_SIZE, Size, drawn_pairs, read_pairs, workload
from sweeps.problems import RefusedError
from transformer.data.prepared import ParallelSet
from transformer.training.precision import retained_memory

BASE = SIZES[0]
EPOCHS = [size.name for size in EPOCH_SIZES]


class Part(StrEnum):
    """The parts that can be measured alone."""

    base = "base"
    base_37k = "base-37k"
    small = "small"
    epoch = "epoch"
    padding = "padding"
    threads = "threads"
    start_up = "start-up"
    checkpoint = "checkpoint"


def main(
    only: Annotated[
        list[Part] | None, typer.Option(help="Measure only this part; may be repeated.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds per size; default: 3 to 5 as time allows.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of Multi30k's files; default: drawn lengths.")
    ] = None,
    epoch: Annotated[
        list[str] | None, typer.Option(help=f"Only these epochs: {', '.join(EPOCHS)}.")
    ] = None,
    shapes: Annotated[
        int | None, typer.Option(min=1, help="Block shapes of each epoch; default: 200, tiny 40.")
    ] = None,
    old: Annotated[
        Path | None, typer.Option(help="An older checkout, for the epochs to take turns with.")
    ] = None,
) -> None:
    """Measure training on one CPU thread: ours, torch.nn.Transformer, HF Marian."""
    torch.set_num_threads(1)
    console = Console(highlight=False)
    console.width = max(console.width, 120)
    try:
        head = record.provenance("benchmarks.training", ["transformers"])
        pairs = read_pairs(data) if data else drawn_pairs()
    except RefusedError as error:
        Console(stderr=True).print(
            f"[bold red]Refused[/]: {error}\nNothing was started.", highlight=False
        )
        raise typer.Exit(2) from None
    began = time.perf_counter()
    result = {
        **head,
        "text": "Multi30k" if data else "random pieces in sentences as long as Multi30k's",
    }
    sizes = [size for size in EPOCH_SIZES if size.name in (epoch or EPOCHS)]
    if Part.epoch in (only or Part):
        result["synthetic"] = [size.name for size in sizes if size.text == "synthetic"]
    if shapes is not None:
        sizes = [replace(size, shapes=shapes) for size in sizes]
    with (
        retained_memory()
    ):  # for all programs alike: memory that one program returns, the next would have to fetch
        epochs = partial(_epochs, sizes, pairs, old, console)
        result |= _measured(only or list(Part), rounds, pairs, epochs, console)
    result["seconds"] = time.perf_counter() - began
    for sheet in sheets(result):
        console.print(to_terminal(sheet))
    console.print(f"Written: [bold]{write(result, only or [], record.RESULTS)}[/]", soft_wrap=True)


def _measured(
    parts: Sequence[Part],
    rounds: int | None,
    pairs: ParallelSet,
    epochs: Callable[[Result], Result],
    console: Console,
) -> Result:
    """Every part in turn; two threads last, so that their thread pool does not disturb
    single-thread parts."""
    status = console.status
    with status("Matmuls"):
        result: Result = {"calibration": calibrate(), "models": [], "training": []}
    for size in SIZES:
        if Part(size.name) in parts:
            with status(f"Training {size.name}"):
                compare(
                    result,
                    size,
                    pairs,
                    (TORCH, MARIAN),
                    Rounds(rounds, rounds) if rounds else size.rounds,
                )
    if Part.epoch in parts:
        result |= epochs(result)
    if Part.padding in parts:
        with status("Padding"):
            result["padding"] = padding(pairs)
    if Part.start_up in parts:
        with status("Start-up"):
            result["start_up"] = start_up()
    if Part.checkpoint in parts:
        with status("Checkpoints"):
            result["checkpoint"] = checkpoint_stall(workload(BASE, pairs))
    if Part.threads in parts:
        with status("Two threads"):
            result["threads"] = two_against_one(workload(BASE, pairs))
    return result


def _epochs(
    sizes: Sequence[EpochSize],
    pairs: ParallelSet,
    old: Path | None,
    console: Console,
    result: Result,
) -> Result:
    """Whole epochs; the matmul rates are those of ``result``."""
    epochs: Result = {
        "calibration": result["calibration"],
        "epochs": [],
        "processes": [],
        "padding_of_epochs": {},
    }
    for size in sizes:
        with console.status(f"A whole epoch: {size.name}"):
            measure_epoch(epochs, size, (pairs, VOCAB_SIZE), old)
    return epochs


def compare(
    result: Result, size: Size, pairs: ParallelSet, peers: Sequence[Peer], rounds: Rounds
) -> None:
    """Add one size's measurements to the result; its calibration is the reference for mfu."""
    work = workload(size, pairs)
    programs = contestants(work, peers)
    result["models"] += describe(work, programs)
    result["training"] += measure(work, programs, best_rates(result["calibration"]), rounds)


def write(result: Result, only: Sequence[Part], folder: Path) -> Path:
    """Write the result as Markdown and JSON under one name; returns the Markdown's path."""
    return record.write("training", document(result), result, only, folder)


if __name__ == "__main__":
    typer.run(main)
