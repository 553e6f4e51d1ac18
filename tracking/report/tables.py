"""The two tables of the page, results and costs, as its templates show them: a line per row, in the study's order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Card, Metric
from tracking.report.row_entries import Entry
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.table import cells
from tracking.table.columns import COST_LABELS, published_names
from tracking.words import flops, millions, parameters, time

NONE = "–"


@dataclass(frozen=True)
class Score:
    """One metric of a row as text. ``about`` the difference is shown when it is pointed at."""

    value: str
    sd: str = ""
    delta: str = NONE
    about: str = ""
    published: str | None = None  # None without a column for it
    has_value: bool = False
    has_delta: bool = False


def results(
    card: Card, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings, notes: str
) -> dict[str, Any]:
    """The study's table, and the lines below it."""
    published, known = published_names(card, rows), known_costs(rows)
    lines = [
        {
            "row": row,
            "entry": entry,
            "mark": findings.row_mark(row),
            "unlike": "; ".join(difference.text for difference in findings.unlike.get(row.row, ())),
            "scores": [_score(card, row, metric, findings, metric.name in published) for metric in card.tabled],
            "costs": _costs(card, row, known),
        }
        for row, entry in zip(rows, entries, strict=True)
    ]
    heads = [COST_LABELS[name] for name in known]
    return {
        **{"metrics": card.tabled, "published": published, "costs": heads, "lines": lines},
        "notes": notes.splitlines(),
    }


def known_costs(rows: Sequence[TableRow]) -> list[str]:
    return [name for name in COST_LABELS if any(getattr(row, name) is not None for row in rows)]


def _score(card: Card, row: TableRow, metric: Metric, findings: Findings, published: bool) -> Score:
    """In a row without a finished seed: its state once, in place of the first number."""
    paper = cells.published_delta(row, metric) if published else None
    if not row.seeds:
        return Score(row.status if metric == card.tabled[0] else NONE, published=paper)
    said = findings.words(row, metric)
    value, _, sd = cells.score(card, row, metric).partition("±")
    return Score(
        value,
        sd,
        cells.delta(card, row, metric, findings),
        "; ".join(filter(None, [said, cells.interval(row, metric, findings)])),
        paper,
        row.scores[metric.name] is not None,
        row.deltas[metric.name] is not None,
    )


def _costs(card: Card, row: TableRow, known: Sequence[str]) -> list[str]:
    shown = dict(zip(COST_LABELS, cells.costs(card, row), strict=True))
    return [shown[name] if row.seeds else NONE for name in known]


@dataclass(frozen=True)
class Cost:
    """One cost of all rows. Parameters are not summed: nobody pays for them twice."""

    name: str
    rows: Sequence[TableRow]
    write: Callable[[float | None], str]

    @property
    def head(self) -> str:
        return f"{COST_LABELS[self.name]}{'' if self.name == 'params' else ' per seed'}"

    @property
    def sum(self) -> str:
        """Over all finished trials."""
        values = [(getattr(row, self.name) or 0) * row.seeds for row in self.rows]
        return "" if self.name == "params" else self.write(sum(values))

    def of(self, row: TableRow) -> tuple[str, str]:
        """The cost of a row, and its share of the highest one."""
        value, top = getattr(row, self.name), max(getattr(each, self.name) or 0 for each in self.rows)
        return self.write(value), f"{100 * value / top:.1f}%" if value and top else "0%"


def costs(card: Card, rows: Sequence[TableRow], entries: Sequence[Entry]) -> dict[str, Any]:
    """Parameters, FLOPs and time per seed, and their sums; empty if none is known."""
    writes = {"params": millions if card.millions else parameters, "flops": flops, "seconds": time}
    known = known_costs(rows)
    noted = "; ".join(f"{COST_LABELS[name]}: {card.cost_notes.get(name, 'computed')}" for name in known)
    if not known:
        return {}
    return {
        "costs": [Cost(name, rows, writes[name]) for name in known],
        "rows": list(zip(rows, entries, strict=True)),
        "seeds": sum(row.seeds for row in rows),
        "note": f"{noted}. The sum counts finished trials, without interrupted attempts.",
    }
