"""The headline scores of each row against a cost: this study above, the published rows hollow below."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Card, Metric
from tracking.report.drawing import (
    INK,
    PAPER,
    SERIES,
    Drawing,
    Entry,
    counted,
    label_ticks,
    legend_below,
    new_figure,
    plain,
    shortened,
    styled,
)
from tracking.statistics.rows import BASE, TableRow
from tracking.table.columns import PARAMS
from tracking.words import flops, parameters

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
PLOT, FRAME, SIGN = 1.9, 0.12, 0.14  # inches: a plot with its title and axis, around all, a line of the legend
MOST = 3  # metrics
LETTERS = 14  # of a group's name
APART = 0.014  # of their cost: rows of one cost stand side by side
Write = Callable[[float | None], str]
Styles = dict[str, tuple[str, str]]  # color and marker by group


@dataclass(frozen=True)
class Point:
    """One row: its cost, its score, and the standard deviation over seeds."""

    entry: Entry
    cost: float
    score: float
    sd: float | None
    words: str


def scatters(card: Card, rows: Sequence[TableRow], entries: Sequence[Entry]) -> list[Drawing]:
    """Each of the first metrics against parameters and against FLOPs; a cost that no row knows has no figure."""
    costs: tuple[tuple[str, str, Write], ...] = (("params", "parameters", parameters), ("flops", "FLOPs", flops))
    both = list(zip(rows, entries, strict=True))
    return [
        _scatter(metric, name, label, ours, _published(metric, both, name, write), _styles(entries))
        for metric in card.tabled[:MOST]
        for name, label, write in costs
        if (ours := _ours(metric, both, name, write))
    ]


def _ours(metric: Metric, rows: Sequence[tuple[TableRow, Entry]], cost: str, write: Write) -> list[Point]:
    found = []
    for row, entry in rows:
        x, y, sd = getattr(row, cost), row.scores[metric.name], row.sd.get(metric.name)
        if x and y is not None:
            spread = f" ± {metric.text(sd)}" if sd is not None else ""
            found.append(Point(entry, x, y, sd, f"{entry.full}: {metric.text(y)}{spread}, {write(x)}"))
    return found


def _published(metric: Metric, rows: Sequence[tuple[TableRow, Entry]], cost: str, write: Write) -> list[Point]:
    """At the published parameters, where a blank cell means base's; at our own FLOPs, which nobody published."""
    base = next((row.published.get(PARAMS) for row, _ in rows if row.row == BASE), None)
    found = []
    for row, entry in rows:
        y, millions = row.published.get(metric.name), row.published.get(PARAMS) or base
        x = row.flops if cost == "flops" else millions and millions * 1e6
        if x and y is not None:
            found.append(Point(entry, x, y, None, f"{entry.full}: {metric.text(y)} published, {write(x)}"))
    return found


def _scatter(
    metric: Metric, cost: str, label: str, ours: Sequence[Point], paper: Sequence[Point], styles: Styles
) -> Drawing:
    shown = {point.entry.group for point in (*ours, *paper)}
    marks = {group: style for group, style in styles.items() if group in shown}
    parts = [part for part in (ours, paper) if part]
    with styled():
        figure, plots = new_figure(FRAME + SIGN * -(-len(marks) // _in_a_line(marks)) + PLOT * len(parts), len(parts))
        title = f"{metric.label} against {label}"
        words = f"{title}: {'; '.join(point.words for part in parts for point in part)}"
        drawing = Drawing(f"{metric.name}-against-{cost}", title, words, figure)
        for axes, part in zip(plots, parts, strict=True):
            hollow = part is paper
            _points(drawing, axes, part, styles, hollow)
            plain(axes.set_title(f"{metric.label}, {'published' if hollow else 'this study'}"))
            of_ours = " of this study" if hollow and cost == "flops" else ""
            plain(axes.set_xlabel(f"{label}{of_ours}", loc="right", labelpad=1))
            _scale(axes, [point.cost for point in part])
        _legend(figure, marks)
    return drawing


def _in_a_line(groups: Iterable[str]) -> int:
    """How many groups the legend shows side by side."""
    letters = [4 + len(shortened(group, LETTERS)) for group in groups]
    return len(letters) if sum(letters) <= 52 else max(1, 52 // max(letters))


def _side_by_side(part: Sequence[Point]) -> list[float]:
    """Where the points stand: those of one cost a little apart, so that none hides another."""
    alike = defaultdict[float, list[Point]](list)
    for point in part:
        alike[point.cost].append(point)
    beside = {id(point): place - (len(of) - 1) / 2 for of in alike.values() for place, point in enumerate(of)}
    return [point.cost * (1 + APART * beside[id(point)]) for point in part]


def _points(drawing: Drawing, axes: Any, part: Sequence[Point], styles: Styles, hollow: bool) -> None:
    for point, x in zip(part, _side_by_side(part), strict=True):
        color, marker = styles[point.entry.group]
        if point.sd is not None:
            (bar,) = axes.plot([x] * 2, [point.score - point.sd, point.score + point.sd], color=color, lw=0.9)
            drawing.mark(bar, point.entry.place, point.words)
        inside, edge, width = (PAPER, color, 0.9) if hollow else (color, PAPER, 0.4)
        about = {"markerfacecolor": inside, "markeredgecolor": edge, "markeredgewidth": width, "linestyle": "none"}
        (dot,) = axes.plot([x], [point.score], marker=marker, color=color, markersize=5, **about)
        drawing.mark(dot, point.entry.place, point.words)


def _legend(figure: Any, marks: Styles) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=color, marker=shape, markersize=4.2, ls="none") for color, shape in marks.values()]
    legend_below(figure, handles, [shortened(group, LETTERS) for group in marks], _in_a_line(marks))


def _scale(axes: Any, costs: Sequence[float]) -> None:
    """A few numbers along the x axis, which is logarithmic if positive costs differ by more than three times."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.margins(x=0.06, y=0.12)
    if min(costs) <= 0 or max(costs) <= 3 * min(costs):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    else:
        axes.set_xscale("log")
        wide = max(costs) > 1000 * min(costs)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
    label_ticks(axes.xaxis, counted)
    label_ticks(axes.yaxis)


def _styles(entries: Sequence[Entry]) -> Styles:
    """The group of base has ink and a circle."""
    base = next((entry.group for entry in entries if entry.row == BASE), BASE)
    others = [group for group in dict.fromkeys(entry.group for entry in entries) if group != base]
    shapes = MARKERS[1:]
    found = {
        group: (SERIES[place % len(SERIES)], shapes[(place + place // len(SERIES)) % len(shapes)])
        for place, group in enumerate(others)
    }
    return {base: (INK, MARKERS[0])} | found
