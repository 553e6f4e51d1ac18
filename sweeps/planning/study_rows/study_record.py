"""What `study.json` records of a study's rows and settings: read, and written."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweeps.config.overrides import Overrides
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.trees import Values, dotted, nested
from tracking.study import Study, StudyTrial, recorded_runs

ROW_WORDS = ("group", "change", "published")


@dataclass(frozen=True)
class RecordedRow:
    """A row's line in the table, and its final values that differ from the study's.

    ``before_scaling`` is its change before scaling, if the scale touches it.
    """

    row_words: dict[str, Any]
    values: Values
    before_scaling: str


@dataclass(frozen=True)
class StudyRecord:
    """``settings`` are base's final values by dotted key; ``options`` and ``values`` compose to
    them again."""

    study: Study
    source: TaskSource
    settings: Values
    rows: dict[str, RecordedRow]
    options: dict[str, str]
    values: Values

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """Row and seed of every trial."""
        return [(trial.row, trial.seed) for trial in self.study.trials]

    def below(self, typed: Overrides) -> Overrides:
        """The study's overrides with the typed ones on top. A typed option sets its group as a
        whole, if the group only scores."""
        scoring_groups = Schema.of(self.source.task).scoring_groups
        values = {}
        for key, value in self.values.items():
            group = key.partition(".")[0]
            if group not in scoring_groups or group not in typed.choices:
                values[key] = value
        values["sweep.name"] = self.study.name
        return Overrides(self.options | typed.choices, values | typed.values, typed.sweeps)


@dataclass(frozen=True)
class _Places:
    """Where the files of a study are today: ``runs`` instead of one of the ``recorded_runs``.
    ``keys`` locate data."""

    keys: tuple[str, ...]
    recorded_runs: list[str]
    runs: Path

    def current(self, values: Values) -> Values:
        """The values with today's paths."""
        current = dict(values)
        for key in self.keys:
            if key in current:
                for recorded in self.recorded_runs:
                    current[key] = moved_value(current[key], recorded, self.runs)
        return current


def read_record(study: Study, source: TaskSource) -> StudyRecord:
    """What `study.json` records, with the places where its files are today."""
    schema = Schema.of(source.task)
    place_keys = tuple(key for key, role in schema.fingerprinted.items() if role.place)
    places = _Places(place_keys, recorded_runs(study.folder), study.folder.parent)
    rows = {}
    for row in study.rows:
        words = {name: row[name] for name in ROW_WORDS}
        rows[row["row"]] = RecordedRow(words, places.current(row["values"]), row["before_scaling"])
    settings = schema.neutral | places.current(dotted(study.settings))
    options = dict(study.chosen.get("options", {}))
    options.pop("task", None)  # it is ``source``
    values = places.current(study.chosen.get("values", {}))
    return StudyRecord(study, source, settings, rows, options, values)


def values_of(settings: Settings) -> Values:
    """The final values that a study records, by dotted key: those of its task, and the scale's."""
    schema = settings.schema
    task_values = schema.values(settings.config)
    values = {key: value for key, value in task_values.items() if schema.is_recorded(key)}
    for name, value in settings.to_dict()["scale"].items():
        values[f"scale.{name}"] = value
    return values


def decides_weights(schema: Schema, key: str) -> bool:
    """Whether the key's value is fixed for the life of a study."""
    return key.startswith("scale.") or schema.decides_weights(key)


def study_with_rows(
    composition: Composition, study: Study, trials: Sequence[StudyTrial], sizes: Mapping[str, str]
) -> Study:
    """The study with these settings, and its rows in the order of its trials. All other fields
    stay.

    ``sizes`` has words on rows whose model differs from base's in size.
    """
    base = values_of(composition.base)
    rows = {row["row"]: row for row in study.rows}
    for row in composition.rows:
        rows[row.name] = _row_entry(row, base, sizes.get(row.name, ""))
    names = dict.fromkeys(trial.row for trial in trials)
    seeds = dict.fromkeys([*study.seeds, *(trial.seed for trial in trials)])
    return replace(
        study,
        settings=nested(base),
        rows=tuple(rows[name] for name in names if name in rows),
        seeds=tuple(seeds),
        chosen=_chosen(composition, base),
        task=task_card(composition.base.task),
    )


def _chosen(composition: Composition, base: Values) -> dict[str, Any]:
    """The options and values from which the study can be composed again."""
    overrides = composition.overrides
    groups = (*composition.schema.groups, "scale")
    options = {"task": composition.base.source.name}
    for group, name in {**composition.defaults, **overrides.choices}.items():
        if group in groups:
            options[group] = name
    return {
        "options": options,
        "values": {key: base[key] for key in overrides.values if key in base},
    }


def _row_entry(row: ComposedRow, base: Values, size: str) -> dict[str, Any]:
    values = values_of(row.settings)
    return {
        "row": row.name,
        **asdict(row.settings.row),
        "values": {key: value for key, value in values.items() if value != base[key]},
        "before_scaling": row.before_scaling,
        "size": size,
    }


def moved(path: str, recorded_runs: str | None, runs: Path) -> str:
    """A recorded path if it exists; otherwise the same path relative to today's runs, if that
    exists.

    ``recorded_runs`` was the folder of the runs when the path was recorded; today it is ``runs``.
    """
    if recorded_runs is None or "://" in path or Path(path).exists():
        return path
    new_path = os.path.normpath(runs / os.path.relpath(path, recorded_runs))
    return new_path if Path(new_path).exists() else path


def moved_value(value: Any, recorded_runs: str | None, runs: Path) -> Any:
    """``moved`` for each file of a list; other values stay."""
    if not isinstance(value, list):
        return value
    return [moved(path, recorded_runs, runs) for path in value]
