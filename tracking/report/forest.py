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
    legend_below,
    new_figure,
    plain,
    shortened,
    styled,
)
from tracking.statistics.finding import SAYS, Kind, label
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.words import signed

LINE, FRAME, TOP, SIGN = 0.23, 0.68, 0.2, 0.13
"""Inches: a row, title and axis, a second scale, a line of the legend."""
COLUMNS = 2  # of the legend
LETTERS = 27
APART = 3  # published differences that are so many times larger or smaller have a scale of their own
COLORS: dict[Kind | None, str] = {
    "better": BLUE,
    "better by": BLUE,
    "worse": PURPLE,
    "worse within": PURPLE,
    "no worse": GREEN,
}
HOLLOW = {"markerfacecolor": PAPER, "markeredgecolor": VERMILION, "markeredgewidth": 0.9, "linestyle": "none"}
FAR = 12  # times the median: a row that diverged lies at the edge, with its number


@dataclass(frozen=True)
class Difference:
    """One row and metric. Without an interval the difference is not tested."""

    entry: Entry
    value: float
    interval: tuple[float, float] | None
    kind: Kind | None  # what the test over seeds says; None without one
    mark: str  # of the table
    published: float | None
    text: str  # shown when pointed at


def forest(metric: Metric, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings) -> Drawing | None:
    """One figure, in the order of the table. A row without a difference is left out; the table says why. None without
    any."""
    shown = [
        _difference(metric, row, entry, findings, value)
        for row, entry in zip(rows, entries, strict=True)
        if row.row != findings.reference and (value := row.deltas[metric.name]) is not None
    ]
    return _drawn(metric, shown, findings.reference) if shown else None


def _difference(metric: Metric, row: TableRow, entry: Entry, findings: Findings, value: float) -> Difference:
    test, ends, published = (
        findings.test(row, metric),
        findings.interval(row, metric),
        row.published_deltas[metric.name],
    )
    interval = f" [{', '.join(signed(end, metric.places) for end in ends)}]" if ends else ""
    said = [f"{signed(value, metric.places)}{interval}", findings.words(row, metric)]
    said += [f"published {signed(published, metric.places)}"] if published is not None else []
    text = f"{entry.full}: {', '.join(filter(None, said))}"
    kind = test.finding.kind if test else None
    return Difference(entry, value, ends, kind, findings.mark(row, metric), published, text)


