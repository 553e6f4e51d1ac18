"""The numbers of one row as text, and the word in place of a missing one."""

from collections.abc import Sequence

from tracking.card import COSTS, Card
from tracking.columns import PARAMS
from tracking.formats import flops, millions, number, parameters, signed, time
from tracking.metrics import Metric
from tracking.rows import NO_SEED_IN_COMMON, TableRow

NO_COMMON_SEED = "no seed in common"


def score(card: Card, row: TableRow, metric: Metric) -> str:
    return number(row.scores[metric.name], metric.places) or missing_score(card, row, metric)


def delta(card: Card, row: TableRow, metric: Metric) -> str:
    return signed(row.deltas[metric.name], metric.places) or missing_delta(card, row, metric)


def missing_score(card: Card, row: TableRow, metric: Metric) -> str:
    return f"mixed {card.settings_name}" if metric.decided_by(row.mixed_decode) else row.status


def missing_delta(card: Card, row: TableRow, metric: Metric) -> str:
    """A difference also needs a score of base with the same settings."""
    if row.scores[metric.name] is None:
        return missing_score(card, row, metric)
    if metric.decided_by(row.other_decode):
        return f"other {card.settings_name}"
    return NO_COMMON_SEED if NO_SEED_IN_COMMON in row.note else "no base"


def explained(card: Card) -> tuple[str, ...]:
    """The words that the row's note explains, for tables without room for them."""
    return f"other {card.settings_name}", f"mixed {card.settings_name}", NO_COMMON_SEED


def costs(card: Card, row: TableRow) -> list[str]:
    params = millions if card.millions else parameters
    cells = [params(row.params), flops(row.flops), time(row.seconds)]
    return [cell or missing_cost(row) for cell in cells]


def missing_cost(row: TableRow) -> str:
    """Empty in a finished row, whose costs are unknown; the caption says so."""
    return "" if row.seeds else row.status


def missing(card: Card, row: TableRow) -> dict[str, str]:
    """The word for every number of ours, by its column, in case that it is missing."""
    scores = {metric.name: missing_score(card, row, metric) for metric in card.tabled}
    deltas = {f"delta_{metric.name}": missing_delta(card, row, metric) for metric in card.tabled}
    return {"steps": row.status, **dict.fromkeys(COSTS, missing_cost(row)), **scores, **deltas}


def published(card: Card, row: TableRow, names: Sequence[str]) -> list[str]:
    """The published values; a cell without one is empty."""
    metrics = [metric for metric in card.tabled if metric.name in names]
    params = [number(row.published[PARAMS], 0)] if PARAMS in names else []
    values = [number(row.published[metric.name], metric.places) for metric in metrics]
    return [*values, *params, *(published_delta(row, metric) for metric in metrics)]


def published_delta(row: TableRow, metric: Metric) -> str:
    return signed(row.published_deltas[metric.name], metric.places)
