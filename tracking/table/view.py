"""What a reader chose of a study's table: metrics, set, reference row, rows, columns, order, and what is marked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracking.card import Card, Metric
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.statistics.seeds import standings
from tracking.study import Study, Trial
from tracking.table.columns import value_of


@dataclass(frozen=True)
class View:
    """Empty ``rows`` and ``columns`` mean all rows, and the columns of the format."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # as CSV names them
    sort: str | None = None  # such a name; the best value of a metric comes first
    best: bool = False  # whether the best values are bold
    intervals: bool = False  # whether differences have their intervals
    seeds: tuple[int, ...] = ()  # the chosen ones, if not all
    verdicts: bool = False  # whether differences are compared with the published ones

    @property
    def named(self) -> list[str]:
        """The chosen columns, after the row's name; [] without a choice."""
        return ["row", *(name for name in self.columns if name != "row")] if self.columns else []


PLAIN = View()


def study_of_metrics(study: Study, names: Sequence[str], set_name: str | None) -> Study:
    """The study with a table of these metrics, by default those it has, each on its own or on this set.

    Published values belong to the metric's own set, so that they are left out on another one."""
    if not names and set_name is None:
        return study
    card = _card(study.task, list(names) or [metric.name for metric in study.task.tabled], set_name)
    own = {metric.name for metric in study.task.metrics if metric in card.metrics or not _moved(metric, card)}
    trials = tuple(replace(trial, published=_published(trial, card, own)) for trial in study.trials)
    about = card if any(metric.name in own for metric in card.tabled) else replace(card, published_note="")
    return replace(study, task=about, trials=trials)


def study_of_seeds(study: Study, seeds: Iterable[int]) -> Study:
    """The study with these seeds only."""
    kept = set(seeds)
    return replace(study, trials=tuple(trial for trial in study.trials if trial.seed in kept))


def measured_sets(study: Study) -> dict[str, list[str]]:
    """The sets with scores in any trial that counts, each with the metrics that have a value there."""
    found: dict[str, list[str]] = {}
    for each in standings(study):
        for name, of_set in (each.counted or {}).get("scores", {}).items():
            metrics = [metric.name for metric in study.task.metrics if of_set.get(metric.name) is not None]
            found[name] = list(dict.fromkeys([*found.get(name, []), *metrics]))
    return found


def viewed(card: Card, rows: Sequence[TableRow], view: View, findings: Findings) -> list[TableRow]:
    """The chosen rows in their order; sorted, rows without the value come last, and the best one of a metric first."""
    chosen = [row for name in view.rows for row in rows if row.row == name] if view.rows else list(rows)
    if view.sort is None:
        return chosen
    values = {row.row: value_of(card, row, view.sort, findings) for row in chosen}
    known = [row for row in chosen if values[row.row] is not None]
    known.sort(key=lambda row: _order(values[row.row]), reverse=_descending(card, view.sort))
    return known + [row for row in chosen if values[row.row] is None]


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers before words."""
    number = isinstance(value, int | float)
    return not number, value if number else 0.0, "" if number else str(value)


def _descending(card: Card, name: str) -> bool:
    """Whether the column holds values, or differences in them, that are better when larger."""
    kinds = ("", "delta_", "paper_", "paper_delta_", "best_")
    return any(name == f"{kind}{metric.name}" and metric.better == "up" for metric in card.tabled for kind in kinds)


def _card(card: Card, names: Sequence[str], set_name: str | None) -> Card:
    known = {metric.name: metric for metric in card.metrics}
    shown = [replace(known[name], tabled=True, set=set_name or known[name].set) for name in names]
    others = [replace(metric, tabled=False) for metric in card.metrics if metric.name not in names]
    return replace(card, metrics=(*shown, *others))


def _moved(metric: Metric, card: Card) -> bool:
    return any(metric.name == other.name and metric.set != other.set for other in card.tabled)


def _published(trial: Trial, card: Card, own: set[str]) -> dict[str, float | None]:
    known = {metric.name for metric in card.metrics}
    return {name: value for name, value in trial.published.items() if name in own or name not in known}
