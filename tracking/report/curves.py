"""Learning curves from journals: the mean over a row's seeds at each step, and the range of the
seeds.

They are drawn in panels of a few rows, with base in each for comparison."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tracking.card import Card
from tracking.files import unless_damaged
from tracking.json_lines.journal import Journal, in_line
from tracking.report.drawing import (
    DASHES,
    INK,
    SERIES,
    Drawing,
    Entry,
    counted,
    legend_below,
    new_figure,
    shortened,
    styled,
)
from tracking.shell import file_name
from tracking.statistics.rows import BASE
from tracking.study import Study
from tracking.words import plural

COLUMN_POINTS = 120
"""As many as a column of a paper can show."""
SEEN = 8
"""Reports of a journal that tell the names in it."""
SeedCurve = dict[int, float]  # by step
AXES, LINE = 2.26, 0.13  # inches: a plot with its title and axis, a line of the legend
TITLE_LETTERS = 46


@dataclass(frozen=True)
class Curve:
    """One row and metric. All lists have one entry per step that the seeds share."""

    steps: list[int]
    mean: list[float]
    low: list[float]  # the lowest seed
    high: list[float]
    seeds: int


def curve_figures(study: Study, rows: Sequence[Entry]) -> dict[str, list[Drawing]]:
    """By journal name, at most three. The panels of a name share their axes' ranges; panels without
    a curve are left out. A damaged journal counts as empty; the table names it."""
    seen: dict[str, dict[str, list[SeedCurve]]] = {}
    for trial in study.trials:
        path = study.trial_folder(trial).journal_path
        for name, curve in unless_damaged(partial(_curves_of, path, study.task), {}).items():
            seen.setdefault(name, {}).setdefault(trial.row, []).append(curve)
    found = {}
    for name in _names(study.task, seen)[:3]:
        curves = {
            entry: _joined(seen[name][entry.row.row])
            for entry in rows
            if entry.row.row in seen[name]
        }
        found[name] = _of_name(name, _label(study.task, name), rows, curves)
    return {name: figures for name, figures in found.items() if figures}


def _names(card: Card, seen: Mapping[str, Mapping[str, Sequence[SeedCurve]]]) -> list[str]:
    """The journal names that have a curve: tabled metrics first, then losses, then other
    metrics."""
    order = [
        *(metric.name for metric in card.tabled),
        "loss",
        *(metric.name for metric in card.metrics),
    ]
    enough = [
        name
        for name, rows in seen.items()
        if any(len(curve) > 1 for row in rows.values() for curve in row)
    ]
    return sorted(enough, key=lambda name: order.index(_ending(card, name)))


def _ending(card: Card, name: str) -> str:
    """Of a journal name: its metric, or what stands behind the last slash."""
    reported = card.reported(name)
    return reported[1].name if reported else name.rpartition("/")[2]


def _label(card: Card, name: str) -> str:
    """Such as NLL on dev."""
    reported = card.reported(name)
    if reported is None:
        return name.replace("/", " ")
    where, metric = reported
    return f"{metric.label} on {where or metric.set}"


def _curves_of(path: Path, card: Card) -> dict[str, SeedCurve]:
    """By journal name: losses, and metrics of the task. At most POINTS reports of each are
    parsed."""
    journal = Journal(path)
    names = [f"{metric.set}/{metric.name}" for metric in card.metrics]
    for ending in ("loss", *(metric.name for metric in card.metrics)):
        seen = journal.evenly(SEEN, in_line(ending)[1:])
        names += [
            name for report in seen for name in report.metrics if _ending(card, name) == ending
        ]
    found = {
        name: {
            each.step: each.metrics[name]
            for each in journal.evenly(COLUMN_POINTS, in_line(name))
            if name in each.metrics
        }
        for name in dict.fromkeys(names)
    }
    return {name: curve for name, curve in found.items() if curve}


def _joined(seeds: Sequence[SeedCurve]) -> Curve:
    """At the steps that all seeds have which came that far: else a line would jump from one seed to
    another."""
    every = sorted(set().union(*seeds))
    ends = [max(curve) for curve in seeds]
    shared = [
        s for s in every if all(s in of or s > end for of, end in zip(seeds, ends, strict=True))
    ]
    values = {step: [curve[step] for curve in seeds if step in curve] for step in shared or every}
    means = [sum(value) / len(value) for value in values.values()]
    return Curve(
        list(values),
        means,
        list(map(min, values.values())),
        list(map(max, values.values())),
        len(seeds),
    )


def _of_name(
    name: str, label: str, rows: Sequence[Entry], found: Mapping[Entry, Curve]
) -> list[Drawing]:
    base = [entry for entry in found if entry.is_base]
    parts = [[entry for entry in part if entry in found] for part in _panels(rows)]
    parts = [part for part in parts if part] or ([[]] if base else [])
    last = max((curve.steps[-1] for curve in found.values()), default=0)
    sides = [
        (curve.steps, values) for curve in found.values() for values in (curve.low, curve.high)
    ]
    points = [point for steps, values in sides for point in zip(steps, values, strict=True)]
    ranges = (last, _late_range(points, last))
    file = _file_name(name)
    return [
        _panel(f"{file}-{place}", label, [*part, *base], found, ranges)
        for place, part in enumerate(parts, 1)
    ]


def _file_name(name: str) -> str:
    """Such as curves-dev-nll for dev/nll."""
    words = name.split("/")
    return (
        f"curves-{'-'.join(words)}"
        if all(map(str.isalnum, words))
        else f"curves-of-{file_name(name)}"
    )


def _panel(
    name: str,
    label: str,
    part: Sequence[Entry],
    found: Mapping[Entry, Curve],
    ranges: tuple[int, Any],
) -> Drawing:
    groups = (
        ", ".join(dict.fromkeys(entry.row.group for entry in part if not entry.is_base)) or BASE
    )
    with styled():
        figure, (axes,) = new_figure(AXES + LINE * len(part))
        described = f"Learning curves of {label} over training steps. Rows: {'; '.join(entry.full for entry in part)}."
        drawing = Drawing(name, f"{label}: {groups}", described, figure)
        lines = [
            _line(drawing, axes, entry, found[entry], place) for place, entry in enumerate(part)
        ]
        axes.set_title(shortened(groups, 40))
        axes.set_title(label, loc="right", fontsize=7, fontweight="normal")
        _frame(axes, *ranges)
        names = [shortened(entry.full, TITLE_LETTERS) for entry in part]
        legend = legend_below(figure, list(zip(names, lines, strict=True)))
        for entry, line, text in zip(part, legend.get_lines(), legend.get_texts(), strict=True):
            drawing.mark(line, entry)
            drawing.mark(text, entry)
    return drawing


def _line(drawing: Drawing, axes: Any, entry: Entry, curve: Curve, place: int) -> Any:
    color, dashes = (INK, "solid") if entry.is_base else _line_style(place)
    seeds = f"{curve.seeds} {plural('seed', curve.seeds)}"
    text = f"{entry.full}: {curve.mean[-1]:.4g} at step {curve.steps[-1]}, {seeds}"
    if curve.seeds > 1:
        band = axes.fill_between(
            curve.steps, curve.low, curve.high, color=color, alpha=0.16, linewidth=0
        )
        drawing.mark(band, entry, text)
    style = {
        "linestyle": dashes,
        "linewidth": 1.1,
        "marker": "o" if len(curve.steps) == 1 else None,
        "markersize": 3,
    }
    return drawing.plot(axes, (curve.steps, curve.mean), entry, text, color=color, **style)


def _frame(axes: Any, last: int, limits: tuple[float, float] | None) -> None:
    axes.set_xlabel("step", loc="right", labelpad=1)
    axes.set_xlim(0, last * 1.01 or 1)
    if limits:
        axes.set_ylim(*limits)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter(counted)


def _panels(rows: Sequence[Entry], most: int = 6) -> list[list[Entry]]:
    """The rows without base in panels that one can read: whole groups together while they fit,
    large groups cut."""
    groups = dict[str, list[Entry]]()
    found = list[list[Entry]]()
    for entry in rows:
        if not entry.is_base:
            groups.setdefault(entry.row.group, []).append(entry)
    for group in groups.values():
        if found and len(found[-1]) + len(group) <= most:
            found[-1] += group
        else:
            found += [group[start : start + most + 2] for start in range(0, len(group), most + 2)]
    return found


def _line_style(place: int) -> tuple[str, object]:
    """Color and dashes of the line at this place: a color comes again only with other dashes."""
    return SERIES[place % len(SERIES)], DASHES[place // len(SERIES) % len(DASHES)]


def _late_range(values: Iterable[tuple[float, float]], last: float) -> tuple[float, float] | None:
    """The range of (step, value) in the second half, and as much again toward where training came
    from.

    Without the most extreme hundredth: the first steps, and a row that diverged, would press all
    other curves together.
    """
    known = list(values)
    late = sorted(value for step, value in known if step >= last / 2)
    if not late:
        return None
    low = late[len(late) // 100]
    high = late[-1 - len(late) // 100]
    span = high - low or 0.05 * abs(high) or 1.0
    early = [value for step, value in known if step < last / 2]
    top = max([high, *early])
    bottom = min([low, *early])
    return max(bottom, low - span) - 0.06 * span, min(top, high + span) + 0.06 * span
