"""What a row itself sets, and the row that it builds on."""

import yaml

from sweeps.config.files import BASE, lines_of
from sweeps.config.rows import ALL, FoundProblems


def own_keys(found: FoundProblems, row: str) -> set[str]:
    """The keys that the row sets by its own file, or by what made it."""
    if made := found.made.rows.get(row):
        return {*made.values, *made.final}
    file = found.library.folders.find(f"row/{row}")
    return {key for key in lines_of(file) if key in found.library.schema.short_names} if file else set()


def builds_on(found: FoundProblems, row: str) -> str | None:
    """The row of which this one changes only keys that score; None if it changes others, or nothing."""
    schema = found.library.schema
    made = found.made.rows.get(row)
    options = made.options.keys() if made else set()
    keys = own_keys(found, row)
    if row == BASE or not (keys or options):
        return None
    if not keys <= schema.scores or not options <= schema.scoring_groups:
        return None
    return made.of if made else _row_above(found, row)


def _row_above(found: FoundProblems, row: str) -> str:
    """The row in the defaults list of this row's file; without one it is base."""
    folders = found.library.folders
    file = folders.find(f"row/{row}")
    listed = (yaml.safe_load(file.read_text("utf-8-sig")) if file else {}).get("defaults") or []
    names = [entry.rpartition("/")[2] for entry in listed if isinstance(entry, str)]
    rows = folders.options("row")
    return next((name for name in names if name in rows), BASE)


def lists_all(found: FoundProblems) -> bool:
    """Whether the sweep's file names no rows, but takes every row that has a file."""
    sweep = found.library.compose(*found.options(BASE), *found.scale_option)["sweep"]
    return bool(sweep.get("rows") == ALL)
