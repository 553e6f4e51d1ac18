"""One run compared with base and the paper, as metrics of the run."""

from collections.abc import Sequence
from dataclasses import replace

from tracking.card import Card
from tracking.describe import MORE_PLACES
from tracking.journal import JournalLine
from tracking.metric_names import BEST, DELTA, LAST, PUBLISHED, PUBLISHED_DELTA, VAL, journal_name
from tracking.rows import BASE, TableRow, table
from tracking.study import Study, Trial


def base_of(study: Study, trial: Trial) -> Trial | None:
    """Base's trial with the same seed; None without one."""
    return next((each for each in study.trials if (each.row, each.seed) == (BASE, trial.seed)), None)


def row_of(study: Study, trial: Trial) -> TableRow:
    """The trial as a row of the table, with base's trial of the same seed as its only base."""
    base = base_of(study, trial)
    trials = (trial,) if base in (None, trial) else (base, trial)
    return table(replace(study, trials=tuple(each for each in trials if each)))[-1]


def delta_values(card: Card, row: TableRow) -> dict[str, float]:
    """`delta/<metric>`: the run minus base's run with the same seed."""
    places = {metric.name: metric.decimals + MORE_PLACES for metric in card.metrics}
    known = {name: value for name, value in row.deltas.items() if value is not None}
    return {f"{DELTA}{name}": round(value, places[name]) for name, value in known.items()}


def published_values(study: Study, trial: Trial) -> dict[str, float]:
    """`published/<name>`, and `published/delta/<metric>` from the published base; millions for `params_m`."""
    known = {name: value for name, value in trial.published.items() if value is not None}
    base = next((each.published for each in study.trials if each.row == BASE), {})
    metrics = [metric.name for metric in study.task.tabled if metric.name in known]
    found = {f"{PUBLISHED}{name}": value for name, value in known.items()}
    for name in metrics:
        if (theirs := base.get(name)) is not None:
            found[f"{PUBLISHED_DELTA}{name}"] = round(known[name] - theirs, 9)  # 5.29 − 4.92 is 0.37
    return found


def best_and_last(card: Card, journal: Sequence[JournalLine]) -> dict[str, tuple[float, JournalLine]]:
    """`best/<metric>` and `last/<metric>` of each `val/<metric>`, with the report that has it; of equals the first."""
    found: dict[str, tuple[float, JournalLine]] = {}
    for metric in card.metrics:
        name = f"{VAL}{metric.name}"
        values = [(at[name], line) for line in journal if name in (at := _named(card, line))]
        best = metric.best(value for value, _ in values)
        if best is not None:
            found[f"{BEST}{metric.name}"] = next(each for each in values if each[0] == best)
            found[f"{LAST}{metric.name}"] = values[-1]
    return found


def _named(card: Card, line: JournalLine) -> dict[str, float]:
    return {journal_name(card, name): value for name, value in line.metrics.items()}
