"""What a training benchmark measures apart from steps: padding, a second thread, start-up,
checkpoints."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.arithmetic import Arithmetic
from benchmarks.contest import Contestant, ours
from benchmarks.timing import Rounds, Task, in_rounds
from benchmarks.workloads import SEED, Workload, prepared_text, settings_of
from sweeps.checkpoints.reader import CheckpointReader
from sweeps.checkpoints.store import CheckpointStore
from sweeps.task import Keep
from tracking.json_lines.journal import JournalLine
from tracking.trial import TrialFolder
from transformer.card import CARD
from transformer.data.batches import Batch, TrainingBatches, collate, cut
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

BUDGETS = (2000, 4000, 25000)


def padding(pairs: ParallelSet, budgets: Sequence[int] = BUDGETS) -> list[dict[str, Any]]:
    """One line per token budget: the share of all source and target cells without a piece, over one
    epoch."""
    return [
        {
            "tokens": tokens,
            "ours": share(_ours(pairs, tokens)),
            "random": share(_in_random_order(pairs, tokens)),
        }
        for tokens in budgets
    ]


def share(batches: Iterable[Batch]) -> float:
    """Cells without a piece, of all cells of source and target."""
    cells = pieces = 0.0
    for batch in batches:
        cells += batch.source.numel() + batch.target.numel()
        pieces += int((batch.source != PAD).sum() + (batch.target != PAD).sum())
    return 1 - pieces / cells


def _ours(pairs: ParallelSet, tokens: int) -> Iterable[Batch]:
    epoch = TrainingBatches(pairs, tokens, int(pairs.longest_sides.max()), SEED)
    return (
        batch
        for step in range(1, len(epoch) + 1)
        for batch in epoch.micro_batches(step, 0, 1, tokens)
    )


def _in_random_order(pairs: ParallelSet, tokens: int) -> Iterable[Batch]:
    order = np.random.default_rng(SEED).permutation(len(pairs))
    return (collate(pairs, indices) for indices in cut(pairs, order, tokens))


ROUNDS = Rounds(3, 3)


def two_against_one(workload: Workload, rounds: Rounds = ROUNDS) -> list[dict[str, Any]]:
    """One line per arithmetic: wall seconds of each round with one and with two threads, and their
    ratios."""
    results = []
    for arithmetic in (Arithmetic.ONEDNN, Arithmetic.BF16):
        contestant = ours(workload, arithmetic)
        one_thread, two_threads = in_rounds(
            [_with_threads(n, contestant, workload) for n in (1, 2)], rounds, time.perf_counter
        )
        ratios = [a / b for a, b in zip(one_thread, two_threads, strict=True)]
        results.append(
            {"arithmetic": arithmetic, "one": one_thread, "two": two_threads, "ratios": ratios}
        )
    return results


def _with_threads(threads: int, contestant: Contestant, workload: Workload) -> Task:
    def train() -> None:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            contestant.train(workload.batches)
        finally:
            torch.set_num_threads(n_threads)

    return train


PATIENCE = 300  # seconds for a process to end after Ctrl-C, on any machine
GPU_TOKENS_PER_S = 1.0e6  # the goal for base on one H200, the shortest time between checkpoints


def start_up(*options: str, times: int = 3) -> list[float]:
    """Seconds from `allelse train` (tiny, synthetic data, prepared) to the first step in its
    journal."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            f"paths.runs={folder}/runs",
            f"paths.data={folder}/data",
            "train.log_every=1",
            *options,
        ]
        settings = settings_of(words)
        prepared_text(settings.config, Path(settings.paths.data))
        return [_until_first_step([*words, f"sweep.name=run{i}"]) for i in range(times)]


def _until_first_step(words: list[str]) -> float:
    """Run the command, wait for its first report, and interrupt it."""
    trial = TrialFolder(settings_of(words).study_folder / "base-s1", CARD)
    command = [sys.executable, "-m", "sweeps.cli", "train", *words]
    began = time.time()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        first = _first_report(trial, process)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    if first is None:
        raise RuntimeError(f"{' '.join(command)} ended before its first step:\n{errors}")
    return first.ts - began


def _first_report(trial: TrialFolder, process: subprocess.Popen[str]) -> JournalLine | None:
    """None if the process ends before its first report."""
    while process.poll() is None:
        if reports := trial.journal():
            return reports[0]
        time.sleep(0.05)
    return None


def checkpoint_stall(workload: Workload, times: int = 3) -> dict[str, Any]:
    """Seconds that training waits per checkpoint, and their share of the time between two.

    That time is extrapolated from one step here, and computed for a GPU at its goal. The background
    write is waited for, but not counted.
    """
    trial = settings_of(list(workload.size.words)).config
    worker = Worker()
    state = start(trial, workload.size.vocab_size, worker.device)
    steps = []
    waits = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = CheckpointStore(CheckpointReader(folder, "0" * 64, attempt=1), Keep(newest=1))
        for _ in range(times):
            began = time.perf_counter()
            train_step(
                state,
                workload.batches[:1],
                trial,
                worker,
                make_forward_backward(state.model, trial),
            )
            stepped = time.perf_counter()
            checkpoints.save(state.step, state.to_dict(), seconds=0.0, score=None, reports=())
            waits.append(time.perf_counter() - stepped)
            checkpoints.settle()
            steps.append(stepped - began)
    wait = median(waits)
    tokens_per_s = workload.batches[0].total_targets / median(steps)
    tokens_between = trial.train.checkpoint_every * trial.train.tokens_per_batch
    return {
        "seconds": waits,
        "tokens_apart": tokens_between,
        "share_here": wait / (wait + tokens_between / tokens_per_s),
        "share_on_gpu": wait / (wait + tokens_between / GPU_TOKENS_PER_S),
    }
