"""Scatter plots: the first metrics against parameters and FLOPs. Published points are hollow."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Card, Metric
from tracking.report.drawing import (
    INK,
    LEGEND_LINE,
    PAPER,
    SERIES,
    Drawing,
    Entry,
    axis_number,
    legend_below,
    new_figure,
    shortened,
    styled,
)
from tracking.statistics.table_row import BASE
from tracking.table.columns import PARAMS
from tracking.words import flops, parameters

MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">")
PLOT_HEIGHT = 1.9  # inches, with title and axis
MOST_METRICS = 3
NUDGE = 0.014  # of the cost: between points of equal cost
GROUP_LETTERS = 14
LEGEND_LETTERS = 52  # of one line
Style = tuple[str, str]
"""Color and marker of a group."""


@dataclass(frozen=True)
class Cost:
    """The x axis of a figure; ``field`` is that of ``RowCosts``."""

    field: str
    label: str
    write: Callable[[float | None], str]


COSTS = (Cost("params", "parameters", parameters), Cost("flops", "FLOPs", flops))


@dataclass(frozen=True)
class Dot:
    """One row: its cost, its score, the standard deviation over seeds, and its tooltip."""

    entry: Entry
    cost: float
    score: float
    sd: float | None
    text: str


def scatters(card: Card, entries: Sequence[Entry]) -> list[Drawing]:
    """Each of the first metrics against parameters and against FLOPs; a cost that no row knows has
    no figure."""
    drawings = list[Drawing]()
    for metric in card.tabled[:MOST_METRICS]:
        for cost in COSTS:
            dots = list(_dots(metric, entries, cost))
            published_dots = list(_published_dots(metric, entries, cost))
            if dots:
                drawings.append(_scatter(metric, cost, dots, published_dots, _styles(entries)))
    return drawings


def _dots(metric: Metric, entries: Sequence[Entry], cost: Cost) -> Iterator[Dot]:
    for entry in entries:
        row = entry.row
        x = getattr(row.costs, cost.field)
        score = row.scores[metric.name]
        if x and score is not None:
            sd = row.sd.get(metric.name)
            spread = f" ± {metric.text(sd)}" if sd is not None else ""
            text = f"{entry.full}: {metric.text(score)}{spread}, {cost.write(x)}"
            yield Dot(entry, x, score, sd, text)


def _published_dots(metric: Metric, entries: Sequence[Entry], cost: Cost) -> Iterator[Dot]:
    """At the published parameters, where a blank cell means base's; at our own FLOPs, which nobody
    published."""
    base_millions = next(
        (entry.row.published.get(PARAMS) for entry in entries if entry.is_base), None
    )
    for entry in entries:
        row = entry.row
        score = row.published.get(metric.name)
        millions = row.published.get(PARAMS) or base_millions
        x = row.costs.flops
        if cost.field == "params":
            x = millions * 1e6 if millions else None
        if x and score is not None:
            text = f"{entry.full}: {metric.text(score)} published, {cost.write(x)}"
            yield Dot(entry, x, score, None, text)


def _scatter(
    metric: Metric,
    cost: Cost,
    dots: Sequence[Dot],
    published_dots: Sequence[Dot],
    styles: dict[str, Style],
) -> Drawing:
    """Published points have a plot of their own, below ours."""
    plots = 2 if published_dots else 1
    all_dots = [*dots, *published_dots]
    drawn_groups = {dot.entry.row.group for dot in all_dots}
    groups = [group for group in styles if group in drawn_groups]
    longest_group = max(map(len, groups))
    legend_columns = max(1, LEGEND_LETTERS // (4 + min(GROUP_LETTERS, longest_group)))
    legend_lines = -(-len(groups) // legend_columns)
    with styled():
        height = PLOT_HEIGHT * plots + LEGEND_LINE * legend_lines + 0.12
        figure, all_axes = new_figure(height, plots)
        title = f"{metric.label} against {cost.label}"
        description = f"{title}: {'; '.join(dot.text for dot in all_dots)}"
        drawing = Drawing(f"{metric.name}-against-{cost.field}", title, description, figure)
        all_axes[0].set_title(f"{metric.label}, this study")
        _add_dots(drawing, all_axes[0], cost.label, dots, styles, hollow=False)
        if published_dots:
            all_axes[1].set_title(f"{metric.label}, published")
            is_ours = " of this study" if cost.field == "flops" else ""
            axis_label = f"{cost.label}{is_ours}"
            _add_dots(drawing, all_axes[1], axis_label, published_dots, styles, hollow=True)
        signs = [(shortened(group, GROUP_LETTERS), _sign(*styles[group])) for group in groups]
        legend_below(figure, signs, legend_columns)
    return drawing


def _add_dots(
    drawing: Drawing,
    axes: Any,
    axis_label: str,
    dots: Sequence[Dot],
    styles: dict[str, Style],
    hollow: bool,
) -> None:
    axes.set_xlabel(axis_label, loc="right", labelpad=1)
    _set_cost_axis(axes, [dot.cost for dot in dots])
    for dot, x in zip(dots, _side_by_side(dots), strict=True):
        style = styles[dot.entry.row.group]
        _add_dot(drawing, axes, dot, x, style, hollow)


def _side_by_side(dots: Sequence[Dot]) -> Iterator[float]:
    """The x of each point: points of equal cost are a little apart, so that none hides another."""
    numbers = Counter(dot.cost for dot in dots)
    drawn = Counter[float]()
    for dot in dots:
        steps_from_center = drawn[dot.cost] - (numbers[dot.cost] - 1) / 2
        yield dot.cost * (1 + NUDGE * steps_from_center)
        drawn[dot.cost] += 1


def _add_dot(drawing: Drawing, axes: Any, dot: Dot, x: float, style: Style, hollow: bool) -> None:
    color, marker = style
    if dot.sd is not None:
        ends = [dot.score - dot.sd, dot.score + dot.sd]
        drawing.plot(axes, ([x, x], ends), dot.entry, dot.text, color=color, linewidth=0.9)
    marker_style: dict[str, Any] = {
        "markerfacecolor": PAPER if hollow else color,
        "markeredgecolor": color if hollow else PAPER,
        "markeredgewidth": 0.9 if hollow else 0.4,
        "linestyle": "none",
        "marker": marker,
        "color": color,
        "markersize": 5,
    }
    drawing.plot(axes, ([x], [dot.score]), dot.entry, dot.text, **marker_style)


def _sign(color: str, marker: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, marker=marker, markersize=4.2, linestyle="none")


def _set_cost_axis(axes: Any, costs: Sequence[float]) -> None:
    """A few numbers along the x axis, which is logarithmic if costs differ by more than three
    times."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.margins(x=0.06, y=0.12)
    if max(costs) <= 3 * min(costs):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    else:
        axes.set_xscale("log")
        is_wide = max(costs) > 1000 * min(costs)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(axis_number)


def _styles(entries: Sequence[Entry]) -> dict[str, Style]:
    """Color and marker of each group; base's has ink and a circle."""
    base_group = next((entry.row.group for entry in entries if entry.is_base), BASE)
    styles = {base_group: (INK, "o")}
    for entry in entries:
        if entry.row.group not in styles:
            number = len(styles) - 1
            color = SERIES[number % len(SERIES)]
            marker = MARKERS[(number + number // len(SERIES)) % len(MARKERS)]
            styles[entry.row.group] = (color, marker)
    return styles
