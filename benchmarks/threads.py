"""Two threads against one: the same steps in turn, wall seconds."""

import time
from typing import Any

import torch

from benchmarks.arithmetic import Arithmetic
from benchmarks.contest import Contestant, ours
from benchmarks.timing import Rounds, Task, in_rounds
from benchmarks.workloads import Workload

ROUNDS = Rounds(3, 3)


def two_against_one(workload: Workload, rounds: Rounds = ROUNDS) -> list[dict[str, Any]]:
    """One line per arithmetic: wall seconds of each round with one and with two threads, and their ratios."""
    found = []
    for arithmetic in (Arithmetic.ONEDNN, Arithmetic.BF16):
        contestant = ours(workload, arithmetic)
        one, two = in_rounds([_with_threads(n, contestant, workload) for n in (1, 2)], rounds, time.perf_counter)
        ratios = [a / b for a, b in zip(one, two, strict=True)]
        found.append({"arithmetic": arithmetic, "one": one, "two": two, "ratios": ratios})
    return found


def _with_threads(threads: int, contestant: Contestant, workload: Workload) -> Task:
    def train() -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            contestant.train(workload.batches)
        finally:
            torch.set_num_threads(before)

    return train
