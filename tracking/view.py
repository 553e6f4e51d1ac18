"""What a reader chose of a study's table: metrics, set, reference row, rows, columns, order, and what is marked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tracking.card import Card
from tracking.metrics import Metric
from tracking.rows import BASE, TableRow
from tracking.study import Study, Trial


@dataclass(frozen=True)
class View:
    """Empty ``rows`` and ``columns`` mean all rows, and the columns of the format."""

    base: str = BASE  # the row from which differences are taken
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # as CSV names them
    sort: str | None = None  # such a name; the best value of a metric comes first
    best: bool = False  # whether the best values are bold
    intervals: bool = False  # whether differences have their intervals


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


def viewed(rows: Sequence[TableRow], view: View, card: Card) -> list[TableRow]:
    """The chosen rows in their order. Numbers that are missing come last, whatever the order."""
    chosen = [row for name in view.rows for row in rows if row.row == name] if view.rows else list(rows)
    if view.sort is None:
        return chosen
    known = [(value, row) for row in chosen if (value := _sortable(row, view.sort, card)) is not None]
    unknown = [row for row in chosen if _sortable(row, view.sort, card) is None]
    metric = next((metric for metric in card.tabled if metric.name == view.sort), None)
    known.sort(key=lambda pair: pair[0], reverse=metric is not None and metric.better == "up")
    return [row for _, row in known] + unknown


def sorts(card: Card) -> list[str]:
    """The names by which rows can be sorted."""
    names = [metric.name for metric in card.tabled]
    kinds = ("", "delta_", "sd_", "paper_", "paper_delta_")
    return [*(f"{kind}{name}" for kind in kinds for name in names), "params", "flops", "seconds", "steps", "seeds", "row"]


def _sortable(row: TableRow, name: str, card: Card) -> float | str | None:
    parts = {"delta_": row.deltas, "sd_": row.sd, "paper_delta_": row.published_deltas, "paper_": row.published}
    names = {metric.name for metric in card.tabled}
    found = {f"{kind}{metric}": of.get(metric) for kind, of in parts.items() for metric in names}
    plain = {"params": row.params, "flops": row.flops, "seconds": row.seconds, "steps": row.steps}
    return {**found, **row.scores, **plain, "seeds": row.seeds, "row": row.row}[name]


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
