"""The keys that a row sets itself, and the row that it builds on."""

from collections.abc import Callable, Mapping

import yaml

from sweeps.config.files import BASE, Folders, lines_of
from sweeps.config.rows.made_rows import MadeRow
from sweeps.config.schema import Schema


def own_keys(row: str, made_row: MadeRow | None, folders: Folders, schema: Schema) -> set[str]:
    """The keys that the row sets in its file, or by which it was made; none for base."""
    if row == BASE:
        return set()
    if made_row is not None:
        return {*made_row.values, *made_row.final}
    file = folders.find(f"row/{row}")
    if file is None:
        return set()
    return {key for key in lines_of(file) if key in schema.short_names}


def builds_on(
    row: str,
    made_row: MadeRow | None,
    choices_of: Callable[[str], Mapping[str, str]],
    folders: Folders,
    schema: Schema,
) -> str | None:
    """The row from which this one differs only in keys that score.

    None if the row is base, changes nothing, or changes a key or an option that trains.
    ``choices_of``: the options that a row is composed from.
    """
    keys = own_keys(row, made_row, folders, schema)
    if not keys <= schema.scores:
        return None
    parent = made_row.parent if made_row else _parent_row(row, folders)
    different = choices_of(row).items() ^ choices_of(parent).items()
    groups = {group for group, _ in different}
    if not (keys or groups) or not groups <= schema.scoring_groups:
        return None
    return parent


def _parent_row(row: str, folders: Folders) -> str:
    """The row in the defaults list of this row's file; base if it has none."""
    file = folders.find(f"row/{row}")
    if file is None:
        return BASE
    defaults = yaml.safe_load(file.read_text("utf-8-sig")).get("defaults") or []
    names = [entry.rpartition("/")[2] for entry in defaults if isinstance(entry, str)]
    rows = folders.options("row")
    return next((name for name in names if name in rows), BASE)
