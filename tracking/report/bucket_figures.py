"""Figures of scores against length: a row's score in each bucket of a set's samples.

Base is black. The rows whose difference from it changes most from the first bucket to the last have
colors, and all others are gray."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracking.buckets.bucket_scores import BucketScores, bucket_scores
from tracking.buckets.quantity import LENGTH, UngroupedError
from tracking.card import Metric
from tracking.report.drawing import (
    INK,
    LEGEND_LINE,
    MUTED,
    SERIES,
    Drawing,
    Entry,
    add_titles,
    new_figure,
    styled,
)
from tracking.statistics.samples import LEAST_SAMPLES
from tracking.statistics.table_row import BASE, TableRow
from tracking.table.study_table import StudyTable
from tracking.words import signed

PLOT_HEIGHT = 2.2  # inches, with title and axis
MOST_COLORED = 4
MARGIN = 0.3  # of the distance between two buckets


@dataclass(frozen=True)
class Curve:
    """A row's score in each bucket, and its tooltip."""

    values: list[float]
    text: str


def bucket_figures(table: StudyTable, entries: Sequence[Entry]) -> list[Drawing]:
    """A figure per tabled metric; none if the samples have no length, or are too few."""
    try:
        scores = bucket_scores(table, LENGTH)
    except UngroupedError:
        return []
    if len(scores.quantity.values_N) < LEAST_SAMPLES:
        return []
    drawings = [_figure(scores, metric, entries) for metric in scores.metrics]
    return [drawing for drawing in drawings if drawing.marks]


def _figure(scores: BucketScores, metric: Metric, entries: Sequence[Entry]) -> Drawing:
    curves = _curves(scores, metric, entries)
    colored = _most_drifting(scores, metric, [*curves])
    quantity = scores.quantity.words
    title = f"{metric.label} by {scores.quantity.name}"
    rows = "; ".join(entry.full for entry in curves)
    description = f"{metric.label} on {metric.set} by {quantity}, in buckets. Rows: {rows}."
    with styled():
        figure, (axes,) = new_figure(PLOT_HEIGHT + LEGEND_LINE * (len(colored) + 1))
        drawing = Drawing(f"{metric.name}-by-{scores.quantity.name}", title, description, figure)
        colored_lines = {}
        gray = [entry for entry in curves if entry not in colored]
        for entry in [*gray, *colored]:  # gray lines lie below
            color = colored.get(entry, MUTED)
            line = _add_curve(drawing, axes, entry, curves[entry], color)
            if entry in colored:
                colored_lines[entry] = line
        add_titles(axes, title, metric.set)
        _frame(axes, scores)
        if colored_lines:
            drawing.add_legend(colored_lines)
    return drawing


def _curves(scores: BucketScores, metric: Metric, entries: Sequence[Entry]) -> dict[Entry, Curve]:
    """By row; a row that lacks the score of a bucket has no curve."""
    curves = {}
    for entry in entries:
        rows = [row for table in scores.tables for row in table.rows if row.row == entry.row.row]
        values = [row.scores[metric.name] for row in rows]
        numbers = [value for value in values if value is not None]
        if len(numbers) == len(values):
            buckets = zip(scores.buckets, rows, strict=True)
            parts = [f"{bucket.label}: {_score_text(metric, row)}" for bucket, row in buckets]
            curves[entry] = Curve(numbers, f"{entry.full}: {', '.join(parts)}")
    return curves


def _score_text(metric: Metric, row: TableRow) -> str:
    """Such as "26.4 (−0.3)", with the difference from the reference."""
    score = metric.text(row.scores[metric.name])
    delta = signed(row.comparison.deltas[metric.name], metric.places)
    return f"{score} ({delta})" if delta and row.row != BASE else score


def _most_drifting(
    scores: BucketScores, metric: Metric, entries: Sequence[Entry]
) -> dict[Entry, str]:
    """The colors of base, and of the rows whose difference changes most. Others are gray."""
    colors = {entry: INK for entry in entries if entry.is_base}
    drifts = {row.row: row.comparison.deltas[metric.name] for row in scores.drift.rows}
    drifting = [entry for entry in entries if not entry.is_base and drifts[entry.row.row]]
    drifting.sort(key=lambda entry: -abs(drifts[entry.row.row] or 0.0))
    chosen = sorted(drifting[:MOST_COLORED], key=lambda entry: entry.place)
    for number, entry in enumerate(chosen):
        colors[entry] = SERIES[number]
    return colors


def _add_curve(drawing: Drawing, axes: Any, entry: Entry, curve: Curve, color: str) -> Any:
    is_gray = color == MUTED
    style = {
        "color": color,
        "alpha": 0.5 if is_gray else None,
        "linewidth": 0.6 if is_gray else 1.2,
        "marker": "o",
        "markersize": 1.5 if is_gray else 3,
    }
    points = (range(len(curve.values)), curve.values)
    return drawing.plot(axes, points, entry, curve.text, **style)


def _frame(axes: Any, scores: BucketScores) -> None:
    """Each bucket is named by its values, with its number of samples below."""
    places = range(len(scores.buckets))
    labels = [f"{bucket.label}\n({bucket.samples})" for bucket in scores.buckets]
    axes.set_xticks([*places], labels)
    axes.set_xlim(-MARGIN, len(places) - 1 + MARGIN)
    axes.grid(False, axis="x")
    noun = scores.whole.card.sample
    axes.set_xlabel(f"{scores.quantity.words} (number of {noun}s)", loc="right", labelpad=1)
