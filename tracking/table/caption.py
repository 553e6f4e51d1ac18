"""The lines below the table: how its numbers came about, and what they do not show."""

from collections.abc import Mapping, Sequence

from tracking.card import Card
from tracking.statistics.findings import NONE, Findings
from tracking.statistics.rows import TableRow, decode_of
from tracking.table.cells import MIXED_SETTINGS
from tracking.table.chance_notes import chance_notes
from tracking.table.columns import COST_LABELS, setting_words
from tracking.table.view import PLAIN, View


def caption(card: Card, rows: Sequence[TableRow], findings: Findings = NONE, view: View = PLAIN, last: str = "") -> str:
    """An explanation of the columns, with the settings for scoring, the number of seeds and what was tested.

    ``last`` ends it."""
    notes = [f"{metric.label}: {metric.note}" for metric in card.tabled if metric.note]
    costs = [f"{COST_LABELS[name]}: {_cost_note(card, rows, name)}" for name in ("seconds", "params", "flops")]
    spread = ["±: standard deviation over seeds"] * any(value is not None for row in rows for value in row.sd.values())
    about = [
        *_measured(card, rows),
        *notes,
        *costs,
        f"Δ: difference from {findings.reference}, between means over all seeds of both",
        *spread,
    ]
    text = " ".join(filter(None, [f"{'; '.join(about)}.", card.published_note, seeds_note(rows, findings)]))
    names = scaling_note(card, {row.row: row.before_scaling for row in rows if row.before_scaling})
    sizes = size_note({row.row: row.size for row in rows if row.size})
    return "\n".join(filter(None, [text, *chance_notes(card, rows, findings, view), sizes, names])) + last


def size_note(sizes: Mapping[str, str]) -> str:
    """The rows whose model is of another size than base's, although they change no size. Empty without such rows."""
    return f"Not of base's size: {'; '.join(f'{row} has {words}' for row, words in sizes.items())}." if sizes else ""


def scaling_note(card: Card, changes: Mapping[str, str]) -> str:
    """What rows are before scaling, by name: it explains names such as c_layers_2. Empty without rows."""
    words = "; ".join(f"{row} is {change}" for row, change in changes.items())
    size = "At the paper's size" if card.published_note else "Before scaling"
    return f"{size} {words}." if words else ""


def seeds_note(rows: Sequence[TableRow], findings: Findings = NONE) -> str:
    """The number of seeds behind each row, and the limits that it sets on conclusions."""
    counts = sorted({row.seeds for row in rows if row.seeds})
    if not counts:
        return "No seed is finished."
    spread = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"Seeds per row: {spread}."
    return text if counts[0] > 1 else f"{text} With one seed: differences not tested."


def _measured(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """Such as "accuracy and loss: measured on test, threshold 0.5", for each set."""
    words = setting_words(card, decode_of(rows)) or [MIXED_SETTINGS] * any(row.mixed_decode for row in rows)
    labels = {name: [metric.label for metric in card.tabled if metric.set == name] for name in card.scored_sets}
    return [f"{_listed(of_set)}: measured on {', '.join([name, *words])}" for name, of_set in labels.items()]


def _listed(names: Sequence[str]) -> str:
    """A, B and C."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _cost_note(card: Card, rows: Sequence[TableRow], name: str) -> str:
    """A cost that no task can tell is unknown."""
    unknown = [getattr(row, name) is None for row in rows if row.seeds]
    if unknown and all(unknown):
        return "unknown"
    note = card.cost_notes.get(name, "computed")
    return f"{note}, unknown where empty" if any(unknown) else note
