"""The points that a command writes, and the journal and scores that they become."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweeps.command_task.definition import WrittenMetric
from sweeps.task import Trial
from tracking.written.point import WrittenPoint, source_rank


@dataclass
class Recording:
    """Passes points to the journal, and remembers the last value of each metric.

    ``start`` is the step that the attempt goes on from, and ``step`` the last reported one.
    ``counts``: points without a step count 1, 2, 3 by name; otherwise they belong to the last step.
    ``sources``: the best one of each metric, and ``doubled``, the metrics that have several.
    ``from_zero``: the sources that count epochs from 0; their first epoch is step 1.
    ``in_parts``: the sources with points of parts of epochs so far; from then on, if points count,
    those of epochs do, too.
    ``curves``: the best source of each name in the journal, which has that one's points alone.
    ``planned``: points of this step, the last one, are held until ``release``, since training is
    over for the platform once it is reported.
    """

    metrics: Sequence[WrittenMetric]
    trial: Trial[Any]
    start: int
    counts: bool
    planned: float = math.inf
    step: int = 0
    values: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    numbers: Counter[str] = field(default_factory=Counter)
    sources: dict[str, str] = field(default_factory=dict)
    doubled: set[str] = field(default_factory=set)
    curves: dict[str, str] = field(default_factory=dict)
    from_zero: set[str] = field(default_factory=set)
    in_parts: set[str] = field(default_factory=set)
    held: list[WrittenPoint] = field(default_factory=list)
    has_late: bool = False

    def __post_init__(self) -> None:
        self.step = self.start

    def remember(self, points: Iterable[WrittenPoint]) -> None:
        """The last value of each metric among the points."""
        for point in points:
            self.names[point.name] = point.source
            if point.is_epoch and point.step == 0:
                self.from_zero.add(point.source)
            for written in self.metrics:
                if is_of(written, point) and self._is_best(written.metric.name, point.source):
                    self.values[written.metric.name] = point.value

    def report(self, points: Sequence[WrittenPoint]) -> bool:
        """Report them by step. Returns whether a later step was reported.

        A step up to the start was reported before, and is not reported again.
        """
        self.remember(points)
        self._choose_sources(points)
        by_step: dict[int, dict[str, float]] = {}
        last = self.step
        for point in points:
            if self.curves[self._label(point)] != point.source:
                continue
            step = last = self._step(point, last)
            if step >= self.planned:
                self.held.append(replace(point, step=step, is_epoch=False))
            elif step > self.start:
                by_step.setdefault(step, {})[self._label(point)] = point.value
        began = self.step
        for step in sorted(by_step):
            if step >= self.step:
                self.trial.report(step, by_step[step])
                self.step = step
            else:
                self._note_late(step)
        return self.step > began

    def release(self) -> None:
        """Report what was held: the command has ended."""
        self.planned = math.inf
        self.report(self.held)

    def report_values(self, step: int) -> None:
        """Report the last values after this step, if nothing was reported so far."""
        if self.step == 0 and self.values:
            by_name = {written.metric.name: written.metric.set for written in self.metrics}
            values = {f"{by_name[name]}/{name}": value for name, value in self.values.items()}
            self.trial.report(step, values)
            self.step = step

    def scores(self) -> Mapping[str, dict[str, float]]:
        """The last value of each metric, by set."""
        by_set: dict[str, dict[str, float]] = {}
        for written in self.metrics:
            if written.metric.name in self.values:
                value = self.values[written.metric.name]
                by_set.setdefault(written.metric.set, {})[written.metric.name] = value
        return by_set

    def missing(self) -> list[WrittenMetric]:
        """The metrics of the table that the command did not write."""
        tabled = [written for written in self.metrics if written.metric.tabled]
        return [written for written in tabled if written.metric.name not in self.values]

    def _is_best(self, name: str, source: str) -> bool:
        """Whether no better source gives the metric: which one is written last is a matter of
        time."""
        best = self.sources.setdefault(name, source)
        if source != best and name not in self.doubled:
            self.doubled.add(name)
            first, second = sorted((best, source), key=source_rank)
            self.trial.notice(
                f"{name} is in {first} and in {second}; {first} counts, unless "
                "you name one as source:"
            )
        if source_rank(source) > source_rank(best):
            return False
        self.sources[name] = source
        return True

    def _choose_sources(self, points: Iterable[WrittenPoint]) -> None:
        """Two sources of a name may count or round differently, so its curve is that of one."""
        for point in points:
            label = self._label(point)
            best = self.curves.setdefault(label, point.source)
            self.curves[label] = min(best, point.source, key=source_rank)

    def _step(self, point: WrittenPoint, last: int) -> int:
        """Its own step, or else the ``last`` one, or its number."""
        if point.is_epoch and point.step is None:
            self.in_parts.add(point.source)
        in_parts = self.counts and point.is_epoch and point.source in self.in_parts
        if point.step is None or in_parts:
            return self._counted(point.name, last)
        if not point.is_epoch:
            return point.step
        step = point.step + 1 if point.source in self.from_zero else point.step
        self.numbers[point.name] = step  # from which parts of epochs count on
        return step

    def _counted(self, name: str, last: int) -> int:
        if not self.counts:
            return last
        self.numbers[name] += 1
        return max(last, self.numbers[name])

    def _label(self, point: WrittenPoint) -> str:
        """The name in the journal: a metric's is its set and name, as for any task."""
        for written in self.metrics:
            if is_of(written, point):
                return f"{written.metric.set}/{written.metric.name}"
        return point.name

    def _note_late(self, step: int) -> None:
        if not self.has_late:
            self.has_late = True
            text = f"points of step {step} came after step {self.step}: curves lack such points"
            self.trial.notice(text)


def is_of(written: WrittenMetric, point: WrittenPoint) -> bool:
    """Whether the point gives a value of the metric."""
    has_source = written.source is None or point.comes_from(written.source)
    return written.point == point.name and has_source
