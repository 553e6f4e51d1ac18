"""The studies of a folder as a table for a terminal and as JSON for scripts."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from tracking.card import Card
from tracking.damage import DamagedFileError
from tracking.statistics.rows import BASE, table
from tracking.study import Study, last_active, last_asked
from tracking.words import number


def studies_json(studies: Sequence[Study], faults: Sequence[DamagedFileError]) -> list[dict[str, Any]]:
    """One object per study, the most recently active first; of damaged ones, at the end, ``name`` and ``damage``."""
    unknown = dict.fromkeys(("rows", "seeds", "trials", "finished", "failed", "asked", "active", "base", "headline"))
    damaged = [{"name": fault.path.parent.name, **unknown, "damage": str(fault)} for fault in faults]
    return [*map(_line, studies), *damaged]


def studies_table(lines: Sequence[dict[str, Any]]) -> Table:
    """From the lines of ``studies_json``."""
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("study", overflow="fold")
    shown.add_column("rows × seeds", no_wrap=True)
    shown.add_column("finished", justify="right", no_wrap=True)
    shown.add_column("failed", justify="right")
    shown.add_column("last active, UTC", no_wrap=True)
    shown.add_column("base", overflow="fold")
    for line in lines:
        if line["damage"]:
            shown.add_row(escape(line["name"]), "damaged", "", "", "", escape(line["damage"]), style="red")
        else:
            counts = [f"{line['rows']} × {line['seeds']}", f"{line['finished']} of {line['trials']}"]
            when = "" if line["active"] is None else line["active"].replace("T", " ")[:16]
            failed = f"[red]{line['failed']}[/]" if line["failed"] else ""
            shown.add_row(escape(line["name"]), *counts, failed, when, line["headline"] or "")
    return shown


def _line(study: Study) -> dict[str, Any]:
    states = [study.trial_folder(trial).state(trial.key) for trial in study.trials]
    base = next((row for row in table(study) if row.row == BASE and row.seeds), None)
    return {
        "name": study.name,
        "rows": len({trial.row for trial in study.trials}),
        "seeds": len({trial.seed for trial in study.trials}),
        "trials": len(study.trials),
        "finished": states.count("finished"),
        "failed": states.count("failed"),
        "asked": _utc(last_asked(study)),
        "active": _utc(last_active(study) or None),
        "base": base and base.scores,
        "headline": base and _headline(study.task, base.scores),
        "damage": None,
    }


def _headline(card: Card, scores: Mapping[str, float | None]) -> str:
    """Such as "accuracy 0.897"."""
    known = [(metric, scores.get(metric.name)) for metric in card.tabled]
    return ", ".join(f"{metric.label} {number(value, metric.places)}" for metric, value in known if value is not None)


def _utc(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
