"""The keys that a row sets itself, and the row that it builds on."""

import yaml

from sweeps.config.files import BASE, lines_of
from sweeps.config.refusals import ProblemCollector
from sweeps.config.rows import ALL


def own_keys(collector: ProblemCollector, row: str) -> set[str]:
    """The keys that the row sets in its file, or by which it was made."""
    if made_row := collector.made.rows.get(row):
        return {*made_row.values, *made_row.final}
    file = collector.library.folders.find(f"row/{row}")
    if file is None:
        return set()
    return {key for key in lines_of(file) if key in collector.library.schema.short_names}


def builds_on(collector: ProblemCollector, row: str) -> str | None:
    """The row from which this one differs only in keys that score.

    None if the row is base, changes nothing, or changes a key that trains.
    """
    schema = collector.library.schema
    made_row = collector.made.rows.get(row)
    options = set(made_row.options) if made_row else set()
    keys = own_keys(collector, row)
    if row == BASE or not (keys or options):
        return None
    if not keys <= schema.scores or not options <= schema.scoring_groups:
        return None
    return made_row.parent if made_row else _parent_row(collector, row)


def _parent_row(collector: ProblemCollector, row: str) -> str:
    """The row in the defaults list of this row's file; base if it has none."""
    folders = collector.library.folders
    file = folders.find(f"row/{row}")
    if file is None:
        return BASE
    defaults = yaml.safe_load(file.read_text("utf-8-sig")).get("defaults") or []
    names = [entry.rpartition("/")[2] for entry in defaults if isinstance(entry, str)]
    rows = folders.options("row")
    return next((name for name in names if name in rows), BASE)


def lists_all(collector: ProblemCollector) -> bool:
    """Whether the sweep's file says ``rows: all``, which takes every row that has a file."""
    options = [*collector.options(BASE), *collector.scale_option]
    sweep = collector.library.compose(*options)["sweep"]
    return bool(sweep.get("rows") == ALL)
