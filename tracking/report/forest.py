"""Forest plots: each row's difference from the reference with its interval. Published differences
are hollow."""

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
    LEGEND_LINE,
    MUTED,
    PAPER,
    PURPLE,
    RULE,
    VERMILION,
    Drawing,
    Entry,
    legend_below,
    new_figure,
    shortened,
    styled,
)
from tracking.statistics.seeds.finding import FINDING_WORDS, FindingKind, label
from tracking.statistics.study_findings import StudyFindings
from tracking.table.tested_captions import reference_words
from tracking.words import signed

ROW_HEIGHT = 0.23  # inches
FRAME_HEIGHT = 0.68  # title and axis
SECOND_SCALE_HEIGHT = 0.2
LEGEND_COLUMNS = 2
ROW_LETTERS = 27
MOST_RATIO = 6  # of the widths of two ranges that share a scale
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
FAR = 6  # times the median: a row farther away is drawn at the edge


@dataclass(frozen=True)
class Range:
    """Of an axis. It contains 0, which our and the published differences share."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def __or__(self, other: "Range") -> "Range":
        """Both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def times(self, factor: float) -> "Range":
        return Range(self.low * factor, self.high * factor)

    def within(self, value: float) -> float:
        """The value, or the end that it lies beyond."""
        return max(self.low, min(self.high, value))


@dataclass(frozen=True)
class Difference:
    """One row and metric. Without an interval the difference is not tested."""

    entry: Entry
    value: float
    value_text: str  # such as +0.12
    interval: tuple[float, float] | None
    kind: FindingKind | None  # of the finding over seeds; None without a test
    mark: str  # of the table
    published: float | None
    text: str  # of the tooltip


def forest(metric: Metric, entries: Sequence[Entry], findings: StudyFindings) -> Drawing | None:
    """One figure, in the order of the table. A row without a difference is left out; the table says
    why. None without any."""
    differences = list[Difference]()
    for entry in entries:
        value = entry.row.comparison.deltas[metric.name]
        if entry.row.row != findings.reference and value is not None:
            differences.append(_difference(metric, entry, findings, value))
    if not differences:
        return None
    rows = [difference.entry.row for difference in differences]
    return _drawn(metric, differences, reference_words(rows, findings.reference))


def _difference(metric: Metric, entry: Entry, findings: StudyFindings, value: float) -> Difference:
    row = entry.row
    test = findings.test(row, metric)
    interval = findings.interval(row, metric)
    published = row.comparison.published_deltas[metric.name]
    value_text = signed(value, metric.places)
    with_interval = value_text
    if interval:
        low, high = interval
        with_interval += f" [{signed(low, metric.places)}, {signed(high, metric.places)}]"
    parts = [with_interval, findings.words(row, metric)]
    if published is not None:
        parts.append(f"published {signed(published, metric.places)}")
    text = f"{entry.full}: {', '.join(filter(None, parts))}"
    kind = test.finding.kind if test else None
    mark = findings.mark(row, metric)
    return Difference(entry, value, value_text, interval, kind, mark, published, text)


