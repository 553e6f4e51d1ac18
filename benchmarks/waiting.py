"""Waiting times apart from steps: the start of `allelse train`, and checkpoints. Wall seconds."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.workloads import Workload, prepared_text
from sweeps.planning.compose import compose_row
from sweeps.task import Keep
from sweeps.worker.checkpoints import Checkpoints
from tracking.journal import JournalLine
from tracking.trial import TrialFolder
from transformer.card import CARD
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

PATIENCE = 300  # seconds for a process to end after Ctrl-C, on any machine
GPU_TOKENS_PER_S = 1.0e6  # the goal for base on one H200, the shortest time between checkpoints


def start_up(*more: str, times: int = 3) -> list[float]:
    """Seconds from `allelse train` (tiny, synthetic data, prepared) to the first step in its journal."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"paths.runs={folder}/runs", f"paths.data={folder}/data", "train.log_every=1", *more]
        settings = compose_row(words).rows[0].settings
        prepared_text(settings.trial, Path(settings.paths.data))
        return [_until_first_step([*words, f"sweep.name=run{i}"]) for i in range(times)]


def _until_first_step(words: list[str]) -> float:
    """Run the command, wait for its first report, and interrupt it."""
    trial = TrialFolder(compose_row(words).rows[0].settings.study_folder / "base-s1", CARD)
    command = [sys.executable, "-m", "sweeps.cli", "train", *words]
    began = time.time()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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

    That time is extrapolated from one step here, and computed for a GPU at its goal. The background write is waited
    for, but not counted.
    """
    trial, worker = compose_row(list(workload.size.words)).rows[0].settings.trial, Worker()
    state = start(trial, workload.size.vocab_size, worker.device)
    steps, waits = [], []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder, "0" * 64, 1, Keep(newest=1))
        for _ in range(times):
            began = time.perf_counter()
            train_step(state, workload.batches[:1], trial, worker, make_forward_backward(state.model, trial))
            stepped = time.perf_counter()
            checkpoints.save(state.step, state.to_dict(), seconds=0.0, score=None, reports=())
            waits.append(time.perf_counter() - stepped)
            checkpoints.settle()
            steps.append(stepped - began)
    wait, tokens_per_s = median(waits), workload.batches[0].total_targets / median(steps)
    apart = trial.train.checkpoint_every * trial.train.tokens_per_batch
    return {
        "seconds": waits,
        "tokens_apart": apart,
        "share_here": wait / (wait + apart / tokens_per_s),
        "share_on_gpu": wait / (wait + apart / GPU_TOKENS_PER_S),
    }