def _drawn(metric: Metric, shown: Sequence[Difference], reference: str) -> Drawing:
    edge, paper = _edges(shown)
    with styled():
        signs = _signs(shown, "published (top)" if paper != edge else "published")
        height = FRAME + LINE * len(shown) + TOP * (paper != edge) + SIGN * -(-len(signs) // COLUMNS)
        figure, (axes,) = new_figure(height)
        title = f"Δ{metric.label} from {reference}"
        drawing = Drawing(f"differences-{metric.name}", title, f"{title}: {'; '.join(e.text for e in shown)}", figure)
        plain(figure.suptitle(title, x=0.02, ha="left", fontsize="medium", fontweight="bold"))
        _frame(axes, metric, len(shown), edge)
        if paper != edge:
            _own_scale(axes, edge / paper)
        _names(drawing, axes, shown)
        for place, each in enumerate(shown):
            _row(drawing, axes, place, each, edge, edge / paper)
        legend_below(figure, [*signs.values()], [*signs], COLUMNS)
    return drawing


def _row(drawing: Drawing, axes: Any, place: int, each: Difference, edge: float, ratio: float) -> None:
    color = COLORS.get(each.kind, MUTED)
    if each.published is not None:
        marker, at = _at(each.published * ratio, edge, "D")
        (hollow,) = axes.plot([at], [place + 0.27], marker=marker, markersize=3.6, **HOLLOW)
        drawing.mark(hollow, each.entry.place, each.text)
    if each.interval is not None:
        low, high = (max(-edge, min(edge, end)) for end in each.interval)
        (bar,) = axes.plot([low, high], [place - 0.08] * 2, color=color, linewidth=1.5, solid_capstyle="butt")
        drawing.mark(bar, each.entry.place, each.text)
    marker, at = _at(each.value, edge, "o" if each.interval is not None else "|")
    size = 6 if marker == "|" else 4.2
    (dot,) = axes.plot([at], [place - 0.08], marker=marker, markersize=size, color=color, linestyle="none")
    drawing.mark(dot, each.entry.place, each.text)


def _names(drawing: Drawing, axes: Any, shown: Sequence[Difference]) -> None:
    """Left of the rows, their marks right of them, and a line between groups."""
    axes.set_yticks(range(len(shown)), [_two_lines(each.entry.full) for each in shown])
    for place, (each, name) in enumerate(zip(shown, axes.get_yticklabels(), strict=True)):
        name.set(fontsize=5.8 if "\n" in name.get_text() else 6.3, linespacing=1.0)
        drawing.mark(plain(name), each.entry.place)
        mark = axes.text(1.01, place, each.mark, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)
        drawing.mark(mark, each.entry.place)
        if place and shown[place - 1].entry.group != each.entry.group:
            axes.axhline(place - 0.5, color=RULE, linewidth=0.6)


def _two_lines(text: str) -> str:
    """Broken after a comma where possible: `d_k = d_v = 16` stays together."""
    parts = [part.replace(" ", "\N{NO-BREAK SPACE}") if len(part) < LETTERS else part for part in text.split(", ")]
    first, *rest = textwrap.wrap(", ".join(parts), LETTERS) or [text]
    return "\n".join([first, *([shortened(" ".join(rest), LETTERS)] if rest else [])])


def _frame(axes: Any, metric: Metric, count: int, edge: float) -> None:
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlim(-edge * 1.06, edge * 1.06)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=INK, linewidth=0.8)
    _scale(axes.xaxis)
    side, words = ("right", "better →") if metric.better == "up" else ("left", "← better")
    axes.set_xlabel(words, loc=side, labelpad=1.5, fontsize=7, color=MUTED)


def _scale(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    label_ticks(axis, lambda value: f"{value:+.10g}".replace("-", "−") if value else "0")


def _own_scale(axes: Any, ratio: float) -> None:
    """A second scale at the top for published differences, with the same zero."""
    top = axes.secondary_xaxis("top", functions=(lambda value: value / ratio, lambda value: value * ratio))
    top.tick_params(colors=VERMILION, labelcolor=VERMILION, pad=1)
    top.spines["top"].set_color(VERMILION)
    _scale(top.xaxis)


def _signs(shown: Sequence[Difference], paper: str) -> dict[str, Any]:
    """What the legend shows, by its words."""
    from matplotlib.lines import Line2D

    def sign(marker: str, color: str, **more: Any) -> Any:
        return Line2D([], [], marker=marker, color=color, markersize=4, linewidth=1.4, **more)

    kinds = {each.kind for each in shown}
    found = {label(kind): sign("o", COLORS.get(kind, MUTED)) for kind in SAYS if kind in kinds}
    if any(each.interval is None for each in shown):
        found["not tested"] = sign("|", MUTED, linestyle="none")
    if any(each.published is not None for each in shown):
        found[paper] = sign("D", VERMILION, **HOLLOW)
    return found


def _edges(shown: Sequence[Difference]) -> tuple[float, float]:
    """Half of the axis for our differences, and for the published ones: the same, unless one would hide the other."""
    ours = _edge([max(map(abs, (each.value, *(each.interval or ())))) for each in shown])
    paper = _edge([abs(each.published) for each in shown if each.published is not None])
    if paper is None or ours is None or max(ours, paper) <= APART * min(ours, paper):
        both = max(ours or 0, paper or 0) or 1.0
        return both, both
    return ours, paper


def _edge(ends: Sequence[float]) -> float | None:
    """The farthest end, unless it is far from all others; None if all are 0."""
    return min(max(ends), FAR * median(ends) or max(ends)) or None if ends else None


def _at(value: float, edge: float, marker: str) -> tuple[str, float]:
    """The marker and its place; an arrow at the edge for a value beyond it."""
    if abs(value) <= edge:
        return marker, value
    return (">", edge) if value > 0 else ("<", -edge)
