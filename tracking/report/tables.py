"""The tables of the page as its templates show them: results and costs, a line per row in the study's order.

Then what the rows wrote, side by side, and where the numbers come from, with every trial's state.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracking.card import Card, Metric
from tracking.files import unless_damaged
from tracking.provenance import changes
from tracking.report.drawing import Entry
from tracking.statistics.findings import Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study, Trial, seconds
from tracking.table.columns import COST_LABELS, StudyColumn, columns_of, cost_words, interval_of
from tracking.table.layout import brief, published_names, score_names
from tracking.words import stopped_at, time

SHOWN = 8
LONGEST = 2000  # letters of a text that has no lines in common with others
Texts = Mapping[str, Sequence[str]]
"""Lines of the set by what they are, such as source and reference. The last one is what outputs are compared with."""


@dataclass(frozen=True)
class Score:
    """A cell of the page. ``about`` it is shown when it is pointed at."""

    role: str  # first, delta or published
    text: str
    sd: str = ""
    about: str = ""
    known: bool = True  # whether it has a value, or needs none


def results(
    card: Card, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings, notes: str
) -> dict[str, Any]:
    """The study's table, and the lines below it."""
    costs, known = known_costs(rows), columns_of(card, rows, findings)
    columns = [known[name] for name in (*score_names(card, rows), *costs)]
    lines = [
        {
            "row": row,
            "entry": entry,
            "mark": findings.row_mark(row),
            "unlike": "; ".join(difference.text for difference in findings.unlike.get(row.row, ())),
            "cells": _cells(card, columns, row, findings),
        }
        for row, entry in zip(rows, entries, strict=True)
    ]
    heads, published = [COST_LABELS[name] for name in costs], published_names(card, rows)
    shown = {"metrics": card.tabled, "published": published, "costs": heads, "lines": lines}
    return shown | {"notes": notes.splitlines()}


def known_costs(rows: Sequence[TableRow]) -> list[str]:
    return [name for name in COST_LABELS if any(getattr(row, name) is not None for row in rows)]


def _cells(card: Card, columns: Sequence[StudyColumn], row: TableRow, findings: Findings) -> list[Score]:
    """In a row without a finished seed: its state once, in place of the first number."""
    about = {f"delta_{metric.name}": _about(row, metric, findings) for metric in card.tabled}
    scores = {metric.name for metric in card.tabled}
    first_cost = next((column.name for column in columns if column.name in COST_LABELS), "")
    found = list[Score]()
    for column, cell in zip(columns, brief(card, columns, row), strict=True):
        text, _, sd = cell.text.partition(" ± ")
        first = column.name in (*scores, first_cost)
        role = "first" * first + "delta" * (column.name in about) + "published" * column.faint
        known = column.name not in (*scores, *about) or column.value(row) is not None
        found.append(Score(role, text, sd, about.get(column.name, ""), known))
    return found


def _about(row: TableRow, metric: Metric, findings: Findings) -> str:
    """What the test says of the difference."""
    said = findings.words(row, metric) if row.seeds else ""
    return "; ".join(filter(None, [said, interval_of(row, metric, findings)]))


def costs(study: Study, rows: Sequence[TableRow], entries: Sequence[Entry]) -> dict[str, Any]:
    """Parameters, FLOPs and time per seed, each with its share of the highest one, and their sums over all finished
    trials, also those that diverged. Parameters are not summed: nobody pays for them twice. Empty if none is known."""
    known, write, shown = known_costs(rows), cost_words(study.task), {row.row for row in rows}
    if not known:
        return {}
    seen = study.standings([trial for trial in study.trials if trial.row in shown])
    results = [each.result for each in seen if each.result is not None]
    top = {name: max(getattr(row, name) or 0 for row in rows) for name in known}
    cells = [[(write[name](of := getattr(row, name)), _share(of, top[name])) for name in known] for row in rows]
    sums = {name: write[name](sum(of.get(name) or 0 for of in results)) for name in known if name != "params"}
    notes = "; ".join(f"{COST_LABELS[name]}: {study.task.cost_notes.get(name, 'computed')}" for name in known)
    return {
        "heads": [f"{COST_LABELS[name]}{' per seed' * (name in sums)}" for name in known],
        "lines": list(zip(rows, entries, cells, strict=True)),
        "sums": [sums.get(name, "") for name in known],
        "seeds": len(results),
        "note": f"{notes}. The sum counts finished trials, without interrupted attempts.",
    }


def _share(value: float | None, top: float) -> str:
    return f"{100 * value / top:.1f}%" if value and top else "0%"


def provenance(study: Study) -> dict[str, Any]:
    """``facts``: by name and value, the trials that have it. What all trials share stands once."""
    facts: dict[str, dict[str, list[str]]] = {}
    for trial in study.trials:
        for name, value in _facts(unless_damaged(study.trial_folder(trial).provenance, {})).items():
            facts.setdefault(name, {}).setdefault(value, []).append(trial.name)
    asked = [(utc(at) if (at := seconds(each["ts"])) else each["ts"], each["command"]) for each in study.asked]
    return {
        "asked": asked,
        "facts": facts,
        "trials": [(trial.name, _trial_cells(study, trial)) for trial in study.trials],
    }


