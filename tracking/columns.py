"""The table's columns: those for changes and scores follow from the study's task."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tracking.card import Card
from tracking.rows import TableRow

PARAMS = "params_m"
COST_LABELS = {"params": "params", "flops": "FLOPs", "seconds": "time"}
SCORES_WIDTH = 48  # of the score columns that every terminal shows
COST_WIDTHS = {"params": 38, "FLOPs": 61, "time": 61}  # the least room besides the scores
CHANGE_WIDTH = 32


def setting_cells(card: Card, cells: Mapping[str, object]) -> list[str]:
    """A row's changes in the columns of the card's symbols; an unchanged cell is empty."""
    return [str(cells[name]) if name in cells else "" for name in card.symbols]


def other_changes(card: Card, cells: Mapping[str, object]) -> str:
    """The changes without a column, in words."""
    others = {name: value for name, value in cells.items() if name not in card.symbols}
    phrases = {name: card.change_phrases.get(name, f"{name} {{value}}") for name in others}
    return ", ".join(phrases[name].replace("{value}", str(value)) for name, value in others.items())


def setting_words(card: Card, settings: Mapping[str, Any]) -> list[str]:
    """The settings for scoring in the words of their task. Settings without a phrase or a value are left out."""
    names = dict.fromkeys(phrase.partition("=")[0] for phrase in card.setting_phrases)
    known = {name: settings[name] for name in names if settings.get(name) is not None}
    phrases = {name: card.setting_phrases.get(f"{name}={value}") for name, value in known.items()}
    words = {name: phrases[name] or card.setting_phrases.get(name, "") for name in known}
    return [words[name].replace("{value}", str(value)) for name, value in known.items() if words[name]]


def published_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The quantities with a column for published values: all of them, or those that any row has."""
    names = [*(metric.name for metric in card.tabled), PARAMS]
    return [name for name in names if card.published_note or any(row.published.get(name) is not None for row in rows)]


def record(card: Card, row: TableRow, published: Sequence[str]) -> dict[str, Any]:
    """The row as one flat object: `ppl`, `paper_ppl`, `delta_ppl`, `paper_delta_ppl` and so on."""
    scored = [name for name in published if name != PARAMS]
    parts = {
        "scores": row.scores,
        "deltas": {f"delta_{name}": value for name, value in row.deltas.items()},
        "published": {f"paper_{name}": row.published.get(name) for name in published},
        "published_deltas": {f"paper_delta_{name}": row.published_deltas.get(name) for name in scored},
    }
    flat: dict[str, Any] = {}
    for name, value in asdict(row).items():
        flat |= parts.get(name, {name: value})
    return flat


def csv_columns(card: Card, published: Sequence[str]) -> list[str]:
    names, scored = [metric.name for metric in card.tabled], [name for name in published if name != PARAMS]
    return [
        *("row", "group", "change", "seeds", "steps", *names, "params", "flops"),
        *(*(f"paper_{name}" for name in published), "seconds", *(f"delta_{name}" for name in names)),
        *(*(f"paper_delta_{name}" for name in scored), "asked", "note", "delta_seeds"),
    ]


def measures(card: Card, published: Sequence[str]) -> list[str]:
    """The columns of numbers in Markdown."""
    labels = [metric.label for metric in card.tabled]
    paper = {metric.name: metric.label for metric in card.tabled if metric.name in published}
    return [
        *(*labels, *(f"Δ{label}" for label in labels), *COST_LABELS.values()),
        *(f"paper {label}" for label in paper.values()),
        *(["paper params ×10⁶"] if PARAMS in published else []),
        *(f"paper Δ{label}" for label in paper.values()),
    ]


def terminal_columns(card: Card, published: Sequence[str]) -> list[tuple[str, int]]:
    """The columns of numbers in a terminal, each with the least width of a terminal that shows it."""
    found, total = list[tuple[str, int]](), 0
    for metric in card.tabled:
        heads = [metric.label, f"Δ{metric.label}", *(["paper\nΔ"] if metric.name in published else [])]
        total += sum(2 + max(6, *map(len, head.split("\n"))) for head in heads)
        found += [(head, 0 if total <= SCORES_WIDTH else CHANGE_WIDTH + total) for head in heads]
    return found + [(name, room + total) for name, room in COST_WIDTHS.items()]
