"""Forest plots: each row's difference from the reference with its interval, and the published one hollow below it."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tracking.card import Metric
from tracking.report.drawing import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    PAPER,
    PURPLE,
    RULE,
    VERMILION,
    Drawing,
    Entry,
    label_ticks,
    new_figure,
    plain,
    shortened,
    styled,
)
from tracking.statistics.finding import SAYS, Kind, label
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.words import signed

LINE, HEAD, TOP, FOOT, SECOND = 0.215, 0.26, 0.17, 0.58, 0.12
"""Inches: a row, the title, a second scale, numbers and legend, a further line of the legend."""
COLUMNS = 2  # of the legend
NAMES = 0.52  # of the width
LETTERS = 27
APART = 3  # published differences that are so many times larger or smaller have a scale of their own
COLORS: dict[Kind | None, str] = {
    "better": BLUE,
    "better by": BLUE,
    "worse": PURPLE,
    "worse within": PURPLE,
    "no worse": GREEN,
}
FAR = 12  # times the median: a row that diverged lies at the edge, with its number


@dataclass(frozen=True)
class Difference:
    """One row and metric. Without an interval the difference is not tested."""

    entry: Entry
    value: float
    interval: tuple[float, float] | None = None
    kind: Kind | None = None  # what the test over seeds says; None without one
    mark: str = ""  # of the table
    published: float | None = None
    words: str = ""  # what is said when pointed at


def differences(
    metric: Metric, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings
) -> list[Difference]:
    """Of one metric, in the order of the table. A row without a difference is left out; the table says why."""
    return [
        _difference(metric, row, entry, findings, value)
        for row, entry in zip(rows, entries, strict=True)
        if row.row != findings.reference and (value := row.deltas[metric.name]) is not None
    ]


def _difference(metric: Metric, row: TableRow, entry: Entry, findings: Findings, value: float) -> Difference:
    mark, ends = findings.mark(row, metric), findings.interval(row, metric)
    test, said = findings.test(row, metric), findings.words(row, metric)
    kind = test.finding.kind if test else None
    return Difference(entry, value, ends, kind, mark, row.published_deltas.get(metric.name), said)


def forest(metric: Metric, differences: Sequence[Difference], reference: str) -> Drawing | None:
    """One figure; None without a difference."""
    if not differences:
        return None
    edge, paper = _edges(differences)
    head = HEAD + TOP * (paper != edge)
    signs = len({each.kind for each in differences if each.interval}) + any(not each.interval for each in differences)
    signs += any(each.published is not None for each in differences)
    foot = FOOT + SECOND * ((signs - 1) // COLUMNS)
    height = head + foot + LINE * len(differences)
    with styled():
        figure, (axes,) = new_figure(height)
        figure.subplots_adjust(left=NAMES, right=0.965, top=1 - head / height, bottom=foot / height)
        named = f"Δ{metric.label}"
        words = f"{named} from {reference}: " + "; ".join(_sentence(each, metric) for each in differences)
        drawing = Drawing(f"differences-{metric.name}", f"{named} from {reference}", words, figure)
        _frame(axes, metric, len(differences), edge)
        if paper != edge:
            _own_scale(axes, edge / paper)
        for place, each in enumerate(differences):
            _name(drawing, axes, place, each, place > 0 and differences[place - 1].entry.group != each.entry.group)
            _row(drawing, axes, place, each, metric, (edge, paper))
        plain(figure.text(0.012, 1 - 0.12 / height, drawing.title, fontweight="bold", va="center"))
        _legend(figure, differences, "published (top)" if paper != edge else "published", height)
    return drawing


def _row(drawing: Drawing, axes: Any, place: int, each: Difference, metric: Metric, edges: tuple[float, float]) -> None:
    edge, paper = edges
    color, text = COLORS.get(each.kind, MUTED), _sentence(each, metric)
    if each.published is not None:
        marker, at = _at(each.published * edge / paper, edge, "D")
        (hollow,) = axes.plot(
            [at],
            [place + 0.27],
            marker=marker,
            markersize=3.6,
            markerfacecolor=PAPER,
            markeredgecolor=VERMILION,
            markeredgewidth=0.9,
            linestyle="none",
        )
        drawing.mark(hollow, each.entry.place, text)
    if each.interval is not None:
        low, high = (max(-edge, min(edge, end)) for end in each.interval)
        (bar,) = axes.plot([low, high], [place - 0.08] * 2, color=color, linewidth=1.5, solid_capstyle="butt")
        drawing.mark(bar, each.entry.place, text)
    marker, at = _at(each.value, edge, "o" if each.interval is not None else "|")
    size = 6 if marker == "|" else 4.2
    (dot,) = axes.plot([at], [place - 0.08], marker=marker, markersize=size, color=color, linestyle="none")
    drawing.mark(dot, each.entry.place, text)


def _name(drawing: Drawing, axes: Any, place: int, each: Difference, begins: bool) -> None:
    transform = axes.get_yaxis_transform()
    lines = _two_lines(each.entry.label)
    for number, line in enumerate(lines):  # each by its own end, whatever the page's font
        at, size = place + 0.39 * (number - (len(lines) - 1) / 2), 5.8 if len(lines) > 1 else 6.3
        label = axes.text(-0.03, at, line, transform=transform, ha="right", va="center", fontsize=size)
        drawing.mark(plain(label), each.entry.place)
    if each.mark:
        drawing.mark(
            axes.text(1.005, place, each.mark, transform=transform, va="center", fontsize=7.5), each.entry.place
        )
    if place == 0 or begins:
        group = shortened(each.entry.group, 5)
        plain(axes.text(-0.985, place, group, transform=transform, va="center", fontweight="bold", fontsize=7))
    if begins:
        axes.plot([-0.985, 1], [place - 0.5] * 2, transform=transform, color=RULE, linewidth=0.6, clip_on=False)


def _two_lines(label: str) -> list[str]:
    """Broken after a comma where possible: `d_k = d_v = 16` stays together."""
    parts = [part.replace(" ", "\N{NO-BREAK SPACE}") if len(part) < LETTERS else part for part in label.split(", ")]
    lines = textwrap.wrap(", ".join(parts), LETTERS) or [label]
    return [lines[0], *([shortened(" ".join(lines[1:]), LETTERS)] if len(lines) > 1 else [])]


def _frame(axes: Any, metric: Metric, count: int, edge: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlim(-edge * 1.06, edge * 1.06)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    label_ticks(axes.xaxis, _tick)
    side, words = ("right", "better →") if metric.better == "up" else ("left", "← better")
    axes.set_xlabel(words, loc=side, labelpad=1.5, fontsize=7, color=MUTED)


def _legend(figure: Any, differences: Sequence[Difference], paper: str, height: float) -> None:
    from matplotlib.lines import Line2D

    def sign(marker: str, color: str, **more: Any) -> Any:
        return Line2D([], [], marker=marker, color=color, markersize=4, linewidth=1.4, **more)

    hollow = {"markerfacecolor": PAPER, "linestyle": "none", "markeredgewidth": 0.9}
    kinds, bare = {each.kind for each in differences}, [each for each in differences if not each.interval]
    signs = [
        *((label(kind), sign("o", COLORS.get(kind, MUTED))) for kind in SAYS if kind in kinds),
        *([("not tested", sign("|", MUTED, linestyle="none"))] if bare else []),
        *([(paper, sign("D", VERMILION, **hollow))] if any(e.published is not None for e in differences) else []),
    ]
    names, handles = [name for name, _ in signs], [handle for _, handle in signs]
    figure.legend(
        handles,
        names,
        loc="lower left",
        bbox_to_anchor=(0.01, 0.04 / height),
        ncols=COLUMNS,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.2,
        handlelength=1.8,
        handletextpad=0.5,
    )


def _edges(differences: Sequence[Difference]) -> tuple[float, float]:
    """Half of the axis for our differences, and for the published ones: the same, unless one would hide the other."""
    ours = _edge([max(map(abs, (each.value, *(each.interval or ())))) for each in differences])
    paper = _edge([abs(each.published) for each in differences if each.published is not None])
    if paper is None or ours is None or max(ours, paper) <= APART * min(ours, paper):
        both = max(ours or 0, paper or 0) or 1.0
        return both, both
    return ours, paper


def _edge(ends: Sequence[float]) -> float | None:
    """The farthest end, unless it is far from all others; None if all are 0."""
    return min(max(ends), FAR * median(ends) or max(ends)) or None if ends else None


def _own_scale(axes: Any, ratio: float) -> None:
    """A second scale at the top for published differences, with the same zero."""
    from matplotlib.ticker import MaxNLocator

    top = axes.secondary_xaxis("top", functions=(lambda value: value / ratio, lambda value: value * ratio))
    top.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    top.tick_params(colors=VERMILION, labelcolor=VERMILION, pad=1)
    top.spines["top"].set_color(VERMILION)
    label_ticks(top.xaxis, _tick)


def _tick(value: float) -> str:
    return f"{value:+.10g}".replace("-", "−") if value else "0"


def _at(value: float, edge: float, marker: str) -> tuple[str, float]:
    """The marker and its place; an arrow at the edge for a value beyond it."""
    if abs(value) <= edge:
        return marker, value
    return (">", edge) if value > 0 else ("<", -edge)


def _sentence(each: Difference, metric: Metric) -> str:
    places = metric.places
    ends = f" [{', '.join(signed(end, places) for end in each.interval)}]" if each.interval else ""
    paper = f", published {signed(each.published, places)}" if each.published is not None else ""
    words = f", {each.words}" if each.words else ""
    return f"{each.entry.full}: {signed(each.value, places)}{ends}{words}{paper}"
