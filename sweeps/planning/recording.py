"""What `study.json` records of a composition: shared settings, rows by their differences, seeds, overrides."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sweeps.config.schema import Schema, task_card
from sweeps.config.trees import Values, nested
from sweeps.planning.composition import ComposedRow, Composition
from sweeps.planning.recorded import values_of
from tracking.study import Study, Trial


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
