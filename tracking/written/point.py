"""A metric's value at one step, as a training program wrote it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

EPOCH = "epoch"
STEP_NAMES = (
    "step",
    "global_step",
    "trainer/global_step",
    "_step",
    "iteration",
    "iter",
    "num_updates",
    "training_iteration",
    "total_timesteps",
    "timesteps",
    EPOCH,
)
"""By which records count. The first one that a record has is its step."""
TIME_NAMES = ("timestamp", "_timestamp", "_runtime", "wall_time")


SOURCES = ("report", "trainer_state.json", "", "mlflow", "stdout")
"""The best ones first; "" is any other file. Output is rounded for people."""


def source_rank(source: str) -> tuple[int, str]:
    """The lower, the better. Of two files, the first by name."""
    known_source = source if source in SOURCES else ""
    return SOURCES.index(known_source), source


@dataclass(frozen=True)
class WrittenPoint:
    """``step``: None if the program wrote none. ``source``: such as "stdout", "metrics.csv",
    "logs/metrics.csv", "trainer_state.json", "mlflow". ``is_epoch``: the step is the number of an
    epoch, and may count from 0; without a step, the point belongs to a part of an epoch."""

    name: str
    value: float
    step: int | None
    source: str
    is_epoch: bool = False

    def comes_from(self, source: str) -> bool:
        """Whether this is its source, with or without the folders before the file's name."""
        return self.source == source or self.source.endswith(f"/{source}")


def points_of(
    record: Mapping[Any, Any], source: str, step: int | None = None
) -> Iterator[WrittenPoint]:
    """The numbers of a record, each but those that count and those of time.

    ``step``: of a record without one. The numbers of an inner record have its key before their own
    name, such as "dev/loss".
    """
    numbers = dict(_numbers(record))
    counters = {_plain(name): value for name, value in numbers.items()}
    step_name = next((name for name in STEP_NAMES if _is_whole(counters.get(name))), None)
    if step_name is not None:
        step = int(counters[step_name])
    is_epoch = step_name == EPOCH or (step is None and _is_part(counters.get(EPOCH)))
    for name, value in numbers.items():
        if _plain(name) not in STEP_NAMES and _plain(name) not in TIME_NAMES:
            yield WrittenPoint(printable(name), value, step, source, is_epoch)


def _plain(name: str) -> str:
    """wall_time of "Wall time", as TensorBoard exports it."""
    return name.lower().replace(" ", "_")


def printable(name: str) -> str:
    """A name as journals and MLflow take it: a space for each letter that nobody can see."""
    return "".join(letter if letter.isprintable() else " " for letter in name)


def number_of(value: Any) -> float | None:
    """A number, or the text of one; None for anything else, such as True and an empty cell."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and "_" in value:  # Python reads 1_000 as a number
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _numbers(record: Mapping[Any, Any], folder: str = "") -> Iterator[tuple[str, float]]:
    for key, value in record.items():
        name = f"{folder}{key}"
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{name}/")
            continue
        number = number_of(value)
        if number is not None and key not in ("", None):
            yield name, number


def _is_whole(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value == int(value) and value >= 0


def _is_part(epoch: float | None) -> bool:
    """Whether it is a part of an epoch, such as 0.5."""
    return epoch is not None and math.isfinite(epoch) and epoch > 0 and epoch != int(epoch)
