"""The study's table on the page: one line per row, under the headings of its metrics and costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracking import cells
from tracking.card import Card
from tracking.columns import COST_LABELS, published_names
from tracking.findings import Findings
from tracking.metrics import Metric
from tracking.report.elements import Html, element, join
from tracking.report.row_entries import Entry
from tracking.rows import BASE, TableRow
from tracking.tested import words

NONE = "–"


@dataclass(frozen=True)
class Table:
    """What all lines share."""

    card: Card
    findings: Findings
    published: Sequence[str]  # metrics with published values
    costs: Sequence[str]  # those that any row knows

    def names(self, metric: Metric) -> list[str]:
        return ["value", "Δ", *(["published Δ"] if metric.name in self.published else [])]


def table_section(
    card: Card, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings, notes: str
) -> list[Html]:
    """The table in a region that scrolls sideways, and the lines below it."""
    known = [name for name in COST_LABELS if any(getattr(row, name) is not None for row in rows)]
    table = Table(card, findings, published_names(card, rows), known)
    made = element("table", _head(table), *_bodies(table, rows, entries), class_="study")
    region = element("div", made, class_="scroll", role="region", aria_label="Table of the study", tabindex=0)
    return [region, *(element("p", line, class_="note") for line in notes.splitlines())]


def _head(table: Table) -> Html:
    upper = [element("th", "", scope="col", rowspan=2), _column("change", class_="name", rowspan=2)]
    lower: list[Html] = []
    for metric in table.card.tabled:
        names = table.names(metric)
        unit, count = metric.unit or None, len(names)
        upper.append(element("th", metric.label, scope="colgroup", colspan=count, class_="first", title=unit))
        lower += [_column(name, class_=_first(place)) for place, name in enumerate(names)]
    upper += [_column(COST_LABELS[name], class_=_first(place), rowspan=2) for place, name in enumerate(table.costs)]
    return element("thead", element("tr", *upper), element("tr", *lower))


def _column(name: str, **attributes: str | int | None) -> Html:
    return element("th", name, scope="col", **attributes)


def _bodies(table: Table, rows: Sequence[TableRow], entries: Sequence[Entry]) -> list[Html]:
    """One `tbody` per group, in the study's order."""
    bodies: list[list[Html]] = []
    for place, (row, entry) in enumerate(zip(rows, entries, strict=True)):
        begins = place == 0 or rows[place - 1].group != row.group
        if begins:
            bodies.append([])
        bodies[-1].append(_line(table, row, entry, row.group if begins else ""))
    return [element("tbody", *lines) for lines in bodies]


def _line(table: Table, row: TableRow, entry: Entry, group: str) -> Html:
    found: list[Html] = []
    for place, metric in enumerate(table.card.tabled):
        found += _numbers(table, row, metric) if row.seeds else _none(row.status if place == 0 else NONE)
        if metric.name in table.published:
            found.append(element("td", cells.published_delta(row, metric), class_="published"))
    shown = zip(COST_LABELS, cells.costs(table.card, row) if row.seeds else [NONE] * len(COST_LABELS), strict=True)
    costs = [cell for name, cell in shown if name in table.costs]
    found += [element("td", cell, class_=_first(place)) for place, cell in enumerate(costs)]
    begin = element("td", group, class_="group"), _name(table, row, entry)
    return element("tr", *begin, *found, class_=f"row row-{entry.place}")


def _name(table: Table, row: TableRow, entry: Entry) -> Html:
    mark = table.findings.row_mark(row)
    unlike = "; ".join(difference.text for difference in table.findings.unlike.get(row.row, ()))
    parts = [element("span", entry.label, mark, title=unlike or None)]
    parts += [element("code", row.row)] if row.row != BASE else []
    parts += [element("span", row.note, class_="why")] if row.note and row.note != row.status else []
    return element("th", *parts, scope="row", class_="name")


def _numbers(table: Table, row: TableRow, metric: Metric) -> list[Html]:
    """Score and difference. What the test says, and the interval, are shown when the difference is pointed at."""
    said = words(row, metric, table.findings) if metric.name in table.findings.seeds else ""
    about = "; ".join(filter(None, [said, cells.interval(row, metric, table.findings)]))
    value = _with_spread(cells.score(table.card, row, metric))
    delta = cells.delta(table.card, row, metric, table.findings)
    return [
        element("td", *value, class_=_kind("first", row.scores[metric.name])),
        element("td", delta, class_=_kind("delta", row.deltas[metric.name]), title=about or None),
    ]


def _none(word: str) -> list[Html]:
    """In a row without a finished seed: its state once, in place of the first number."""
    return [element("td", word, class_="first missing"), element("td", NONE, class_="missing")]


def _kind(name: str, value: float | None) -> str:
    return f"{name} missing" if value is None else name


def _first(place: int) -> str | None:
    """The class of the first column of several that belong together."""
    return "first" if place == 0 else None


def _with_spread(text: str) -> list[Html]:
    """The part after ± in smaller letters."""
    value, mark, spread = text.partition("±")
    return [join([value]), element("span", f"±{spread}", class_="sd")] if mark else [join([text])]
