"""What each row cost, with bars to compare, and what the study cost in all."""

from collections.abc import Callable, Sequence

from tracking.card import Card
from tracking.columns import COST_LABELS
from tracking.formats import flops, millions, parameters, time
from tracking.report.elements import Html, element
from tracking.report.row_entries import Entry
from tracking.rows import TableRow

Write = Callable[[float | None], str]


def cost_section(card: Card, rows: Sequence[TableRow], entries: Sequence[Entry]) -> list[Html]:
    """Parameters, FLOPs and time per seed with a bar each. The sum is over all finished trials."""
    writes: dict[str, Write] = {"params": millions if card.millions else parameters, "flops": flops, "seconds": time}
    known = [name for name in COST_LABELS if any(getattr(row, name) is not None for row in rows)]
    if not known:
        return []
    heads = [
        element("th", f"{COST_LABELS[name]}{'' if name == 'params' else ' per seed'}", scope="col") for name in known
    ]
    tops = {name: max(getattr(row, name) or 0 for row in rows) for name in known}
    lines = [
        element(
            "tr",
            element("th", entry.full, scope="row", class_="name"),
            element("td", str(row.seeds)),
            *(_cell(getattr(row, name), tops[name], writes[name]) for name in known),
            class_=f"row row-{entry.place}",
        )
        for row, entry in zip(rows, entries, strict=True)
    ]
    head = element("tr", element("th", "row", scope="col", class_="name"), element("th", "seeds", scope="col"), *heads)
    foot = element("tr", *_sums(rows, known, writes))
    table = element("table", element("thead", head), element("tbody", *lines), element("tfoot", foot), class_="costs")
    words = "; ".join(f"{COST_LABELS[name]}: {card.cost_notes.get(name, 'computed')}" for name in known)
    note = [element("p", f"{words}. The sum counts finished trials, without interrupted attempts.", class_="note")]
    return [element("div", table, class_="scroll", role="region", aria_label="Costs", tabindex=0), *note]


def _cell(value: float | None, top: float, write: Write) -> Html:
    share = f"{100 * value / top:.1f}%" if value and top else "0%"
    return element("td", element("span", write(value)), class_="bar", style=f"--share: {share}")


def _sums(rows: Sequence[TableRow], known: Sequence[str], writes: dict[str, Write]) -> list[Html]:
    """Parameters are not summed: nobody pays for them twice."""
    cells = [element("th", "in all", scope="row", class_="name"), element("td", str(sum(row.seeds for row in rows)))]
    for name in known:
        values = [(getattr(row, name) or 0) * row.seeds for row in rows]
        cells.append(element("td", "" if name == "params" else writes[name](sum(values)), class_="sum"))
    return cells
