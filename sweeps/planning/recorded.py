"""A study as recorded: the values that decide its results, its rows, and its overrides."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import yaml

from sweeps.planning.moved import moved_value
from sweeps.planning.schema import Schema
from sweeps.planning.settings import Settings, tree_type
from sweeps.planning.task_source import TaskSource
from tracking.study import Study, Trial
from tracking.trial_config import recorded_runs
from transformer.schema import Problem, RefusedError
from transformer.versions import current_key, current_names

Values = dict[str, Any]


@dataclass(frozen=True)
class RecordedRow:
    """A row's line in the table, and its final values that differ from the study's; None if no trial has them.

    ``before_scaling`` is its change before scaling, if the scale touches it.
    """

    about: dict[str, Any]
    values: Values | None
    before_scaling: str = ""


@dataclass(frozen=True)
class Record:
    """``settings`` are base's final values by dotted key; ``options`` and ``values`` compose to them again.

    ``explicit`` is false for a study of an older version, whose trials were read instead.
    """

    study: Study
    source: TaskSource
    settings: Values
    rows: dict[str, RecordedRow]
    options: dict[str, str] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    explicit: bool = True

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """Row and seed of every trial."""
        return [(trial.row, trial.seed) for trial in self.study.trials]

    def overrides(self, other_decode: bool) -> Values:
        """The study's overrides. A typed option of ``decode`` replaces its whole group, as in a new study."""
        kept = {key: value for key, value in self.values.items() if not (other_decode and key.startswith("decode."))}
        return kept | {"sweep.name": self.study.name}

    def expected(self, row: str, base: Values) -> Values:
        """The row's final values on top of these values of base; {} if none are recorded."""
        values = self.rows[row].values
        return {} if values is None else base | values


def read_record(study: Study, source: TaskSource) -> Record:
    """Raises RefusedError if an older study's trials contradict each other."""
    if not study.settings:
        return _from_trials(study, source)
    before, schema, tree = recorded_runs(study.folder), Schema.of(source.task), tree_type(source.task)
    places = [key for key, role in schema.fingerprinted.items() if role.place]

    def place(value: Any) -> Any:
        return reduce(lambda found, runs: moved_value(found, runs, study.folder.parent), before, value)

    def current(values: Values) -> Values:
        named = {current_key(tree, key): value for key, value in values.items()}
        return {key: place(value) if key in places else value for key, value in named.items()}

    sizes = study.before_scaling
    rows = {
        row["row"]: RecordedRow(_about(row), current(row["values"]), sizes.get(row["row"], "")) for row in study.rows
    }
    options, values = (dict(study.chosen.get(name, {})) for name in ("options", "values"))
    options.pop("task", None)  # it is ``source``
    return Record(study, source, schema.neutral | current(dotted(study.settings)), rows, options, current(values))


def values_of(settings: Settings) -> Values:
    """The final values that a study records, by dotted key: those of its task, and the scale's."""
    schema = Schema.of(settings.source.task)
    values = {key: value for key, value in schema.values(settings.trial).items() if schema.is_recorded(key)}
    return values | {f"scale.{name}": value for name, value in settings.to_dict()["scale"].items()}


def dotted(tree: dict[str, Any]) -> Values:
    """{"model": {"d_ff": 64}} as {"model.d_ff": 64}."""
    return {f"{group}.{name}": value for group, values in tree.items() for name, value in values.items()}


def nested(values: Values) -> dict[str, Any]:
    """The reverse of ``dotted``."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        group, name = key.split(".")
        tree.setdefault(group, {})[name] = value
    return tree


def decides_weights(schema: Schema, key: str) -> bool:
    """Whether the key's value is fixed for the life of a study."""
    return key.startswith("scale.") or schema.decides_weights(key)


def _about(row: dict[str, Any]) -> dict[str, Any]:
    """The row's line in the table. Older studies do not record its own words."""
    return {"group": row["group"], "change": str(row.get("change") or ""), "published": row.get("published") or {}}


def _about_trial(trial: Trial) -> dict[str, Any]:
    return {"group": trial.group, "published": trial.published or {}}


def _from_trials(study: Study, source: TaskSource) -> Record:
    """The record of an older study, from the configurations of its trials."""
    schema = Schema.of(source.task)
    found = [(trial, config) for trial in study.trials if (config := _config(study, trial, schema)) is not None]
    settings: Values = {}
    for trial, config in sorted(found, key=lambda each: each[0].row != "base"):
        settings = {key: value for key, value in config.items() if not _varies(study, trial, key)} | settings
    if problems := [
        problem for key in settings for problem in _contradictions(study, schema, found, key, settings[key])
    ]:
        raise RefusedError(problems)
    rows = {trial.row: RecordedRow(_about_trial(trial), None) for trial in study.trials}
    for trial, config in found:
        values = {key: value for key, value in config.items() if _varies(study, trial, key)}
        rows[trial.row] = RecordedRow(_about_trial(trial), values)
    options = {group: str(settings[f"{group}.name"]) for group in ("data", "scale") if f"{group}.name" in settings}
    return Record(study, source, settings, rows, options, explicit=False)


def _config(study: Study, trial: Trial, schema: Schema) -> Values | None:
    """The values of a trial's configuration, if the trial has begun and the file can be read."""
    try:
        stored = yaml.safe_load(study.trial_folder(trial).config_path.read_text("utf-8"))
        groups = {group: stored[group] for group in (*schema.groups, "scale")}
        values = dotted(current_names(tree_type(schema.task), groups))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None
    return {key: value for key, value in (schema.neutral | values).items() if schema.is_recorded(key)}


def _varies(study: Study, trial: Trial, key: str) -> bool:
    """Whether the trial's row changes the key. Base's cells list all its values and are no changes."""
    group, name = key.split(".")
    return trial.row != "base" and group != "scale" and name in study.cells.get(trial.row, {})


def _contradictions(
    study: Study, schema: Schema, found: list[tuple[Trial, Values]], key: str, value: Any
) -> Iterator[Problem]:
    """Trials that differ in a value that their rows do not change."""
    sharing = [(trial.name, config.get(key, value)) for trial, config in found if not _varies(study, trial, key)]
    others = [f"{other} in {name}" for name, other in sharing if other != value]
    if others and decides_weights(schema, key):
        holders = ", ".join(name for name, same in sharing if same == value)
        allowed = "all rows must share it; use another sweep.name, or remove the folders of the wrong trials in"
        yield Problem(key, f"is {value} in {holders}, but {', '.join(others)}", f"{allowed} {study.folder}")
