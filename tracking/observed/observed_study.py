"""An observed study on disk: the same files as of a study that allelse ran, and ``observed.json``.

Its card has the metrics and no groups. Each trial has one attempt, the result, where it comes from,
and a journal if the source has curves. It has no checkpoints, texts or statistics of samples.
"""

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from tracking.card import COSTS, DEVICE_COSTS, Card, Metric
from tracking.files import to_json, write_atomic
from tracking.json_lines.journal import journal_line
from tracking.observed.columns import plain_name
from tracking.observed.metric_columns import UNNAMED_SET, MetricColumn
from tracking.observed.observation import Observation
from tracking.observed.record import ObservedRecord, write_record
from tracking.observed.roles import Roles
from tracking.observed.rows import BASE, ObservedRow, ObservedRows
from tracking.observed.runs import ObservedRun
from tracking.observed.source_table import (
    ImportFault,
    ImportRefusedError,
    Value,
    value_text,
)
from tracking.study import Study, StudyTrial, write_study

SETTINGS = "settings"
"""The group of settings whose names have no folder."""
AS_RECORDED = "as recorded"
DIGITS = 4
"""Significant digits of the largest score, at least, in a table."""
UNKNOWN = "unknown"
NO_SET = "its source names no set"


def card_of(observation: Observation, name: str) -> Card:
    """Raises ImportRefusedError for a metric whose name a table needs for something else."""
    runs = [run for row in observation.rows.rows for run in row.runs]
    metrics = tuple(_metric(column, runs) for column in observation.roles.metrics)
    changed = dict.fromkeys(
        observation.rows.labels[column] for row in observation.rows.rows for column in row.changed
    )
    notes = dict.fromkeys(COSTS, AS_RECORDED)
    card = Card(name, 1, metrics, {label: label for label in changed}, cost_notes=notes)
    if faults := card.faults():
        allowed = "rename the column, or import another one"
        raise ImportRefusedError([ImportFault("--metric", fault, allowed) for fault in faults])
    return card


def _metric(column: MetricColumn, runs: Sequence[ObservedRun]) -> Metric:
    scores = [abs(run.scores.get(column.column) or 0.0) for run in runs]
    largest = max(scores, default=0.0)
    before_point = 1 + math.floor(math.log10(largest)) if largest >= 1 else 0
    decimals = max(1, DIGITS - before_point)
    note = NO_SET if column.set == UNNAMED_SET else ""
    return Metric(column.name, better=column.better, set=column.set, decimals=decimals, note=note)


def write_observed(
    folder: Path, observation: Observation, name: str, command: str, identity: str = ""
) -> Study:
    """Write the study into an empty folder, its ``study.json`` last. Raises
    ImportRefusedError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    card = card_of(observation, name)
    rows = observation.rows
    trials = [(row, run, _trial(row, run)) for row in rows.rows for run in row.runs]
    for row, run, trial in trials:
        _write_trial(folder / trial.name, observation, card, row, run, trial)
    runs = {trial.name: run.name for _, run, trial in trials}
    write_record(folder, _record(observation, now, runs))
    asked = {"ts": now, "command": command, "added": [*runs], "dropped": [], "saw_results": False}
    study = Study(
        folder,
        tuple(trial for _, _, trial in trials),
        cells={row.name: _cells(rows, row) for row in rows.rows},
        asked=(asked,),
        settings=_grouped(_settings(observation, rows.base.runs[0])),
        rows=tuple(_row(row) for row in rows.rows),
        seeds=tuple(sorted({trial.seed for _, _, trial in trials})),
        identity=identity or uuid.uuid4().hex,
        task=card,
    )
    write_study(study)
    return study


def _row(row: ObservedRow) -> dict[str, Any]:
    changed = {_dotted(column): value for column, value in row.changed.items()}
    words = {"row": row.name, "group": row.group, "change": row.change, "published": {}}
    return {**words, "before_scaling": "", "values": changed, "size": ""}


def _cells(rows: ObservedRows, row: ObservedRow) -> dict[str, object]:
    """What the row changes; of base, the value of every setting that a row changes."""
    if row is not rows.base:
        return {rows.labels[column]: _cell(value) for column, value in row.changed.items()}
    changed = dict.fromkeys(column for another in rows.rows for column in another.changed)
    return {rows.labels[column]: _cell(row.settings[column]) for column in changed}


def _cell(value: Value) -> object:
    """As JSON has it: a value that is not set has words."""
    return value_text(value) if value is None else value


def _trial(row: ObservedRow, run: ObservedRun) -> StudyTrial:
    """Its key can't be that of a trial that allelse trains."""
    settings = {column: run.settings[column] for column in sorted(run.settings)}
    content = ["observed", row.name, run.name, run.seed, settings, dict(run.scores)]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    key = sha256(text.encode()).hexdigest()
    return StudyTrial(row.name, row.group, row.change, run.seed or 0, key, {})


def _settings(observation: Observation, run: ObservedRun) -> dict[str, Value]:
    """Of a run, without what the seed decides."""
    follows = observation.rows.follows_seed
    return {column: value for column, value in run.settings.items() if column not in follows}


