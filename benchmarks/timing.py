"""Tasks timed in turn: A B C, A B C, … so that disturbances of the machine affect all of them
alike."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Task = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Rounds:
    """``least`` rounds, then more, up to ``most``, while the next one fits into ``seconds`` of wall
    time."""

    least: int
    most: int
    seconds: float = 0.0


def in_rounds(
    tasks: Sequence[Task], rounds: Rounds, clock: Clock = time.process_time
) -> list[list[float]]:
    """Seconds by ``clock`` of each task in each round; an extra first round warms up and is not
    counted."""
    began = time.perf_counter()
    _round(tasks, clock)
    timings: list[list[float]] = []
    while len(timings) < rounds.least or (
        len(timings) < rounds.most and _fits(len(timings) + 1, began, rounds.seconds)
    ):
        timings.append(_round(tasks, clock))
    return [list(seconds) for seconds in zip(*timings, strict=True)]


def _fits(n_rounds: int, began: float, seconds: float) -> bool:
    elapsed = time.perf_counter() - began
    return elapsed + elapsed / n_rounds <= seconds


def _round(tasks: Sequence[Task], clock: Clock) -> list[float]:
    return [_timed(task, clock) for task in tasks]


def _timed(task: Task, clock: Clock) -> float:
    began = clock()
    task()
    return clock() - began
