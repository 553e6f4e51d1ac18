"""The numbers of one row as text, and the word in place of a missing one."""

from tracking.card import Card, Metric
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.words import flops, millions, number, parameters, signed, signed_nonzero, spread, time

OTHER_SETTINGS, MIXED_SETTINGS = "other settings", "mixed settings"
NOT_REPORTED = "not reported"
EXPLAINED = (OTHER_SETTINGS, MIXED_SETTINGS)
"""The words that the row's note explains, for tables without room for them."""


def score(card: Card, row: TableRow, metric: Metric, plus_minus: str = " ± ") -> str:
    """The mean, with the standard deviation over two seeds or more: 91.7 ± 0.4."""
    found, deviation = number(row.scores[metric.name], metric.places), row.sd[metric.name]
    if not found:
        return missing_score(card, row, metric)
    return found if deviation is None else f"{found}{plus_minus}{spread(deviation, metric.places)}"


def delta(card: Card, row: TableRow, metric: Metric, findings: Findings) -> str:
    """The difference with its mark."""
    mark, value = findings.mark(row, metric), row.deltas[metric.name]
    text = signed_nonzero(value, metric.places) if mark else signed(value, metric.places)
    return f"{text}{mark}" if text else missing_delta(card, row, metric, findings.reference)


def interval(row: TableRow, metric: Metric, findings: Findings) -> str:
    """Such as [−1.2, −0.3]; empty without a test."""
    found = findings.interval(row, metric)
    return f"[{', '.join(signed_nonzero(end, metric.places) for end in found)}]" if found else ""


def missing_score(card: Card, row: TableRow, metric: Metric) -> str:
    return MIXED_SETTINGS if metric.decided_by(row.mixed_decode) else row.status


def missing_delta(card: Card, row: TableRow, metric: Metric, reference: str) -> str:
    """A difference also needs a score of the reference with the same settings."""
    if row.scores[metric.name] is None:
        return missing_score(card, row, metric)
    if metric.decided_by(row.other_decode):
        return OTHER_SETTINGS
    return f"no {reference}"


def costs(card: Card, row: TableRow) -> list[str]:
    params = millions if card.millions else parameters
    cells = [params(row.params), flops(row.flops), time(row.seconds)]
    return [cell or missing_cost(row) for cell in cells]


def missing_cost(row: TableRow) -> str:
    """Empty in a finished row, whose costs are unknown; the caption says so."""
    return "" if row.seeds else row.status


def published_score(row: TableRow, metric: Metric) -> str:
    """A cell that was not published is empty."""
    return number(row.published[metric.name], metric.places)


def published_delta(row: TableRow, metric: Metric) -> str:
    return signed(row.published_deltas[metric.name], metric.places)


def best_value(row: TableRow, metric: Metric, findings: Findings) -> str:
    """The best score that was reported while training, over the row's seeds."""
    best = findings.best.get(row.row)
    found = number(best.mean(metric), metric.places) if best else ""
    return found or (NOT_REPORTED if row.seeds else row.status)


def best_step(row: TableRow, findings: Findings) -> str:
    """The step of that score; the first and the last one of several seeds."""
    best = findings.best.get(row.row)
    if best is None:
        return NOT_REPORTED if row.seeds else row.status
    first, last = min(best.steps.values()), max(best.steps.values())
    return str(first) if first == last else f"{first}–{last}"