def _dotted(column: str) -> str:
    """optimizer.lr, or settings.lr of a name without a folder."""
    name = plain_name(column)
    group, point, rest = name.partition(".")
    return name if point and group and rest else f"{SETTINGS}.{name}"


def _grouped(settings: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for column, value in settings.items():
        group, _, name = _dotted(column).partition(".")
        groups.setdefault(group, {})[name] = value
    return groups


def _write_trial(
    folder: Path,
    observation: Observation,
    card: Card,
    row: ObservedRow,
    run: ObservedRun,
    trial: StudyTrial,
) -> None:
    began = run.began if run.began is not None else datetime.now(UTC).timestamp()
    ended = run.ended if run.ended is not None else began + run.costs.get("seconds", 0.0)
    data = " ".join(f"{name} {value_text(value)}" for name, value in run.data.items())
    paths = {"runs": str(folder.parent.parent), "data": "", "checkpoints": None}
    own = {"key": trial.key, "data_fingerprint": data, "paths": paths}
    config = _grouped(_settings(observation, run)) | own
    write_atomic(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))
    write_atomic(folder / "attempts.jsonl", _attempt(began, max(began, ended)))
    if journal := _journal(observation.roles, run):
        write_atomic(folder / "journal.jsonl", journal)
    write_atomic(folder / "provenance.json", to_json(_provenance(run, began, data)) + "\n")
    write_atomic(folder / "result.json", to_json(_result(card, observation, run, trial)) + "\n")


def _attempt(began: float, ended: float) -> str:
    process = {"host": UNKNOWN, "pid": 0, "birth": "", "lineage": "", "run": ""}
    lines = (
        {"attempt": 1, "ts": began, **process},
        {"attempt": 1, "ts": ended, "end": True, "reason": "finished"},
    )
    return "".join(to_json(line) + "\n" for line in lines)


def _journal(roles: Roles, run: ObservedRun) -> str:
    """The curves of the source, a line per step."""
    names = {metric.column: f"{metric.set}/{metric.name}" for metric in roles.metrics}
    reports: dict[int, dict[str, float]] = {}
    times: dict[int, float] = {}
    for column, points in run.curves.items():
        for point in points if len(points) > 1 else ():
            name = names.get(column) or plain_name(column)
            reports.setdefault(point.step, {})[name] = point.value
            times[point.step] = max(point.ts, times.get(point.step, 0.0))
    lines = [journal_line(times[step], 1, step, reports[step], None) for step in sorted(reports)]
    return "".join(to_json(line) + "\n" for line in lines)


def _provenance(run: ObservedRun, began: float, data: str) -> dict[str, Any]:
    """One attempt that trained everything. ``from`` -1: also where no step is known."""
    code = [value_text(value) for value in run.code.values()]
    versions = {name: value_text(value) for name, value in run.packages.items()}
    return {
        "commit": code[0] if code else None,
        "ts": began,
        "versions": versions,
        "device": run.device,
        "data_fingerprint": data,
        **{"attempt": 1, "from": -1, "steps": run.step},
    }


def _result(
    card: Card, observation: Observation, run: ObservedRun, trial: StudyTrial
) -> dict[str, Any]:
    scores: dict[str, dict[str, Any]] = {}
    for column, metric in zip(observation.roles.metrics, card.metrics, strict=True):
        of_set = scores.setdefault(metric.set, {"decode": {}})
        of_set[metric.name] = run.scores.get(column.column)
    diverged = run.step if None in run.scores.values() else None
    identity = {"key": trial.key, "seed": trial.seed, "attempt": 1, "step": run.step}
    costs = {name: run.costs.get(name) for name in COSTS}
    return {
        **identity,
        **{"steps": None, "diverged": diverged, "scores": scores},
        **costs,
        **dict.fromkeys(DEVICE_COSTS),
    }


def _record(observation: Observation, now: str, runs: dict[str, str]) -> ObservedRecord:
    roles = observation.roles
    rows = observation.rows
    guessed = [*roles.guessed, *(["base"] if rows.guessed_base else [])]
    left_out = tuple({"run": run.run.name, "why": run.why} for run in observation.left_out)
    return ObservedRecord(
        source=observation.table.source,
        ts=now,
        base=base_words(rows, len(rows.base.every_run)),
        rows_by=roles.row and plain_name(roles.row),
        seed=roles.seed and plain_name(roles.seed),
        guessed=tuple(guessed),
        metrics=tuple(asdict(metric) for metric in roles.metrics),
        settings=tuple(rows.labels.values()),
        unused=tuple(plain_name(column) for column in roles.columns("measured", "unused")),
        follow_seed=tuple(plain_name(column) for column in rows.follows_seed),
        runs=runs,
        left_out=left_out,
        doubts=observation.doubts,
    )


def base_words(rows: ObservedRows, number: int) -> str:
    """Such as "model base, lr 0.1": the settings of base that any row changes."""
    changed = dict.fromkeys(column for row in rows.rows for column in row.changed)
    words = [
        f"{rows.labels[column]} {value_text(rows.base.settings[column])}" for column in changed
    ]
    return ", ".join(filter(None, [rows.base_words, *words])) or BASE
