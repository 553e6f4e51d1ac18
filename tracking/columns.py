"""The table's columns for programs, and the words of those for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tracking.card import Card
from tracking.findings import Findings
from tracking.rows import TableRow
from tracking.tested import test_columns, tested_fields

PARAMS = "params_m"
COST_LABELS = {"params": "params", "flops": "FLOPs", "seconds": "time"}


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


def record(card: Card, row: TableRow, published: Sequence[str], findings: Findings) -> dict[str, Any]:
    """The row as one flat object: `ppl`, `paper_ppl`, `delta_ppl`, `paper_delta_ppl`, `sd_ppl` and so on."""
    scored = [name for name in published if name != PARAMS]
    parts: dict[str, dict[str, Any]] = {
        "scores": row.scores,
        "deltas": {f"delta_{name}": value for name, value in row.deltas.items()},
        "published": {f"paper_{name}": row.published.get(name) for name in published},
        "published_deltas": {f"paper_delta_{name}": row.published_deltas.get(name) for name in scored},
        "sd": {f"sd_{name}": value for name, value in row.sd.items()},
        **{"own_change": {}, "stopped": {}},  # `change` and `note` say it
    }
    flat: dict[str, Any] = {}
    for name, value in asdict(row).items():
        flat |= parts.get(name, {name: value})
    return flat | tested_fields(card, row, findings) | _best_fields(row, findings)


def csv_columns(card: Card, published: Sequence[str], seeds: Sequence[int], findings: Findings) -> list[str]:
    """Further columns are added at the end, so that those of earlier versions keep their places."""
    names, scored = [metric.name for metric in card.tabled], [name for name in published if name != PARAMS]
    best = [f"best_{findings.best_of.name}", "best_step"] if findings.best_of else []
    return [
        *("row", "group", "change", "seeds", "steps", *names, "params", "flops"),
        *(*(f"paper_{name}" for name in published), "seconds", *(f"delta_{name}" for name in names)),
        *(*(f"paper_delta_{name}" for name in scored), "asked", "note", "delta_seeds"),
        *(f"sd_{name}" for name in names),
        *(*test_columns(card, findings), *best, *(f"{name}_s{seed}" for name in names for seed in seeds)),
    ]


def value_of(card: Card, row: TableRow, name: str, findings: Findings) -> Any:
    """The value of a row in the column of this name: of CSV, of a seed, or of a change."""
    flat = record(card, row, published_names(card, [row]), findings) | by_seed(row)
    return flat[name] if name in flat else row.cells.get(name)


def by_seed(row: TableRow) -> dict[str, float | None]:
    """`ppl_s1` and so on."""
    return {f"{name}_s{seed}": value for name, values in row.seed_values.items() for seed, value in values.items()}


def seeds_of(rows: Sequence[TableRow]) -> list[int]:
    """Every finished seed of these rows, in order."""
    return sorted({seed for row in rows for values in row.seed_values.values() for seed in values})


def _best_fields(row: TableRow, findings: Findings) -> dict[str, Any]:
    if findings.best_of is None:
        return {}
    best = findings.best.get(row.row)
    value = best.mean(findings.best_of) if best else None
    return {
        f"best_{findings.best_of.name}": value,
        "best_step": best.step if best else None,
        "best_by_seed": {seed: [best.values[seed], best.steps[seed]] for seed in best.values} if best else {},
    }
