"""A study as `study.json` records it: the values that decide its results, its rows, and its overrides."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.planning.composition import ComposedRow, Composition
from sweeps.schema import Values, dotted, nested
from tracking.study import Study, Trial
from tracking.trial import recorded_runs


@dataclass(frozen=True)
class RecordedRow:
    """A row's line in the table, and its final values that differ from the study's.

    ``before_scaling`` is its change before scaling, if the scale touches it.
    """

    about: dict[str, Any]
    values: Values
    before_scaling: str


@dataclass(frozen=True)
class Record:
    """``settings`` are base's final values by dotted key; ``options`` and ``values`` compose to them again."""

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

    def overrides(self, other_decode: bool) -> Values:
        """The study's overrides. A typed option of ``decode`` replaces its whole group, as in a new study."""
        kept = {key: value for key, value in self.values.items() if not (other_decode and key.startswith("decode."))}
        return kept | {"sweep.name": self.study.name}

    def expected(self, row: str, base: Values) -> Values:
        """The row's final values on top of these values of base."""
        return base | self.rows[row].values


def read_record(study: Study, source: TaskSource) -> Record:
    """What `study.json` records, with places where they lie now."""
    before, schema = recorded_runs(study.folder), Schema.of(source.task)
    places = [key for key, role in schema.fingerprinted.items() if role.place]

    def place(value: Any) -> Any:
        return reduce(lambda found, runs: moved_value(found, runs, study.folder.parent), before, value)

    def current(values: Values) -> Values:
        return {key: place(value) if key in places else value for key, value in values.items()}

    rows = {row["row"]: RecordedRow(_about(row), current(row["values"]), row["before_scaling"]) for row in study.rows}
    options, values = (dict(study.chosen.get(name, {})) for name in ("options", "values"))
    options.pop("task", None)  # it is ``source``
    return Record(study, source, schema.neutral | current(dotted(study.settings)), rows, options, current(values))


def values_of(settings: Settings) -> Values:
    """The final values that a study records, by dotted key: those of its task, and the scale's."""
    schema = Schema.of(settings.source.task)
    values = {key: value for key, value in schema.values(settings.trial).items() if schema.is_recorded(key)}
    return values | {f"scale.{name}": value for name, value in settings.to_dict()["scale"].items()}


def decides_weights(schema: Schema, key: str) -> bool:
    """Whether the key's value is fixed for the life of a study."""
    return key.startswith("scale.") or schema.decides_weights(key)


def _about(row: dict[str, Any]) -> dict[str, Any]:
    """The row's line in the table."""
    return {name: row[name] for name in ("group", "change", "published")}


def recording(composition: Composition, before: Study, trials: Sequence[Trial], sizes: Mapping[str, str]) -> Study:
    """The study with these settings, and its rows in the order of its trials. All other fields stay.

    ``sizes`` has words on rows whose model is of another size than base's.
    """
    base = values_of(composition.base)
    now = {row.name: _row(row, base, sizes.get(row.name, "")) for row in composition.rows}
    rows = {row["row"]: row for row in before.rows} | now
    names = dict.fromkeys(trial.row for trial in trials)
    seeds = dict.fromkeys([*before.seeds, *(trial.seed for trial in trials)])
    given, source = composition.overrides, composition.base.source
    options = {**composition.defaults, **given.choices}
    deciding = (*Schema.of(source.task).groups, "scale")
    chosen = {
        "options": {"task": source.name} | {group: name for group, name in options.items() if group in deciding},
        "values": {key: base[key] for key in given.values if key in base},
    }
    ordered = tuple(rows[name] for name in names if name in rows)
    card = task_card(source.task)
    return replace(before, settings=nested(base), rows=ordered, seeds=tuple(seeds), chosen=chosen, task=card)


def _row(row: ComposedRow, base: Values, size: str) -> dict[str, Any]:
    about, values = asdict(row.settings.row), values_of(row.settings)
    differing = {key: value for key, value in values.items() if value != base[key]}
    return {"row": row.name, **about, "values": differing, "before_scaling": row.before_scaling, "size": size}


def moved(path: str, before: str | None, now: Path) -> str:
    """A recorded path if it exists; otherwise the same path relative to today's runs, if that exists.

    ``before`` and ``now`` are the folders of the runs when the path was recorded, and today.
    """
    if before is None or "://" in path or Path(path).exists():
        return path
    there = os.path.normpath(now / os.path.relpath(path, before))
    return there if Path(there).exists() else path


def moved_value(value: Any, before: str | None, now: Path) -> Any:
    """``moved`` for each file of a list; None stays None."""
    return [moved(name, before, now) for name in value] if isinstance(value, list) else value
