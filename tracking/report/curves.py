"""Learning curves from journals: the mean over a row's seeds at each step, and the range of the seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from tracking.card import Card, Metric
from tracking.damage import unless_damaged
from tracking.journal import Journal
from tracking.study import Study

POINTS = 120
"""As many as a column of a paper can show."""
SEEN = 8
"""Reports of a journal that tell the names in it."""
SeedCurve = dict[int, float]  # by step


@dataclass(frozen=True)
class Curve:
    """One row and metric. All lists have one entry per step that the seeds share."""

    steps: list[int]
    mean: list[float]
    low: list[float]  # the lowest seed
    high: list[float]
    seeds: int


@dataclass(frozen=True)
class Curves:
    """The curves of all rows, by journal name and row, in the study's order."""

    card: Card
    seen: Mapping[str, Mapping[str, Sequence[SeedCurve]]]

    @cached_property
    def names(self) -> list[str]:
        """The journal names worth a figure, at most three: tabled metrics first, then losses, then other metrics."""
        enough = [name for name, rows in self.seen.items() if _has_curve(rows)]
        known = [name for name in enough if self.metric(name)]
        tabled = [name for metric in self.card.tabled for name in known if self.metric(name) == metric]
        losses = [name for name in enough if name.rpartition("/")[2] == "loss"]
        return list(dict.fromkeys([*tabled, *losses, *known]))[:3]

    def metric(self, name: str) -> Metric | None:
        """The metric of the task behind a journal name such as dev/nll; None for another quantity."""
        return next((metric for metric in self.card.metrics if metric.name == name.rpartition("/")[2]), None)

    def label(self, name: str) -> str:
        metric = self.metric(name)
        where = name.rpartition("/")[0] or (metric.set if metric else "")
        return f"{metric.label} on {where}" if metric else name.replace("/", " ")

    def row(self, name: str, row: str) -> Curve | None:
        """The curve of a row; None without a report."""
        seeds = [curve for curve in self.seen.get(name, {}).get(row, ()) if curve]
        return _joined(seeds) if seeds else None


def read_curves(study: Study) -> Curves:
    """From the journals alone. A damaged journal counts as empty; the table names it."""
    seen: dict[str, dict[str, list[SeedCurve]]] = {}
    for trial in study.trials:
        path = study.trial_folder(trial).journal_path
        for name, curve in unless_damaged(partial(_curves_of, path, study.task), {}).items():
            seen.setdefault(name, {}).setdefault(trial.row, []).append(curve)
    return Curves(study.task, seen)


def _curves_of(path: Path, card: Card) -> dict[str, SeedCurve]:
    """By journal name: losses, and metrics of the task. At most POINTS reports of each are parsed."""
    journal, names = Journal(path), [f"{metric.set}/{metric.name}" for metric in card.metrics]
    for ending in ("loss", *(metric.name for metric in card.metrics)):
        seen = journal.evenly(SEEN, f'{ending}"')
        names += [name for report in seen for name in report.metrics if name.rpartition("/")[2] == ending]
    found = {
        name: {each.step: each.metrics[name] for each in journal.evenly(POINTS, f'"{name}"') if name in each.metrics}
        for name in dict.fromkeys(names)
    }
    return {name: curve for name, curve in found.items() if curve}


def _has_curve(rows: Mapping[str, Sequence[SeedCurve]]) -> bool:
    return any(len(curve) > 1 for curves in rows.values() for curve in curves)


def _joined(seeds: Sequence[SeedCurve]) -> Curve:
    """At the steps that all seeds have which came that far: else a line would jump from one seed to another."""
    every = sorted(set().union(*seeds))
    ends = [max(curve) for curve in seeds]
    shared = [s for s in every if all(s in of or s > end for of, end in zip(seeds, ends, strict=True))]
    values = {step: [curve[step] for curve in seeds if step in curve] for step in shared or every}
    means = [sum(of) / len(of) for of in values.values()]
    return Curve(list(values), means, list(map(min, values.values())), list(map(max, values.values())), len(seeds))
