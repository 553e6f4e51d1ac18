"""Figures of learning curves: a panel for a few rows, with base in each for comparison."""

from collections.abc import Sequence
from typing import Any

from tracking.report.curves import Curve, Curves
from tracking.report.drawing import Drawing, new_figure, plain, shortened, styled
from tracking.report.palette import INK, line_style
from tracking.report.row_entries import Entry, panels
from tracking.report.ticks import counted, label_ticks, late_range
from tracking.statistics.rows import BASE

AXES, HEAD, LINE, FOOT = 1.62, 0.24, 0.12, 0.4  # inches: plot, title, a line of the legend, numbers of the steps
LETTERS = 46


def curve_figures(curves: Curves, rows: Sequence[Entry]) -> dict[str, list[Drawing]]:
    """By journal name. The panels of one name share their axes' ranges; panels without a curve are left out."""
    return {name: figures for name in curves.names if (figures := _of_name(curves, name, rows))}


def _of_name(curves: Curves, name: str, rows: Sequence[Entry]) -> list[Drawing]:
    found = {entry: curve for entry in rows if (curve := curves.row(name, entry.row)) is not None}
    base = [entry for entry in found if entry.row == BASE]
    parts = [[entry for entry in part if entry in found] for part in panels(rows)]
    parts = [part for part in parts if part] or ([[]] if base else [])
    last = max((curve.steps[-1] for curve in found.values()), default=0)
    sides = [(curve.steps, values) for curve in found.values() for values in (curve.low, curve.high)]
    points = [point for steps, values in sides for point in zip(steps, values, strict=True)]
    limits = late_range(points, last)
    return [
        _panel(f"curves-{_plain_name(name)}-{place}", curves.label(name), [*part, *base], found, (last, limits))
        for place, part in enumerate(parts, 1)
    ]


def _panel(name: str, label: str, part: Sequence[Entry], found: dict[Entry, Curve], ranges: tuple[int, Any]) -> Drawing:
    groups = ", ".join(dict.fromkeys(entry.group for entry in part if entry.row != BASE)) or BASE
    with styled():
        height = HEAD + AXES + FOOT + LINE * len(part)
        figure, (axes,) = new_figure(height)
        figure.subplots_adjust(left=0.13, right=0.975, top=1 - HEAD / height, bottom=(FOOT + LINE * len(part)) / height)
        described = f"Learning curves of {label} over training steps. Rows: {'; '.join(entry.full for entry in part)}."
        drawing = Drawing(name, f"{label}: {groups}", described, figure)
        lines = [_line(drawing, axes, entry, found[entry], place) for place, entry in enumerate(part)]
        _axes(axes, shortened(f"{groups}", 40), label, ranges)
        _legend(drawing, figure, part, lines, height)
    return drawing


def _line(drawing: Drawing, axes: Any, entry: Entry, curve: Curve, place: int) -> Any:
    color, dashes = (INK, "solid") if entry.row == BASE else line_style(place)
    text = f"{entry.full}: {curve.mean[-1]:.4g} at step {curve.steps[-1]}, {_seeds(curve.seeds)}"
    if curve.seeds > 1:
        band = axes.fill_between(curve.steps, curve.low, curve.high, color=color, alpha=0.16, linewidth=0)
        drawing.mark(band, entry.place, text)
    marker = "o" if len(curve.steps) == 1 else None
    (line,) = axes.plot(
        curve.steps, curve.mean, color=color, linestyle=dashes, linewidth=1.1, marker=marker, markersize=3
    )
    drawing.mark(line, entry.place, text)
    return line


def _axes(axes: Any, title: str, label: str, ranges: tuple[int, Any]) -> None:
    last, limits = ranges
    plain(axes.set_title(title))
    plain(axes.set_xlabel("step", loc="right", labelpad=1))
    plain(axes.text(1, 1.035, label, transform=axes.transAxes, ha="right", va="bottom", fontsize=7))
    axes.set_xlim(0, last * 1.01 or 1)
    if limits:
        axes.set_ylim(*limits)
    label_ticks(axes.xaxis, counted)
    label_ticks(axes.yaxis, lambda value: f"{value:.10g}".replace("-", "−"))


def _legend(drawing: Drawing, figure: Any, part: Sequence[Entry], lines: Sequence[Any], height: float) -> None:
    names = [shortened(entry.full, LETTERS) for entry in part]
    legend = figure.legend(
        lines,
        names,
        loc="upper left",
        bbox_to_anchor=(0.03, (LINE * len(part) + 0.01) / height),
        borderaxespad=0,
        borderpad=0,
        labelspacing=0.2,
        handlelength=2.2,
        handletextpad=0.7,
    )
    for entry, line, text in zip(part, legend.get_lines(), legend.get_texts(), strict=True):
        drawing.mark(line, entry.place)
        drawing.mark(plain(text), entry.place)


def _plain_name(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"
