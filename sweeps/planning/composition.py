"""The composed rows of a study: what each changes, in the symbols of its task, and whether that
changes its size."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.overrides import Overrides
from sweeps.config.row_scale import Kept
from sweeps.config.schema import Schema, one_line, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.schema import Values, dotted, nested
from sweeps.task import Costs
from tracking.study import Study, StudyTrial, recorded_runs
from tracking.table.caption import scaling_note
from tracking.words import LONGEST_CHANGE, shortened


@dataclass(frozen=True)
class ComposedRow:
    """One row, and the dotted keys by which it differs from base before overrides."""

    name: str
    settings: Settings
    changes: dict[str, Any]
    kept: Kept = field(default_factory=Kept)
    place: str | None = None  # the user's file, or what made the row
    before_scaling: str = ""  # its change before scaling, if the scale touches a key that it sets
    builds_on: str | None = (
        None  # the row of which it changes only keys that score; None if it changes others
    )


@dataclass(frozen=True)
class Composition:
    """The rows of a study. Their changes are relative to ``base``; ``listed`` is the order of the
    table.

    ``overrides`` are the ``typed`` ones after the recorded ones. ``place`` tells where a row's
    value of a key was set. ``told`` are lines on files that are not read, and on rows without
    files.
    """

    rows: tuple[ComposedRow, ...]
    base: Settings
    listed: tuple[str, ...]
    overrides: Overrides
    typed: Overrides
    defaults: dict[str, str]
    place: Callable[[str, str], str | None]
    told: tuple[str, ...] = ()
    lists_all: bool = False  # the sweep's file names no rows

    @property
    def notes(self) -> list[str]:
        """What became of row differences in keys that the scale sets, and what else was told."""
        scale = self.base.scale.name
        notes = []
        kept = [
            f"{row.name} {key} {value}"
            for row in self.rows
            for key, value in row.kept.values.items()
        ]
        if kept:
            notes.append(
                f"Scale {scale} sets these, so rows keep them in proportion to base: {', '.join(kept)}."
            )
        left_out = [f"{key} of {row.name}" for row in self.rows for key in row.kept.left_out]
        if left_out:
            steps = self.base.source.task.steps(self.base.trial)
            notes.append(
                f"At scale {scale} every row trains for {steps} steps; ignored: {', '.join(left_out)}."
            )
        return [*notes, *self.told]

    def names(self, rows: Collection[str]) -> list[str]:
        """A line that explains the names of those of the rows which a scale makes other values
        of."""
        changes = {
            row.name: row.before_scaling
            for row in self.rows
            if row.before_scaling and row.name in rows
        }
        note = scaling_note(changes)
        return [note] if note else []

    @property
    def shared(self) -> Settings:
        """Settings that no row may change: cluster, sweep, tracking, paths."""
        return self.rows[0].settings


def cells(row: ComposedRow, base: Settings, changed: Collection[str] = ()) -> dict[str, Any]:
    """The row's cells in the table: its differences from base, and the values with a symbol for
    base itself.

    Base leaves out a key that is neutral, unless it is among those that rows have ``changed``.
    """
    schema, usual = Schema.of(base.source.task), _flat(base)
    if row.name == BASE:
        values = schema.values(base.trial)
        neutral = {
            key
            for key, value in schema.neutral.items()
            if values[key] == value and key not in changed
        }
        return {schema.short(key): values[key] for key in schema.symbols if key not in neutral}
    return {name: value for name, value in _flat(row.settings).items() if value != usual[name]}


def shown_change(row: ComposedRow, base: Settings) -> str:
    """The row's own words for its change, unless the scale has made other values of it. Base is its
    values."""
    own = "" if row.name == BASE or row.before_scaling else one_line(row.settings.row.change)
    return shortened(own, LONGEST_CHANGE) or describe(row, base) or row.name


def describe(row: ComposedRow, base: Settings) -> str:
    """The row's change as text, such as "h 4, d_k = d_v = 16"."""
    return Schema.of(base.source.task).described(cells(row, base))


def _flat(settings: Settings) -> dict[str, Any]:
    """All that a row can vary, by short name. The seed is not part of a row's change, nor where
    data is fetched."""
    schema = Schema.of(settings.source.task)
    values = schema.values(settings.trial)
    return {schema.short(key): value for key, value in values.items() if schema.is_recorded(key)}


TOLERATED = 0.05
"""Of base's parameters and FLOPs."""


