"""Learning curves for a terminal: one small plot per row, read only from the journals.

All plots share their axes. Each seed is a thin line; dots are the mean of base. No color is needed.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.problems import Typo, refusal
from tracking.card import Metric
from tracking.files import unless_damaged
from tracking.statistics.table_row import BASE
from tracking.study import Study
from tracking.words import number

HIDDEN = "system/"
"""Reported values that are no result of training."""
NARROWEST = 38  # width of one plot, in characters
WIDEST = 60
HEIGHT = 12  # of one plot, in lines
GAP = "  "
CURVE_POINTS = 240
"""The most points of a line to draw: three per column of the widest plot."""
LOGARITHMIC = 20
"""The ratio of the largest to the smallest value above which the scale is logarithmic."""

PlottedSeed = list[tuple[int, float]]  # step and value


@dataclass(frozen=True)
class StudyCurves:
    """One metric of a study over steps: by row, a curve per seed that has reported it."""

    metric: str  # as the journals name it
    rows: dict[str, list[PlottedSeed]]


def read_curves(study: Study, metric: str | None = None) -> StudyCurves:
    """The curves of ``metric`` for rows that train; by default the headline on its set, on another
    set, or else the first one reported.

    Raises RefusedError for a metric that no journal has.
    """
    trained = [trial for trial in study.trials if not trial.weights]
    journals = [
        (trial.row, unless_damaged(study.trial_folder(trial).journal, [])) for trial in trained
    ]
    names: dict[str, None] = {}  # in the order of their first report
    for _, journal in journals:
        for line in journal:
            names |= dict.fromkeys(line.metrics)
    reported = tuple(name for name in names if not name.startswith(HIDDEN))
    chosen = _usual(study.task.headline, reported) if metric is None else metric
    if metric is not None and metric not in names:
        allowed = f"the trials of {study.name} report {', '.join(reported) or 'nothing yet'}"
        raise refusal("--metric", f'is "{metric}"', allowed, Typo(metric, tuple(reported)))
    rows: dict[str, list[PlottedSeed]] = {trial.row: [] for trial in trained}
    for row, journal in journals:
        if curve := [
            (line.step, line.metrics[chosen]) for line in journal if chosen in line.metrics
        ]:
            rows[row].append(curve)
    return StudyCurves(chosen, rows)


def _usual(headline: Metric, reported: Sequence[str]) -> str:
    """The headline on its set if reported, else on another set, else the first reported metric."""
    default = f"{headline.set}/{headline.name}"
    if default in reported:
        return default
    for name in reported:
        if name.endswith(f"/{headline.name}"):
            return name
    return reported[0] if reported else default


def drawn(study: Study, curves: StudyCurves, width: int) -> str:
    """The plots in lines of at most ``width`` characters, or one line if no trial has reported the
    metric."""
    names = {f"{metric.set}/{metric.name}": metric for metric in reversed(study.task.metrics)}
    metric = names.get(curves.metric)
    name = f"{metric.set} {metric.label}" if metric else curves.metric
    begun = [row for row, seeds in curves.rows.items() if seeds]
    if not begun:
        return f"{study.name}: no trial has reported {name} yet\n"
    columns = max(1, (width + len(GAP)) // (NARROWEST + len(GAP)))
    panel_width = min(WIDEST, (width + len(GAP)) // columns - len(GAP))
    frame = _Frame.of(curves, metric.decimals if metric else 3)
    panels = [frame.panel(row, max(panel_width, 20)) for row in begun]
    lines = textwrap.wrap(_caption(study, curves, name, frame), width)
    for start in range(0, len(panels), columns):
        line_parts = zip(*panels[start : start + columns], strict=True)
        lines += ["", *(GAP.join(parts).rstrip() for parts in line_parts)]
    waiting = [row for row, seeds in curves.rows.items() if not seeds]
    if waiting:
        lines += ["", *textwrap.wrap(f"Nothing reported yet: {', '.join(waiting)}", width)]
    return "\n".join(lines) + "\n"


def _caption(study: Study, curves: StudyCurves, name: str, frame: "_Frame") -> str:
    dots = "; dots: the mean of base" if curves.rows.get(BASE) and len(curves.rows) > 1 else ""
    scale = ", logarithmic scale" if frame.logarithmic else ""
    return (
        f"{study.name}: {name} over training steps{scale}. A line per seed{dots}. "
        "The number is the last mean."
    )


@dataclass(frozen=True)
class _Frame:
    """What all plots share: both axes, and how numbers are written."""

    curves: StudyCurves
    decimals: int
    last: int  # step
    low: float
    high: float
    logarithmic: bool

    @staticmethod
    def of(curves: StudyCurves, decimals: int) -> "_Frame":
        points: PlottedSeed = []
        for seeds in curves.rows.values():
            for curve in seeds:
                points += curve
        values = [value for _, value in points]
        low = min(values)
        high = max(values)
        logarithmic = low > 0 and high / low > LOGARITHMIC
        if low == high:
            low = low - 1
            high = high + 1
        last = max(step for step, _ in points)
        return _Frame(curves, decimals, last, low, high, logarithmic)

    def panel(self, row: str, width: int) -> list[str]:
        """One plot as ``HEIGHT`` lines of ``width`` characters, the first with the row's name and
        last mean value."""
        import plotext

        figure = plotext.figure
        figure.clear.all()
        figure.theme("colorless").plot_size(width, HEIGHT - 1)
        if row != BASE and self.curves.rows.get(BASE):
            self._draw(figure, mean(self.curves.rows[BASE]), "·")
        for curve in self.curves.rows[row]:
            self._draw(figure, curve, "braille")
        self._rule(figure)
        lines = plotext.uncolorize(figure.build().string()).rstrip("\n").split("\n")
        _, last_mean = mean(self.curves.rows[row])[-1]
        value = f" {self.text(last_mean)}"
        name_width = width - len(value)
        title = f"{row[:name_width]:<{name_width}}{value}"
        return [title, *(f"{line:<{width}}" for line in lines)]

    def _draw(self, figure: Any, curve: PlottedSeed, marker: str) -> None:
        every = math.ceil(len(curve) / CURVE_POINTS)
        steps, values = zip(*curve[::-every][::-1], strict=True)  # the last point is always drawn
        signal = figure.signal(
            list(steps), [self._height(value) for value in values], marker=marker
        )
        figure.draw(signal.lines())

    def _rule(self, figure: Any) -> None:
        middle = (self.low + self.high) / 2
        if self.logarithmic:
            middle = math.sqrt(self.low) * math.sqrt(self.high)
        values = [self.low, middle, self.high]
        y = figure.ruler("y")
        x = figure.ruler("x")
        y.lim(self._height(self.low), self._height(self.high))
        y.ticks([self._height(value) for value in values], [self.text(value) for value in values])
        x.lim(0, self.last)
        x.ticks([0, self.last], ["0", str(self.last)])
        figure.axes(False, axis="x", side="upper")
        figure.axes(False, axis="y", side="right")

    def _height(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def text(self, value: float) -> str:
        return number(value, self.decimals)


def mean(seeds: Iterable[PlottedSeed]) -> PlottedSeed:
    """The mean over the seeds at the steps that they share; the first seed's curve if they share
    none."""
    curves = [dict(curve) for curve in seeds]
    shared = sorted(set.intersection(*map(set, curves)))
    if not shared:
        return sorted(curves[0].items())
    means: PlottedSeed = []
    for step in shared:
        total = math.fsum(curve[step] for curve in curves)
        means.append((step, total / len(curves)))
    return means
