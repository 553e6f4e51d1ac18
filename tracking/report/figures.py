"""The figures of rows, in which what the paper published is hollow.

Forest plots: each row's difference from the reference with its interval. Scatters: the headline
scores against a cost.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tracking.card import Card, Metric
from tracking.report.drawing import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    PAPER,
    PURPLE,
    RULE,
    SERIES,
    VERMILION,
    Drawing,
    Entry,
    counted,
    legend_below,
    new_figure,
    shortened,
    styled,
)
from tracking.statistics.finding import SAYS, FindingKind, label
from tracking.statistics.findings import Findings
from tracking.statistics.rows import BASE
from tracking.table.columns import PARAMS
from tracking.table.tested_captions import reference_words
from tracking.words import flops, parameters, signed

LINE, FRAME, TOP, SIGN = 0.23, 0.68, 0.2, 0.13
"""Inches: a row, title and axis, a second scale, a line of the legend."""
LEGEND_COLUMNS = 2  # of the legend
ROW_LETTERS = 27
APART = (
    3  # published differences that are so many times larger or smaller have a scale of their own
)
COLORS: dict[FindingKind | None, str] = {
    "better": BLUE,
    "better by": BLUE,
    "worse": PURPLE,
    "worse within": PURPLE,
    "no worse": GREEN,
}
HOLLOW_MARKER = {
    "markerfacecolor": PAPER,
    "markeredgecolor": VERMILION,
    "markeredgewidth": 0.9,
    "linestyle": "none",
}
FAR = 12  # times the median: a row that diverged lies at the edge, with its number
MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">")
PLOT = 1.9  # inches: a scatter with its title and axis
MOST = 3  # metrics with scatters
NUDGE = 0.014  # of their cost
LONGEST_GROUP, LEGEND_LETTERS = 14, 52  # letters of a group's name, and of a line of the legend
Write = Callable[[float | None], str]
Styles = dict[str, tuple[str, str]]  # color and marker by group


@dataclass(frozen=True)
class Difference:
    """One row and metric. Without an interval the difference is not tested."""

    entry: Entry
    value: float
    interval: tuple[float, float] | None
    kind: FindingKind | None  # what the test over seeds says; None without one
    mark: str  # of the table
    published: float | None
    text: str  # shown when pointed at


def forest(metric: Metric, entries: Sequence[Entry], findings: Findings) -> Drawing | None:
    """One figure, in the order of the table. A row without a difference is left out; the table says
    why. None without any."""
    others = [entry for entry in entries if entry.row.row != findings.reference]
    shown = [
        _difference(metric, entry, findings, value)
        for entry in others
        if (value := entry.row.deltas[metric.name]) is not None
    ]
    references = reference_words([each.entry.row for each in shown], findings.reference)
    return _drawn(metric, shown, references) if shown else None


def _difference(metric: Metric, entry: Entry, findings: Findings, value: float) -> Difference:
    row = entry.row
    test = findings.test(row, metric)
    ends = findings.interval(row, metric)
    published = row.published_deltas[metric.name]
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
        height = (
            FRAME
            + LINE * len(shown)
            + TOP * (paper != edge)
            + SIGN * -(-len(signs) // LEGEND_COLUMNS)
        )
        figure, (axes,) = new_figure(height)
        title = f"Δ{metric.label} from {reference}"
        drawing = Drawing(
            f"differences-{metric.name}",
            title,
            f"{title}: {'; '.join(e.text for e in shown)}",
            figure,
        )
        figure.suptitle(title, x=0.02, ha="left", fontsize="medium", fontweight="bold")
        _frame(axes, metric, len(shown), edge)
        if paper != edge:
            _own_scale(axes, edge / paper)
        _names(drawing, axes, shown)
        for place, each in enumerate(shown):
            _row(drawing, axes, place, each, edge, edge / paper)
        legend_below(figure, [*signs.items()], LEGEND_COLUMNS)
    return drawing


def _row(
    drawing: Drawing, axes: Any, place: int, each: Difference, edge: float, ratio: float
) -> None:
    def plot(at: list[float], y: float, **style: Any) -> None:
        drawing.plot(axes, (at, [y] * len(at)), each.entry, each.text, **style)

    color = COLORS.get(each.kind, MUTED)
    if each.published is not None:
        marker, at = _at(each.published * ratio, edge, "D")
        plot([at], place + 0.27, marker=marker, markersize=3.6, **HOLLOW_MARKER)
    if each.interval is not None:
        ends = [max(-edge, min(edge, end)) for end in each.interval]
        plot(ends, place - 0.08, color=color, linewidth=1.5, solid_capstyle="butt")
    marker, at = _at(each.value, edge, "o" if each.interval is not None else "|")
    plot(
        [at],
        place - 0.08,
        marker=marker,
        markersize=6 if marker == "|" else 4.2,
        color=color,
        linestyle="none",
    )


def _names(drawing: Drawing, axes: Any, shown: Sequence[Difference]) -> None:
    """Left of the rows, their marks right of them, and a line between groups."""
    axes.set_yticks(range(len(shown)), [_two_lines(each.entry.full) for each in shown])
    for place, (each, name) in enumerate(zip(shown, axes.get_yticklabels(), strict=True)):
        name.set(fontsize=5.8 if "\n" in name.get_text() else 6.3, linespacing=1.0)
        drawing.mark(name, each.entry)
        mark = axes.text(
            1.01, place, each.mark, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5
        )
        drawing.mark(mark, each.entry)
        if place and shown[place - 1].entry.row.group != each.entry.row.group:
            axes.axhline(place - 0.5, color=RULE, linewidth=0.6)


def _two_lines(text: str) -> str:
    """Broken after a comma where possible: `d_k = d_v = 16` stays together."""
    parts = [
        part.replace(" ", "\N{NO-BREAK SPACE}") if len(part) < ROW_LETTERS else part
        for part in text.split(", ")
    ]
    first, *rest = textwrap.wrap(", ".join(parts), ROW_LETTERS) or [text]
    return "\n".join([first, *([shortened(" ".join(rest), ROW_LETTERS)] if rest else [])])


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
    axis.set_major_formatter(lambda value, _: f"{value:+.10g}".replace("-", "−") if value else "0")


def _own_scale(axes: Any, ratio: float) -> None:
    """A second scale at the top for published differences, with the same zero."""
    top = axes.secondary_xaxis(
        "top", functions=(lambda value: value / ratio, lambda value: value * ratio)
    )
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
        found[paper] = sign("D", VERMILION, **HOLLOW_MARKER)
    return found


def _edges(shown: Sequence[Difference]) -> tuple[float, float]:
    """Half of the axis for our differences, and for the published ones: the same, unless one would
    hide the other."""
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


@dataclass(frozen=True)
class Dot:
    """One row: its cost, its score, and the standard deviation over seeds."""

    entry: Entry
    cost: float
    score: float
    sd: float | None
    words: str


def scatters(card: Card, entries: Sequence[Entry]) -> list[Drawing]:
    """Each of the first metrics against parameters and against FLOPs; a cost that no row knows has
    no figure."""
    costs: tuple[tuple[str, str, Write], ...] = (
        ("params", "parameters", parameters),
        ("flops", "FLOPs", flops),
    )
    return [
        _scatter(
            metric,
            name,
            label,
            ours,
            list(_published(metric, entries, name, write)),
            _styles(entries),
        )
        for metric in card.tabled[:MOST]
        for name, label, write in costs
        if (ours := list(_ours(metric, entries, name, write)))
    ]


def _ours(metric: Metric, entries: Sequence[Entry], cost: str, write: Write) -> Iterator[Dot]:
    for entry in entries:
        row = entry.row
        x = getattr(row, cost)
        y = row.scores[metric.name]
        sd = row.sd.get(metric.name)
        if x and y is not None:
            spread = f" ± {metric.text(sd)}" if sd is not None else ""
            yield Dot(entry, x, y, sd, f"{entry.full}: {metric.text(y)}{spread}, {write(x)}")


def _published(metric: Metric, entries: Sequence[Entry], cost: str, write: Write) -> Iterator[Dot]:
    """At the published parameters, where a blank cell means base's; at our own FLOPs, which nobody
    published."""
    base = next((entry.row.published.get(PARAMS) for entry in entries if entry.is_base), None)
    for entry in entries:
        row = entry.row
        y = row.published.get(metric.name)
        millions = row.published.get(PARAMS) or base
        x = row.flops if cost == "flops" else millions and millions * 1e6
        if x and y is not None:
            yield Dot(entry, x, y, None, f"{entry.full}: {metric.text(y)} published, {write(x)}")


def _scatter(
    metric: Metric, cost: str, label: str, ours: Sequence[Dot], paper: Sequence[Dot], styles: Styles
) -> Drawing:
    """Published points stand in a plot of their own, below ours."""
    parts = [part for part in (ours, paper) if part]
    shown = {point.entry.row.group for point in (*ours, *paper)}
    marks = {group: style for group, style in styles.items() if group in shown}
    columns = max(1, LEGEND_LETTERS // (4 + min(LONGEST_GROUP, max(map(len, marks)))))
    with styled():
        figure, plots = new_figure(
            PLOT * len(parts) + SIGN * -(-len(marks) // columns) + 0.12, len(parts)
        )
        title = f"{metric.label} against {label}"
        words = f"{title}: {'; '.join(point.words for part in parts for point in part)}"
        drawing = Drawing(f"{metric.name}-against-{cost}", title, words, figure)
        for axes, part in zip(plots, parts, strict=True):
            axes.set_title(f"{metric.label}, {'published' if part is paper else 'this study'}")
            of_ours = " of this study" if part is paper and cost == "flops" else ""
            axes.set_xlabel(f"{label}{of_ours}", loc="right", labelpad=1)
            _costs(axes, [point.cost for point in part])
            for point, x in zip(part, _side_by_side(part), strict=True):
                _point(drawing, axes, point, x, styles[point.entry.row.group], hollow=part is paper)
        legend_below(
            figure,
            [(shortened(group, LONGEST_GROUP), _sign(*style)) for group, style in marks.items()],
            columns,
        )
    return drawing


def _side_by_side(part: Sequence[Dot]) -> Iterator[float]:
    """Where the points stand: those of one cost a little apart, so that none hides another."""
    alike = Counter(point.cost for point in part)
    placed = Counter[float]()
    for point in part:
        yield point.cost * (1 + NUDGE * (placed[point.cost] - (alike[point.cost] - 1) / 2))
        placed[point.cost] += 1


def _point(
    drawing: Drawing, axes: Any, point: Dot, x: float, style: tuple[str, str], hollow: bool
) -> None:
    color, marker = style
    if point.sd is not None:
        ends = [point.score - point.sd, point.score + point.sd]
        drawing.plot(axes, ([x] * 2, ends), point.entry, point.words, color=color, linewidth=0.9)
    inside, edge, width = (PAPER, color, 0.9) if hollow else (color, PAPER, 0.4)
    about = {
        "markerfacecolor": inside,
        "markeredgecolor": edge,
        "markeredgewidth": width,
        "linestyle": "none",
    }
    about |= {"marker": marker, "color": color, "markersize": 5}
    drawing.plot(axes, ([x], [point.score]), point.entry, point.words, **about)


def _sign(color: str, marker: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, marker=marker, markersize=4.2, linestyle="none")


def _costs(axes: Any, costs: Sequence[float]) -> None:
    """A few numbers along the x axis, which is logarithmic if costs differ by more than three
    times."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.margins(x=0.06, y=0.12)
    if max(costs) <= 3 * min(costs):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    else:
        axes.set_xscale("log")
        wide = max(costs) > 1000 * min(costs)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(counted)


def _styles(entries: Sequence[Entry]) -> Styles:
    """Color and marker of each group; that of base has ink and a circle."""
    base = next((entry.row.group for entry in entries if entry.is_base), BASE)
    others = [
        group for group in dict.fromkeys(entry.row.group for entry in entries) if group != base
    ]
    found = {
        group: (SERIES[place % len(SERIES)], MARKERS[(place + place // len(SERIES)) % len(MARKERS)])
        for place, group in enumerate(others)
    }
    return {base: (INK, "o")} | found
