"""The headline score of each row against a cost: this study above, the published rows hollow below."""

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
    new_figure,
    plain,
    shortened,
    styled,
)
from tracking.statistics.rows import BASE, TableRow
from tracking.table.columns import PARAMS
from tracking.words import flops, parameters

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
PLOT, BETWEEN, HEAD, FOOT, LINE = 1.5, 0.5, 0.24, 0.42, 0.13  # inches
MOST = 3  # metrics
APART = 0.014  # of their cost: rows of one cost stand side by side
Write = Callable[[float | None], str]


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
    return [
        _scatter(metric, name, label, ours, _published(metric, rows, entries, name, write), entries)
        for metric in card.tabled[:MOST]
        for name, label, write in costs
        if (ours := _ours(metric, rows, entries, name, write))
    ]


def _ours(metric: Metric, rows: Sequence[TableRow], entries: Sequence[Entry], cost: str, write: Write) -> list[Point]:
    found = []
    for row, entry in zip(rows, entries, strict=True):
        x, y, sd = getattr(row, cost), row.scores[metric.name], row.sd.get(metric.name)
        if x and y is not None:
            spread = f" ± {metric.text(sd)}" if sd is not None else ""
            found.append(Point(entry, x, y, sd, f"{entry.full}: {metric.text(y)}{spread}, {write(x)}"))
    return found


def _published(
    metric: Metric, rows: Sequence[TableRow], entries: Sequence[Entry], cost: str, write: Write
) -> list[Point]:
    """At the published parameters, where a blank cell means base's; at our own FLOPs, which nobody published."""
    base = next((row.published.get(PARAMS) for row in rows if row.row == BASE), None)
    found = []
    for row, entry in zip(rows, entries, strict=True):
        y, millions = row.published.get(metric.name), row.published.get(PARAMS) or base
        x = row.flops if cost == "flops" else millions and millions * 1e6
        if x and y is not None:
            found.append(Point(entry, x, y, None, f"{entry.full}: {metric.text(y)} published, {write(x)}"))
    return found


def _scatter(
    metric: Metric, cost: str, label: str, ours: Sequence[Point], paper: Sequence[Point], entries: Sequence[Entry]
) -> Drawing:
    styles = _group_styles([entry.group for entry in entries], _base_group(entries))
    shown = [group for group in styles if any(point.entry.group == group for point in (*ours, *paper))]
    parts = [part for part in (ours, paper) if part]
    lines = -(-len(shown) // _in_a_line(shown))
    height = HEAD + FOOT + LINE * lines + PLOT * len(parts) + BETWEEN * (len(parts) - 1)
    with styled():
        figure, plots = new_figure(height, len(parts))
        figure.subplots_adjust(
            left=0.135,
            right=0.965,
            top=1 - HEAD / height,
            bottom=(FOOT + LINE * lines) / height,
            hspace=BETWEEN / PLOT,
        )
        words = f"{metric.label} against {label}: " + "; ".join(point.words for part in parts for point in part)
        drawing = Drawing(f"{metric.name}-against-{cost}", f"{metric.label} against {label}", words, figure)
        titles = (f"{metric.label}, this study", f"{metric.label}, published")
        for axes, part, title in zip(plots, parts, titles, strict=False):
            hollow = part is paper
            _points(drawing, axes, part, styles, hollow)
            at = f"{label} of this study" if hollow and cost == "flops" else label
            _axes(axes, title, at, [point.cost for point in part])
        _legend(figure, styles, shown, height)
    return drawing


def _in_a_line(groups: Sequence[str]) -> int:
    """How many groups the legend shows side by side."""
    letters = [4 + len(shortened(group, 14)) for group in groups]
    return len(groups) if sum(letters) <= 52 else max(1, 52 // max(letters))


def _side_by_side(part: Sequence[Point]) -> list[float]:
    """Where the points stand: those of one cost a little apart, so that none hides another."""
    alike: dict[float, list[Point]] = {}
    for point in part:
        alike.setdefault(point.cost, []).append(point)
    return [
        point.cost * (1 + APART * (of.index(point) - (len(of) - 1) / 2)) for point in part for of in [alike[point.cost]]
    ]


def _base_group(entries: Sequence[Entry]) -> str:
    return next((entry.group for entry in entries if entry.row == BASE), BASE)


def _points(
    drawing: Drawing, axes: Any, part: Sequence[Point], styles: dict[str, tuple[str, str]], hollow: bool
) -> None:
    for point, x in zip(part, _side_by_side(part), strict=True):
        color, marker = styles[point.entry.group]
        if point.sd is not None:
            (bar,) = axes.plot([x] * 2, [point.score - point.sd, point.score + point.sd], color=color, lw=0.9)
            drawing.mark(bar, point.entry.place, point.words)
        (dot,) = axes.plot(
            [x],
            [point.score],
            marker=marker,
            color=color,
            markersize=5,
            linestyle="none",
            markerfacecolor=PAPER if hollow else color,
            markeredgewidth=0.9 if hollow else 0.4,
            markeredgecolor=color if hollow else PAPER,
        )
        drawing.mark(dot, point.entry.place, point.words)


def _axes(axes: Any, title: str, label: str, costs: Sequence[float]) -> None:
    plain(axes.set_title(title))
    plain(axes.set_xlabel(label, loc="right", labelpad=1))
    _place_costs(axes, costs)
    axes.margins(x=0.06, y=0.12)
    label_ticks(axes.xaxis, counted)
    label_ticks(axes.yaxis, lambda value: f"{value:.10g}".replace("-", "−"))


def _legend(figure: Any, styles: dict[str, tuple[str, str]], groups: Sequence[str], height: float) -> None:
    from matplotlib.lines import Line2D

    marks = {group: styles[group] for group in groups}
    handles = [Line2D([], [], color=color, marker=shape, markersize=4.2, ls="none") for color, shape in marks.values()]
    legend = figure.legend(
        handles,
        [shortened(group, 14) for group in groups],
        loc="lower left",
        bbox_to_anchor=(0.02, 0.03 / height),
        ncols=_in_a_line(groups),
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.1,
        handlelength=1.0,
        handletextpad=0.4,
        labelspacing=0.25,
    )
    for text in legend.get_texts():
        plain(text)


def _place_costs(axes: Any, costs: Iterable[float]) -> None:
    """A few numbers along the x axis, which is logarithmic if positive costs differ by more than three times."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    known = list(costs)
    if min(known) <= 0 or max(known) <= 3 * min(known):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        return
    axes.set_xscale("log")
    decades = max(known) / min(known)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 1000 else (1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())


def _group_styles(groups: Sequence[str], base: str) -> dict[str, tuple[str, str]]:
    """Color and marker by group; the group of base has ink and a circle."""
    others = [group for group in dict.fromkeys(groups) if group != base]
    shapes = MARKERS[1:]
    found = {
        group: (SERIES[place % len(SERIES)], shapes[(place + place // len(SERIES)) % len(shapes)])
        for place, group in enumerate(others)
    }
    return {base: (INK, MARKERS[0])} | found