def _facts(held: Mapping[str, Any]) -> dict[str, str]:
    """As text, without what is unknown."""
    cpu, versions = held.get("cpu") or {}, held.get("versions") or {}
    facts = {
        "commit": f"{held['commit']}{changes(held)}" if held.get("commit") else None,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "host": held.get("host"),
        "processor": f"{cpu.get('model') or 'unknown'}, {cpu.get('count')} CPUs" if cpu else None,
        "device": held.get("device"),
        "data fingerprint": held.get("data_fingerprint"),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _trial_cells(study: Study, trial: Trial) -> tuple[object, ...]:
    """State, attempts, step, time, key."""
    folder = study.trial_folder(trial)
    state, result = folder.standing(trial.key)
    held = result or {}
    attempts = len(unless_damaged(folder.attempts.all, []))
    return state, attempts, stopped_at(held) or held.get("step", ""), time(held.get("seconds")), trial.key[:12]


def utc(ts: float) -> str:
    """Unix seconds as 2026-11-22 20:14 UTC."""
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class Output:
    """The lines that one row wrote, with its first finished seed."""

    entry: Entry
    seed: int
    lines: list[str]


def samples(study: Study, entries: Sequence[Entry], texts: Texts) -> dict[str, dict[str, Any]]:
    """By artifact; an artifact that no finished trial has is left out."""
    set_name = study.task.headline.set
    found = {artifact: _outputs(study, entries, artifact, set_name) for artifact in study.task.artifacts}
    return {artifact: _shown(outputs, texts, set_name) for artifact, outputs in found.items() if outputs}


def _outputs(study: Study, entries: Sequence[Entry], artifact: str, set_name: str) -> list[Output]:
    by_row: dict[str, list[Trial]] = {}
    for trial in study.trials:
        by_row.setdefault(trial.row, []).append(trial)
    found = [(entry, _first(study, by_row[entry.row], artifact, set_name)) for entry in entries]
    return [Output(entry, *first) for entry, first in found if first is not None]


def _first(study: Study, trials: Sequence[Trial], artifact: str, set_name: str) -> tuple[int, list[str]] | None:
    for trial in trials:
        folder = study.trial_folder(trial)
        path: Path = folder.artifact_path(artifact, set_name)
        if folder.finished_result(trial.key) is not None and path.is_file():
            return trial.seed, path.read_text("utf-8", errors="replace").splitlines()
    return None


def _shown(outputs: Sequence[Output], texts: Texts, set_name: str) -> dict[str, Any]:
    """Some lines of all rows, or the whole texts where rows did not write the same number of lines."""
    if len({len(output.lines) for output in outputs}) > 1:
        return {"note": "", "samples": [], "whole": [(output, _cut("\n".join(output.lines))) for output in outputs]}
    texts = {name: lines for name, lines in texts.items() if len(lines) == len(outputs[0].lines)}
    chosen = _chosen(outputs)
    seeds = ", ".join(map(str, sorted({output.seed for output in outputs})))
    words = f"{len(chosen)} of {len(outputs[0].lines)} lines of {set_name}, evenly spaced among those on which rows"
    compared = list(texts)[-1] if texts else BASE
    marks = f"Marked: words that the {compared} does not have there. Struck: words left out."
    note = f"{words} differ; seed {seeds}. {marks}"
    return {"note": note, "samples": [_sample(outputs, texts, place) for place in chosen], "whole": []}


def _cut(text: str) -> str:
    return f"{text[:LONGEST]}…" if len(text) > LONGEST else text


def _chosen(outputs: Sequence[Output]) -> list[int]:
    count = len(outputs[0].lines)
    differing = [place for place in range(count) if len({output.lines[place] for output in outputs}) > 1]
    places = differing or list(range(count))
    return [places[number * len(places) // SHOWN] for number in range(SHOWN)] if len(places) > SHOWN else places


def _sample(outputs: Sequence[Output], texts: Texts, place: int) -> dict[str, Any]:
    """``wrote``: each line with the rows that wrote it."""
    given = {name: lines[place] for name, lines in texts.items()}
    base = next((output for output in outputs if output.entry.row == BASE), outputs[0])
    compared = [*given.values(), base.lines[place]][max(0, len(given) - 1)]
    wrote: dict[str, list[Entry]] = {}
    for output in outputs:
        wrote.setdefault(output.lines[place], []).append(output.entry)
    return {
        "line": place + 1,
        "given": given,
        "wrote": [(marked(text, compared), rows) for text, rows in wrote.items()],
    }


def marked(text: str, compared: str) -> list[tuple[str, str]]:
    """The words of a text in parts: "equal" to the other text, not there in it, or, of its words, "delete"d."""
    ours, theirs = text.split(), compared.split()
    changes = difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes() if ours else []
    return [
        (kind, " ".join(theirs[first:last] if kind == "delete" else ours[start:end]))
        for kind, first, last, start, end in changes
    ]
