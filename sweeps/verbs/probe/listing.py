"""Each metric that a command writes, by name and source, and a guess of what it is."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.observed.columns import TRAINING, direction, is_set_by_hand, set_of, words_of
from tracking.written.point import STEP_NAMES, WrittenPoint

SOURCES = ("report", "trainer_state.json", "", "mlflow", "stdout")
"""The best ones first; "" is any other file. Output is rounded for people."""
COST_WORDS = {
    *("time", "runtime", "seconds", "second", "sec", "secs", "ms", "elapsed", "duration", "eta"),
    *("speed", "throughput", "memory", "mem", "gpu", "cpu", "flops", "flos", "mfu", "tps"),
}
"""A metric with one of these in its name is a cost, which differs from run to run."""


@dataclass(frozen=True)
class ListedMetric:
    """``steps``: the first and the last one that it was written with; None if it had none.

    ``is_constant``: it had one value alone, and its name is no metric's. ``is_loose``: it lies
    below the current folder, where a trial has no place of its own.
    """

    name: str
    source: str
    points: int
    last: float
    steps: tuple[int, int] | None
    is_constant: bool = False
    is_loose: bool = False

    @property
    def better(self) -> str | None:
        """The direction, as its name suggests."""
        return None if self.is_setting else direction(self.name)

    @property
    def set(self) -> str | None:
        """The set in its name, such as val of val_loss."""
        return set_of(self.name)

    @property
    def is_setting(self) -> bool:
        """Whether its name is that of a setting, such as a learning rate, or of a cost."""
        return is_set_by_hand(self.name) or not COST_WORDS.isdisjoint(words_of(self.name))

    @property
    def is_measured(self) -> bool:
        """Whether it has a direction, and a set that nothing was trained on."""
        return self.better is not None and self.set is not None and self.set not in TRAINING

    @property
    def is_result(self) -> bool:
        """Whether it looks like a result rather than a setting, a cost or the training's loss."""
        return self.better is not None and self.set not in TRAINING and not self.is_loose

    @property
    def rank(self) -> tuple[bool, bool, bool, str, int]:
        """The likeliest results first; of one name, the best source."""
        known_source = self.source if self.source in SOURCES else ""
        source_rank = SOURCES.index(known_source)
        likeliness = (not self.is_result, not self.is_measured, self.better is None)
        return (*likeliness, self.name, source_rank)

    def as_json(self) -> dict[str, Any]:
        first, last = self.steps or (None, None)
        return {
            "name": self.name,
            "source": self.source,
            "points": self.points,
            "last": self.last if math.isfinite(self.last) else None,
            "first_step": first,
            "last_step": last,
            "better": self.better,
            "set": self.set,
            "is_constant": self.is_constant,
            "in_out": not self.is_loose,
        }


def listed_metrics(
    points: Iterable[WrittenPoint], loose_points: Iterable[WrittenPoint] = ()
) -> list[ListedMetric]:
    """The likeliest results first."""
    metrics = [*_metrics(points, False), *_metrics(loose_points, True)]
    return sorted(metrics, key=lambda metric: metric.rank)


def by_name(metrics: Sequence[ListedMetric]) -> list[list[ListedMetric]]:
    """Those of one name together, the best source first."""
    groups: dict[str, list[ListedMetric]] = {}
    for metric in metrics:
        groups.setdefault(metric.name, []).append(metric)
    return list(groups.values())


def _metrics(points: Iterable[WrittenPoint], is_loose: bool) -> list[ListedMetric]:
    by_origin: dict[tuple[str, str], list[WrittenPoint]] = {}
    for point in points:
        if point.name not in STEP_NAMES:
            by_origin.setdefault((point.name, point.source), []).append(point)
    metrics: list[ListedMetric] = []
    for (name, source), written in by_origin.items():
        steps = [point.step for point in written if point.step is not None]
        span = (min(steps), max(steps)) if steps else None
        last = written[-1].value
        has_one_value = len({point.value for point in written}) == 1
        is_constant = has_one_value and (is_set_by_hand(name) or direction(name) is None)
        metric = ListedMetric(name, source, len(written), last, span, is_constant, is_loose)
        metrics.append(metric)
    return metrics
