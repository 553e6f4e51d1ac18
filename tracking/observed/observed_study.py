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
from tracking.observed.record import ObservedRecord, read_record, write_record
from tracking.observed.rows import BASE, ObservedRow, ObservedRows
from tracking.observed.runs import ObservedRun
from tracking.observed.source_table import (
    ImportFault,
    ImportRefusedError,
    Value,
    value_text,
)
from tracking.study import Study, StudyTrial, trial_folder, write_study
from tracking.trial import TrialFolder

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
    labels = [observation.rows.labels[column] for column in _changed_columns(observation.rows)]
    symbols = {label: label for label in labels}
    card = Card(name, 1, metrics, symbols, cost_notes=dict.fromkeys(COSTS, AS_RECORDED))
    faults = card.faults()
    if faults:
        allowed = "rename the column, or import another one"
        raise ImportRefusedError([ImportFault("--metric", fault, allowed) for fault in faults])
    return card


def _metric(column: MetricColumn, runs: Sequence[ObservedRun]) -> Metric:
    largest = 0.0
    for run in runs:
        largest = max(largest, abs(run.scores.get(column.column) or 0.0))
    before_point = 1 + math.floor(math.log10(largest)) if largest >= 1 else 0
    return Metric(
        column.name,
        better=column.better,
        set=column.set,
        decimals=max(1, DIGITS - before_point),
        note=NO_SET if column.set == UNNAMED_SET else "",
    )


def write_observed(
    folder: Path, observation: Observation, name: str, command: str, earlier: Study | None
) -> Study:
    """Write the study into an empty folder, its ``study.json`` last. It is the same study as the
    ``earlier`` import of this source. Raises ImportRefusedError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    card = card_of(observation, name)
    rows = observation.rows
    trials = list[StudyTrial]()
    runs = dict[str, str]()  # the source's name of each trial
    for row in rows.rows:
        for run in row.runs:
            trial = _trial(row, run)
            _TrialFiles(observation, run, trial).write(trial_folder(folder, trial.name, card))
            trials.append(trial)
            runs[trial.name] = run.name
    record = _record(observation, now, runs)
    write_record(folder, record)
    entry = {"ts": now, "command": command, "added": [*runs], "dropped": [], "saw_results": False}
    earlier_record = read_record(earlier.folder) if earlier else None
    study = Study(
        folder,
        tuple(trials),
        cells={row.name: _cells(rows, row) for row in rows.rows},
        asked=_asked(earlier, earlier_record, record, entry),
        settings=_grouped(_settings(observation, rows.base.runs[0])),
        rows=tuple(_row(row) for row in rows.rows),
        seeds=tuple(sorted({trial.seed for trial in trials})),
        identity=earlier.identity if earlier else uuid.uuid4().hex,
        task=card,
    )
    write_study(study)
    return study


def _asked(
    earlier: Study | None,
    earlier_record: ObservedRecord | None,
    record: ObservedRecord,
    entry: dict[str, Any],
) -> tuple[dict[str, Any], ...]:
    """The commands of the earlier import, with today's names of trials, and this one if the source
    has more or fewer runs: they were chosen by somebody who had seen results."""
    if earlier is None or earlier_record is None:
        return (entry,)
    added, dropped = _growth(earlier_record, record)
    commands = _with_todays_names(earlier.asked, earlier_record, record)
    listed_trials = {*added, *(trial for command in commands for trial in command["added"])}
    commands[0]["added"] += [trial for trial in record.runs if trial not in listed_trials]
    if added or dropped:
        commands.append(entry | {"added": added, "dropped": dropped, "saw_results": True})
    return tuple(commands)


def _with_todays_names(
    commands: Sequence[dict[str, Any]], earlier_record: ObservedRecord, record: ObservedRecord
) -> list[dict[str, Any]]:
    """The commands without the trials that are gone. A run's trial may have another name today."""
    trial_of_run = {run: trial for trial, run in record.runs.items()}
    renamed = []
    for command in commands:
        runs = [earlier_record.runs.get(trial, "") for trial in command["added"]]
        renamed.append(
            command | {"added": [trial_of_run[run] for run in runs if run in trial_of_run]}
        )
    return renamed


def _growth(earlier_record: ObservedRecord, record: ObservedRecord) -> tuple[list[str], list[str]]:
    """The trials of new runs, and those of runs that the source has no more. Such a trial is called
    by its run if another one has its name today."""
    known_runs = earlier_record.known_runs
    added = [trial for trial, run in record.runs.items() if run not in known_runs]
    lost_runs = known_runs - record.known_runs
    dropped = [
        run if trial in record.runs else trial
        for trial, run in earlier_record.runs.items()
        if run in lost_runs
    ]
    return added, dropped


def _row(row: ObservedRow) -> dict[str, Any]:
    return {
        "row": row.name,
        "group": row.group,
        "change": row.change,
        "published": {},
        "before_scaling": "",
        "values": {_dotted(column): value for column, value in row.changed.items()},
        "size": "",
    }