def size_notes(composition: Composition, costs: dict[str, Costs]) -> dict[str, str]:
    """For each row whose parameters or FLOPs differ from base's, though it changes no key that
    sizes divide."""
    divided, base = Schema.of(composition.base.source.task).divided, costs.get(BASE)
    rows = [
        row
        for row in composition.rows
        if row.name != BASE and divided.keys().isdisjoint(row.changes)
    ]
    return {row.name: words for row in rows if base and (words := _words(row, costs, base))}


def _words(row: ComposedRow, costs: dict[str, Costs], base: Costs) -> str:
    """Such as "18 % fewer parameters and 19 % fewer FLOPs"."""
    ours = costs.get(row.name, Costs())
    pairs = (("parameters", ours.params, base.params), ("FLOPs", ours.flops, base.flops))
    ratios = [(name, value / usual - 1) for name, value, usual in pairs if value and usual]
    words = [
        f"{abs(by):.0%} {'more' if by > 0 else 'fewer'} {name}"
        for name, by in ratios
        if abs(by) > TOLERATED
    ]
    return " and ".join(words)


@dataclass(frozen=True)
class RecordedRow:
    """A row's line in the table, and its final values that differ from the study's.

    ``before_scaling`` is its change before scaling, if the scale touches it.
    """

    about: dict[str, Any]
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

    def overrides(self, replaced: Collection[str]) -> Values:
        """The study's overrides, without those in ``replaced`` groups: a typed option sets its
        group as a whole."""
        kept = {
            key: value
            for key, value in self.values.items()
            if key.partition(".")[0] not in replaced
        }
        return kept | {"sweep.name": self.study.name}


def read_record(study: Study, source: TaskSource) -> StudyRecord:
    """What `study.json` records, with places where they lie now."""
    before, schema = recorded_runs(study.folder), Schema.of(source.task)
    places = [key for key, role in schema.fingerprinted.items() if role.place]

    def place(value: Any) -> Any:
        return reduce(
            lambda found, runs: moved_value(found, runs, study.folder.parent), before, value
        )

    def current(values: Values) -> Values:
        return {key: place(value) if key in places else value for key, value in values.items()}

    about = ("group", "change", "published")
    rows = {
        row["row"]: RecordedRow(
            {name: row[name] for name in about}, current(row["values"]), row["before_scaling"]
        )
        for row in study.rows
    }
    options, values = (dict(study.chosen.get(name, {})) for name in ("options", "values"))
    options.pop("task", None)  # it is ``source``
    return StudyRecord(
        study,
        source,
        schema.neutral | current(dotted(study.settings)),
        rows,
        options,
        current(values),
    )


def values_of(settings: Settings) -> Values:
    """The final values that a study records, by dotted key: those of its task, and the scale's."""
    schema = Schema.of(settings.source.task)
    values = {
        key: value
        for key, value in schema.values(settings.trial).items()
        if schema.is_recorded(key)
    }
    return values | {f"scale.{name}": value for name, value in settings.to_dict()["scale"].items()}


def decides_weights(schema: Schema, key: str) -> bool:
    """Whether the key's value is fixed for the life of a study."""
    return key.startswith("scale.") or schema.decides_weights(key)


def recording(
    composition: Composition, before: Study, trials: Sequence[StudyTrial], sizes: Mapping[str, str]
) -> Study:
    """The study with these settings, and its rows in the order of its trials. All other fields
    stay.

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
        "options": {"task": source.name}
        | {group: name for group, name in options.items() if group in deciding},
        "values": {key: base[key] for key in given.values if key in base},
    }
    ordered = tuple(rows[name] for name in names if name in rows)
    card = task_card(source.task)
    return replace(
        before, settings=nested(base), rows=ordered, seeds=tuple(seeds), chosen=chosen, task=card
    )


def _row(row: ComposedRow, base: Values, size: str) -> dict[str, Any]:
    about, values = asdict(row.settings.row), values_of(row.settings)
    differing = {key: value for key, value in values.items() if value != base[key]}
    return {
        "row": row.name,
        **about,
        "values": differing,
        "before_scaling": row.before_scaling,
        "size": size,
    }


def moved(path: str, before: str | None, now: Path) -> str:
    """A recorded path if it exists; otherwise the same path relative to today's runs, if that
    exists.

    ``before`` and ``now`` are the folders of the runs when the path was recorded, and today.
    """
    if before is None or "://" in path or Path(path).exists():
        return path
    there = os.path.normpath(now / os.path.relpath(path, before))
    return there if Path(there).exists() else path


def moved_value(value: Any, before: str | None, now: Path) -> Any:
    """``moved`` for each file of a list; None stays None."""
    return [moved(name, before, now) for name in value] if isinstance(value, list) else value
