"""A row's change at the paper's size, where a scale has made other values of it."""

from typing import Any

from sweeps.planning.change_text import described, one_line
from sweeps.planning.layers import Tree
from sweeps.planning.row_rules import differences
from sweeps.planning.scaling import Layered
from sweeps.planning.schema import Schema


def before_scaling(own: Tree, row: Layered, base: Layered, schema: Schema) -> str:
    """The row's own words, or its values in symbols; "" if scaling changes no value that its file sets.

    ``own`` is the content of the file; ``row.scaled`` has the values after scaling.
    """
    groups = [group for group in schema.groups if isinstance(own.get(group), dict)]
    keys = [(group, key) for group in groups for key in own[group]]
    if all(_value(row.paper, *key) == _value(row.scaled, *key) for key in keys):
        return ""
    about = row.paper.get("row")
    words = about.get("change") if isinstance(about, dict) else None
    changed = {schema.short(key): value for key, value in differences(base.paper, row.paper, schema.groups).items()}
    return (one_line(words) if isinstance(words, str) else "") or described(changed, schema)


def _value(tree: Tree, group: str, key: str) -> Any:
    values = tree.get(group)
    return values.get(key) if isinstance(values, dict) else None