def _cells(rows: ObservedRows, row: ObservedRow) -> dict[str, object]:
    """What the row changes; of base, the value of every setting that a row changes."""
    columns = _changed_columns(rows) if row is rows.base else [*row.changed]
    cells = dict[str, object]()
    for column in columns:
        value = row.settings[column]
        cells[rows.labels[column]] = value_text(value) if value is None else value
    return cells


def _changed_columns(rows: ObservedRows) -> list[str]:
    """Of all rows."""
    return list(dict.fromkeys(column for row in rows.rows for column in row.changed))


def _trial(row: ObservedRow, run: ObservedRun) -> StudyTrial:
    """Its key can't be that of a trial that allelse trains."""
    content = ["observed", row.name, run.name, run.seed, dict(run.settings), dict(run.scores)]
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


class _TrialFiles:
    """The files of a run that became a trial."""

    def __init__(self, observation: Observation, run: ObservedRun, trial: StudyTrial) -> None:
        self.observation = observation
        self.run = run
        self.trial = trial
        self.data = " ".join(f"{name} {value_text(value)}" for name, value in run.data.items())
        self.began = datetime.now(UTC).timestamp() if run.began is None else run.began

    def write(self, folder: TrialFolder) -> None:
        runs_folder = folder.path.parent.parent
        config = yaml.safe_dump(self._config(runs_folder), sort_keys=False)
        write_atomic(folder.config_path, config)
        write_atomic(folder.attempts_path, _json_lines(self._attempt()))
        journal = _json_lines(self._journal())
        if journal:
            write_atomic(folder.journal_path, journal)
        write_atomic(folder.provenance_path, _json_lines([self._provenance()]))
        folder.write_result(self._result(folder.card))

    def _config(self, runs_folder: Path) -> dict[str, Any]:
        return _grouped(_settings(self.observation, self.run)) | {
            "key": self.trial.key,
            "data_fingerprint": self.data,
            "paths": {"runs": str(runs_folder), "data": "", "checkpoints": None},
        }

    def _attempt(self) -> list[dict[str, Any]]:
        """Its beginning and its end."""
        ended = self.run.ended
        if ended is None:
            ended = self.began + self.run.costs.get("seconds", 0.0)
        process = {"host": UNKNOWN, "pid": 0, "birth": "", "lineage": "", "run": ""}
        return [
            {"attempt": 1, "ts": self.began, **process},
            {"attempt": 1, "ts": max(self.began, ended), "end": True, "reason": "finished"},
        ]

    def _journal(self) -> list[dict[str, Any]]:
        """The curves of the source, a line per step."""
        metrics = self.observation.roles.metrics
        name_of_column = {metric.column: f"{metric.set}/{metric.name}" for metric in metrics}
        reports: dict[int, dict[str, float]] = {}
        times: dict[int, float] = {}
        for column, points in self.run.curves.items():
            if len(points) < 2:
                continue
            name = name_of_column.get(column) or plain_name(column)
            for point in points:
                reports.setdefault(point.step, {})[name] = point.value
                times[point.step] = max(point.ts, times.get(point.step, 0.0))
        return [journal_line(times[step], 1, step, reports[step], None) for step in sorted(reports)]

    def _provenance(self) -> dict[str, Any]:
        """One attempt that trained everything. ``from`` -1: also where no step is known."""
        run = self.run
        code = [value_text(value) for value in run.code.values()]
        return {
            "commit": code[0] if code else None,
            "ts": self.began,
            "versions": {name: value_text(value) for name, value in run.packages.items()},
            "device": run.device,
            "data_fingerprint": self.data,
            "attempt": 1,
            "from": -1,
            "steps": run.step,
        }

    def _result(self, card: Card) -> dict[str, Any]:
        run = self.run
        scores: dict[str, dict[str, Any]] = {}
        for column, metric in zip(self.observation.roles.metrics, card.metrics, strict=True):
            set_scores = scores.setdefault(metric.set, {"decode": {}})
            set_scores[metric.name] = run.scores.get(column.column)
        return {
            "key": self.trial.key,
            "seed": self.trial.seed,
            "attempt": 1,
            "step": run.step,
            "steps": None,
            "diverged": run.step if None in run.scores.values() else None,
            "scores": scores,
            **{name: run.costs.get(name) for name in COSTS},
            **dict.fromkeys(DEVICE_COSTS),
        }


def _json_lines(lines: Sequence[Mapping[str, Any]]) -> str:
    return "".join(to_json(line) + "\n" for line in lines)


def _record(observation: Observation, now: str, runs: dict[str, str]) -> ObservedRecord:
    roles = observation.roles
    rows = observation.rows
    guessed = [*roles.guessed]
    if rows.guessed_base:
        guessed.append("base")
    left_out = tuple({"run": run.run.name, "why": run.why} for run in observation.left_out)
    repeated = tuple(run.name for row in rows.rows for run in row.repeated)
    return ObservedRecord(
        source=observation.table.source,
        ts=now,
        base=base_words(rows),
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
        repeated=repeated,
    )


def base_words(rows: ObservedRows) -> str:
    """Such as "model base, lr 0.1": the settings of base that any row changes."""
    words = []
    for column in _changed_columns(rows):
        words.append(f"{rows.labels[column]} {value_text(rows.base.settings[column])}")
    return ", ".join(filter(None, [rows.base_words, *words])) or BASE
