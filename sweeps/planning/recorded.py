"""A study as recorded: the values that decide its results, its rows, and its overrides."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, get_type_hints

import yaml

from sweeps.planning.moved import moved_value, recorded_runs
from sweeps.planning.settings import Settings
from tracking.study import Study, Trial
from transformer.config import OBSERVATION
from transformer.schema import Problem, RefusedError
from transformer.versions import current_key, current_names, neutral_values

Values = dict[str, Any]
DECIDING_GROUPS = ("model", "train", "decode", "data", "scale")
PLACES = ("data.mirror", "data.train", "data.dev", "data.test")
"""Locations of text. The trial key covers its content."""
SEED = "train.seed"


@dataclass(frozen=True)
class RecordedRow:
    """A row's line in the table, and its final values that differ from the study's; None if no trial has them.

    ``at_paper_size`` is its change before scaling, if the scale touches it.
    """

    about: dict[str, Any]
    values: Values | None
    at_paper_size: str = ""


@dataclass(frozen=True)
class Record:
    """``settings`` are base's final values by dotted key; ``options`` and ``values`` compose to them again.

    ``explicit`` is false for a study of an older version, whose trials were read instead.
    """

    study: Study
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


def read_record(study: Study) -> Record:
    """Raises RefusedError if an older study's trials contradict each other."""
    if not study.settings:
        return _from_trials(study)
    before, now = recorded_runs(study), study.folder.parent

    def current(values: Values) -> Values:
        named = {current_key(Settings, key): value for key, value in values.items()}
        return {key: moved_value(value, before, now) if key in PLACES else value for key, value in named.items()}

    sizes = study.at_paper_size
    rows = {
        row["row"]: RecordedRow(_about(row), current(row["values"]), sizes.get(row["row"], "")) for row in study.rows
    }
    options, values = (dict(study.chosen.get(name, {})) for name in ("options", "values"))
    return Record(study, NEUTRAL | current(dotted(study.settings)), rows, options, current(values))


def values_of(settings: Settings) -> Values:
    """The final values that a study records, by dotted key, without the seed and the mirror of its downloads."""
    values = dotted({group: asdict(getattr(settings, group)) for group in DECIDING_GROUPS})
    return {key: value for key, value in values.items() if key not in (SEED, "data.mirror")}


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


def _neutral() -> Values:
    groups = get_type_hints(Settings)
    return dotted({group: neutral_values(groups[group]) for group in DECIDING_GROUPS})


NEUTRAL = _neutral()
"""The values of fields that a study was recorded before."""


def decides_weights(key: str) -> bool:
    """Whether the key's value is fixed for the life of a study."""
    group, name = key.split(".")
    watches = group == "train" and name in OBSERVATION
    return group in DECIDING_GROUPS and group != "decode" and not watches and key not in (SEED, *PLACES)


def _about(row: dict[str, Any]) -> dict[str, Any]:
    """The row's line in the table. Older studies do not record its own words."""
    return {"group": row["group"], "change": str(row.get("change") or ""), "published": row.get("published") or {}}


def _about_trial(trial: Trial) -> dict[str, Any]:
    return {"group": trial.group, "published": trial.published or {}}


def _from_trials(study: Study) -> Record:
    """The record of an older study, from the configurations of its trials."""
    found = [(trial, config) for trial in study.trials if (config := _config(study, trial)) is not None]
    settings: Values = {}
    for trial, config in sorted(found, key=lambda each: each[0].row != "base"):
        settings = {key: value for key, value in config.items() if not _varies(study, trial, key)} | settings
    if problems := [problem for key in settings for problem in _contradictions(study, found, key, settings[key])]:
        raise RefusedError(problems)
    rows = {trial.row: RecordedRow(_about_trial(trial), None) for trial in study.trials}
    for trial, config in found:
        values = {key: value for key, value in config.items() if _varies(study, trial, key)}
        rows[trial.row] = RecordedRow(_about_trial(trial), values)
    options = {group: str(settings[f"{group}.name"]) for group in ("data", "scale") if f"{group}.name" in settings}
    return Record(study, settings, rows, options, explicit=False)


def _config(study: Study, trial: Trial) -> Values | None:
    """The values of a trial's configuration, if the trial has begun and the file can be read."""
    try:
        stored = yaml.safe_load(study.trial_folder(trial).config_path.read_text("utf-8"))
        values = dotted(current_names(Settings, {group: stored[group] for group in DECIDING_GROUPS}))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None
    return {key: value for key, value in (NEUTRAL | values).items() if key not in (SEED, "data.mirror")}


def _varies(study: Study, trial: Trial, key: str) -> bool:
    """Whether the trial's row changes the key. Base's cells list all its values and are no changes."""
    group, name = key.split(".")
    return trial.row != "base" and group != "scale" and name in study.cells.get(trial.row, {})


def _contradictions(study: Study, found: list[tuple[Trial, Values]], key: str, value: Any) -> Iterator[Problem]:
    """Trials that differ in a value that their rows do not change."""
    sharing = [(trial.name, config.get(key, value)) for trial, config in found if not _varies(study, trial, key)]
    others = [f"{other} in {name}" for name, other in sharing if other != value]
    if others and decides_weights(key):
        holders = ", ".join(name for name, same in sharing if same == value)
        allowed = "all rows must share it; use another sweep.name, or remove the folders of the wrong trials in"
        yield Problem(key, f"is {value} in {holders}, but {', '.join(others)}", f"{allowed} {study.folder}")
