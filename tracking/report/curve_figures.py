"""Figures of learning curves, from journals: the mean over a row's seeds at each step, and the
range of the seeds.

A panel has a few rows, and base for comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any

from tracking.card import Card
from tracking.files import unless_damaged
from tracking.json_lines.journal import Journal, in_line
from tracking.report.drawing import (
    DASHES,
    INK,
    LEGEND_LINE,
    SERIES,
    Drawing,
    Entry,
    add_titles,
    axis_number,
    new_figure,
    shortened,
    styled,
)
from tracking.shell import file_name
from tracking.statistics.table_row import BASE
from tracking.study import Study
from tracking.words import count_of, grouped

COLUMN_POINTS = 120
"""As many as a column of a paper can show."""
SAMPLED_REPORTS = 8
"""Reports of a journal that are read for the names in them."""
SeedCurve = dict[int, float]
"""Step -> value."""
PLOT_HEIGHT = 2.26  # inches, with title and axis
MOST_FIGURES = 3
MOST_ROWS = 6  # of a panel with several groups


@dataclass(frozen=True)
class Curve:
    """One row and metric. All lists have one entry per step that the seeds share. ``seeds``: how
    many came that far."""

    steps: list[int]
    mean: list[float]
    low: list[float]  # the lowest seed
    high: list[float]
    seeds: list[int]


def curve_figures(study: Study, rows: Sequence[Entry]) -> dict[str, list[Drawing]]:
    """By journal name, at most three. The panels of a name share the range of values; panels without
    a curve are left out. Trials that diverged are left out, as they are from means. A damaged
    journal counts as empty; the table names it."""
    seed_curves: dict[str, dict[str, list[SeedCurve]]] = {}  # by journal name and row
    for trial in study.trials:
        if study.standing(trial).diverged is not None:
            continue
        path = study.trial_folder(trial).journal_path
        curves_of_trial = unless_damaged(partial(_curves_of_journal, path, study.task), {})
        for name, seed_curve in curves_of_trial.items():
            seed_curves.setdefault(name, {}).setdefault(trial.row, []).append(seed_curve)
    drawings_of_name = {}
    for name in _names_in_order(study.task, seed_curves)[:MOST_FIGURES]:
        curves = {}
        for entry in rows:
            curves_of_row = seed_curves[name].get(entry.row.row)
            if curves_of_row:
                curves[entry] = _joined(curves_of_row)
        drawings = _drawings(name, _label(study.task, name), rows, curves)
        if drawings:
            drawings_of_name[name] = drawings
    return drawings_of_name


def _names_in_order(
    card: Card, seed_curves: Mapping[str, Mapping[str, Sequence[SeedCurve]]]
) -> list[str]:
    """The journal names that have a curve: tabled metrics first, then losses, then other
    metrics."""
    tabled = [metric.name for metric in card.tabled]
    order = [*tabled, "loss", *(metric.name for metric in card.metrics)]
    names = []
    for name, curves_of_row in seed_curves.items():
        lengths = [len(curve) for curves in curves_of_row.values() for curve in curves]
        if max(lengths) > 1:
            names.append(name)
    return sorted(names, key=lambda name: order.index(_quantity(card, name)))


def _quantity(card: Card, name: str) -> str:
    """Of a journal name: its metric, or the part after the last slash."""
    set_and_metric = card.reported(name)
    return set_and_metric[1].name if set_and_metric else name.rpartition("/")[2]


def _label(card: Card, name: str) -> str:
    """Such as NLL on dev."""
    set_and_metric = card.reported(name)
    if set_and_metric is None:
        return name.replace("/", " ")
    set_name, metric = set_and_metric
    return f"{metric.label} on {set_name or metric.set}"


def _curves_of_journal(path: Path, card: Card) -> dict[str, SeedCurve]:
    """By journal name: losses, and metrics of the task. At most COLUMN_POINTS reports of each are
    parsed."""
    journal = Journal(path)
    names = [f"{metric.set}/{metric.name}" for metric in card.metrics]
    for quantity in ("loss", *(metric.name for metric in card.metrics)):
        for report in journal.evenly(SAMPLED_REPORTS, in_line(quantity)[1:]):
            names += [name for name in report.metrics if _quantity(card, name) == quantity]
    curves = {}
    for name in dict.fromkeys(names):
        reports = journal.evenly(COLUMN_POINTS, in_line(name))
        curve = {report.step: report.metrics[name] for report in reports if name in report.metrics}
        if curve:
            curves[name] = curve
    return curves


def _joined(seeds: Sequence[SeedCurve]) -> Curve:
    """At the steps that all seeds have that came that far: otherwise a line would jump from one
    seed to another."""
    all_steps = sorted(set().union(*seeds))
    seeds_with_end = [(seed, max(seed)) for seed in seeds]
    shared_steps = []
    for step in all_steps:
        if all(step in seed or step > end for seed, end in seeds_with_end):
            shared_steps.append(step)
    steps = shared_steps or all_steps
    curve = Curve(steps, [], [], [], [])
    for step in steps:
        values = [seed[step] for seed in seeds if step in seed]
        curve.mean.append(sum(values) / len(values))
        curve.low.append(min(values))
        curve.high.append(max(values))
        curve.seeds.append(len(values))
    return curve


def _drawings(
    name: str, label: str, rows: Sequence[Entry], curves: Mapping[Entry, Curve]
) -> list[Drawing]:
    """The panels of a journal name."""
    base = [entry for entry in curves if entry.is_base]
    panels = list[list[Entry]]()
    for panel_rows in _panels(rows):
        drawn_rows = [entry for entry in panel_rows if entry in curves]
        if drawn_rows:
            panels.append(drawn_rows)
    if base and not panels:
        panels.append([])
    limits = _late_range(list(curves.values()))
    drawings = []
    for number, panel_rows in enumerate(panels, start=1):
        panel_curves = {entry: curves[entry] for entry in [*panel_rows, *base]}
        drawing_name = f"{_file_name(name)}-{number}"
        drawings.append(_panel(drawing_name, label, panel_curves, limits))
    return drawings


def _file_name(name: str) -> str:
    """Such as curves-dev-nll for dev/nll."""
    words = name.split("/")
    if all(word.isalnum() for word in words):
        return f"curves-{'-'.join(words)}"
    return f"curves-of-{file_name(name)}"


def _panel(
    name: str,
    label: str,
    curves: Mapping[Entry, Curve],
    limits: tuple[float, float] | None,
) -> Drawing:
    groups = dict.fromkeys(entry.row.group for entry in curves if not entry.is_base)
    title = ", ".join(groups) or BASE
    rows = "; ".join(entry.full for entry in curves)
    description = f"Learning curves of {label} over training steps. Rows: {rows}."
    last_step = max(curve.steps[-1] for curve in curves.values())
    with styled():
        figure, (axes,) = new_figure(PLOT_HEIGHT + LEGEND_LINE * len(curves))
        drawing = Drawing(name, f"{label}: {title}", description, figure)
        lines = {}
        for number, (entry, curve) in enumerate(curves.items()):
            lines[entry] = _add_curve(drawing, axes, entry, curve, number)
        add_titles(axes, shortened(title, 40), label)
        _frame(axes, last_step, limits)
        drawing.add_legend(lines)
    return drawing


def _add_curve(drawing: Drawing, axes: Any, entry: Entry, curve: Curve, number: int) -> Any:
    color, dashes = (INK, "solid") if entry.is_base else _line_style(number)
    seeds = count_of(curve.seeds[-1], "seed")
    text = f"{entry.full}: {curve.mean[-1]:.4g} at step {curve.steps[-1]}, {seeds}"
    if max(curve.seeds) > 1:
        band = axes.fill_between(
            curve.steps, curve.low, curve.high, color=color, alpha=0.16, linewidth=0
        )
        drawing.mark(band, entry, text)
    style = {
        "color": color,
        "linestyle": dashes,
        "linewidth": 1.1,
        "marker": "o" if len(curve.steps) == 1 else None,
        "markersize": 3,
    }
    return drawing.plot(axes, (curve.steps, curve.mean), entry, text, **style)


def _frame(axes: Any, last_step: int, limits: tuple[float, float] | None) -> None:
    axes.set_xlabel("step", loc="right", labelpad=1)
    axes.set_xlim(0, last_step * 1.01 or 1)
    if limits:
        axes.set_ylim(*limits)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter(axis_number)


def _panels(rows: Sequence[Entry]) -> list[list[Entry]]:
    """The rows without base in readable panels: whole groups together while they fit, large groups
    cut."""
    groups = grouped((entry.row.group, entry) for entry in rows if not entry.is_base)
    panels = list[list[Entry]]()
    most_of_one_group = MOST_ROWS + 2
    for group in groups.values():
        if panels and len(panels[-1]) + len(group) <= MOST_ROWS:
            panels[-1] += group
            continue
        for start in range(0, len(group), most_of_one_group):
            panels.append(group[start : start + most_of_one_group])
    return panels


def _line_style(number: int) -> tuple[str, object]:
    """Color and dashes of a line: lines of the same color have different dashes."""
    return SERIES[number % len(SERIES)], DASHES[number // len(SERIES) % len(DASHES)]


def _late_range(curves: Sequence[Curve]) -> tuple[float, float] | None:
    """The range of values in the second half of each curve, and as much again toward the values of
    the first halves. None without values.

    A trial that has just begun is still in its first half, by the usual length of a curve. Without
    the most extreme hundredth: the first steps, and a row that diverged, would press all other
    curves together.
    """
    if not curves:
        return None
    usual_length = median_low(curve.steps[-1] for curve in curves)
    early = list[float]()
    late = list[float]()
    for curve in curves:
        half = max(curve.steps[-1], usual_length) / 2
        for step, low_value, high_value in zip(curve.steps, curve.low, curve.high, strict=True):
            values = late if step >= half else early
            values += low_value, high_value
    late.sort()
    low = late[len(late) // 100]
    high = late[-1 - len(late) // 100]
    span = high - low or 0.05 * abs(high) or 1.0
    top = max([high, *early])
    bottom = min([low, *early])
    return max(bottom, low - span) - 0.06 * span, min(top, high + span) + 0.06 * span