def _drawn(metric: Metric, differences: Sequence[Difference], reference: str) -> Drawing:
    scale, published_ratio = _scales(differences)
    has_second_scale = published_ratio != 1
    with styled():
        signs = _signs(differences, "published (top)" if has_second_scale else "published")
        legend_lines = -(-len(signs) // LEGEND_COLUMNS)
        height = FRAME_HEIGHT + ROW_HEIGHT * len(differences)
        if has_second_scale:
            height += SECOND_SCALE_HEIGHT
        height += LEGEND_LINE * legend_lines
        figure, (axes,) = new_figure(height)
        title = f"Δ{metric.label} from {reference}"
        description = f"{title}: {'; '.join(difference.text for difference in differences)}"
        drawing = Drawing(f"differences-{metric.name}", title, description, figure)
        figure.suptitle(title, x=0.02, ha="left", fontsize="medium", fontweight="bold")
        _frame(axes, metric, len(differences), scale)
        if has_second_scale:
            _add_second_scale(axes, published_ratio)
        _add_names(drawing, axes, differences)
        for place, difference in enumerate(differences):
            _add_row(drawing, axes, place, difference, scale, published_ratio)
        legend_below(figure, [*signs.items()], LEGEND_COLUMNS)
    return drawing


def _add_row(
    drawing: Drawing,
    axes: Any,
    place: int,
    difference: Difference,
    scale: Range,
    published_ratio: float,
) -> None:
    def plot(xs: list[float], y: float, **style: Any) -> None:
        points = (xs, [y for _ in xs])
        drawing.plot(axes, points, difference.entry, difference.text, **style)

    color = COLORS.get(difference.kind, MUTED)
    if difference.published is not None:
        marker, x = _marker_within(difference.published * published_ratio, scale, "D")
        plot([x], place + 0.27, marker=marker, markersize=3.6, **HOLLOW_MARKER)
    if difference.interval is not None:
        ends = [scale.within(end) for end in difference.interval]
        plot(ends, place - 0.08, color=color, linewidth=1.5, solid_capstyle="butt")
    tested_marker = "o" if difference.interval is not None else "|"
    marker, x = _marker_within(difference.value, scale, tested_marker)
    size = 6 if marker == "|" else 4.2
    plot([x], place - 0.08, marker=marker, markersize=size, color=color, linestyle="none")
    if x != difference.value:
        _add_value(drawing, axes, place - 0.08, difference, x)


def _add_value(drawing: Drawing, axes: Any, y: float, difference: Difference, x: float) -> None:
    """Beside an arrow at the end of the scale, whose place doesn't show the value."""
    side, offset = ("right", -4) if x > 0 else ("left", 4)
    style = {"ha": side, "va": "center", "fontsize": 6.3, "color": INK}
    text = axes.annotate(
        difference.value_text, (x, y), (offset, 0), textcoords="offset points", **style
    )
    drawing.mark(text, difference.entry)


def _add_names(drawing: Drawing, axes: Any, differences: Sequence[Difference]) -> None:
    """Left of the rows, their marks right of them, and a line between groups."""
    names = [_two_lines(difference.entry.full) for difference in differences]
    axes.set_yticks(range(len(differences)), names)
    transform = axes.get_yaxis_transform()
    group = differences[0].entry.row.group
    labels = axes.get_yticklabels()
    for place, (difference, name) in enumerate(zip(differences, labels, strict=True)):
        entry = difference.entry
        name.set(fontsize=5.8 if "\n" in name.get_text() else 6.3, linespacing=1.0)
        drawing.mark(name, entry)
        mark = axes.text(
            1.01, place, difference.mark, transform=transform, va="center", fontsize=7.5
        )
        drawing.mark(mark, entry)
        if entry.row.group != group:
            axes.axhline(place - 0.5, color=RULE, linewidth=0.6)
            group = entry.row.group


def _two_lines(text: str) -> str:
    """Broken after a comma if possible: `d_k = d_v = 16` stays together."""
    parts = []
    for part in text.split(", "):
        is_short = len(part) < ROW_LETTERS
        parts.append(part.replace(" ", "\N{NO-BREAK SPACE}") if is_short else part)
    first, *further = textwrap.wrap(", ".join(parts), ROW_LETTERS) or [text]
    if not further:
        return first
    second = shortened(" ".join(further), ROW_LETTERS)
    return f"{first}\n{second}"


def _frame(axes: Any, metric: Metric, rows: int, scale: Range) -> None:
    axes.set_ylim(rows - 0.4, -0.6)
    margin = 0.03 * scale.width
    axes.set_xlim(scale.low - margin, scale.high + margin)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=INK, linewidth=0.8)
    _set_ticks(axes.xaxis)
    side, words = ("right", "better →") if metric.better == "up" else ("left", "← better")
    axes.set_xlabel(words, loc=side, labelpad=1.5, fontsize=7, color=MUTED)


def _set_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(lambda value, _: f"{value:+.10g}".replace("-", "−") if value else "0")


def _add_second_scale(axes: Any, ratio: float) -> None:
    """At the top, for published differences, with the same zero."""
    functions = (lambda value: value / ratio, lambda value: value * ratio)
    top = axes.secondary_xaxis("top", functions=functions)
    top.tick_params(colors=VERMILION, labelcolor=VERMILION, pad=1)
    top.spines["top"].set_color(VERMILION)
    _set_ticks(top.xaxis)


def _signs(differences: Sequence[Difference], published_words: str) -> dict[str, Any]:
    """What the legend shows, by its words."""
    from matplotlib.lines import Line2D

    def sign(marker: str, color: str, **style: Any) -> Any:
        return Line2D([], [], marker=marker, color=color, markersize=4, linewidth=1.4, **style)

    kinds = {difference.kind for difference in differences}
    signs = {
        label(kind): sign("o", COLORS.get(kind, MUTED)) for kind in FINDING_WORDS if kind in kinds
    }
    if any(difference.interval is None for difference in differences):
        signs["not tested"] = sign("|", MUTED, linestyle="none")
    if any(difference.published is not None for difference in differences):
        signs[published_words] = sign("D", VERMILION, **HOLLOW_MARKER)
    return signs


def _scales(differences: Sequence[Difference]) -> tuple[Range, float]:
    """The range of the axis, and how much longer a published difference is drawn: 1, unless one
    kind of difference would hide the other."""
    ours = list[tuple[float, ...]]()
    published = list[tuple[float, ...]]()
    for difference in differences:
        ours.append((difference.value, *(difference.interval or ())))
        if difference.published is not None:
            published.append((difference.published,))
    our_range = _range(ours)
    published_range = _range(published)
    ratio = 1.0
    if our_range.width and published_range.width:
        width_ratio = our_range.width / published_range.width
        if not 1 / MOST_RATIO <= width_ratio <= MOST_RATIO:
            ratio = width_ratio
    both = our_range | published_range.times(ratio)
    return (both if both.width else Range(-1.0, 1.0)), ratio


def _range(rows: Sequence[tuple[float, ...]]) -> Range:
    """From the lowest value to the highest one, without rows whose difference, which comes first,
    is far from all others."""
    farthest = [max(map(abs, values)) for values in rows]
    limit = FAR * median(farthest) if farthest else 0.0
    near = [value for values in rows for value in values if not limit or abs(values[0]) <= limit]
    full = Range(min([0.0, *near]), max([0.0, *near]))
    return Range(full.within(-limit), full.within(limit)) if limit else full


def _marker_within(value: float, scale: Range, marker: str) -> tuple[str, float]:
    """The marker and its x; an arrow at the end of the scale for a value beyond it."""
    if value > scale.high:
        return ">", scale.high
    if value < scale.low:
        return "<", scale.low
    return marker, value
