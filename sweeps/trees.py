"""Plain data in groups, and the same with dotted keys."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

Tree = dict[str, Any]
Values = dict[str, Any]


def assigned(tree: Tree, values: Mapping[str, Any]) -> Tree:
    """A copy with these dotted keys set, where their groups exist."""
    tree = deepcopy(tree)
    for key, value in values.items():
        *groups, name = key.split(".")
        node: Any = tree
        for group in groups:
            node = node.get(group) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node[name] = value
    return tree


def with_values_of(other: Tree, tree: Tree, keys: Iterable[str]) -> Tree:
    """A copy of ``tree`` with the values that ``other`` has for these dotted keys."""
    values = dotted(other)
    return assigned(tree, {key: values[key] for key in keys if key in values})


def merged(below: Tree, above: Tree) -> Tree:
    """A copy with groups and mappings merged key by key, as Hydra merges them."""
    result = deepcopy(below)
    for key, value in above.items():
        are_groups = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if are_groups else deepcopy(value)
    return result


def dotted(tree: Tree) -> Values:
    """{"model": {"d_ff": 64}} as {"model.d_ff": 64}, without what is no group."""
    return {
        f"{group}.{name}": value
        for group, values in tree.items()
        if isinstance(values, dict)
        for name, value in values.items()
    }


def nested(values: Mapping[str, Any]) -> Tree:
    """The reverse of ``dotted``."""
    tree: Tree = {}
    for key, value in values.items():
        group, name = key.split(".")
        tree.setdefault(group, {})[name] = value
    return tree


def differences(base: Tree, row: Tree, groups: Iterable[str]) -> Values:
    """Dotted keys and values by which a row differs from base in these groups."""
    different: Values = {}
    for group in groups:
        base_values = base.get(group)
        row_values = row.get(group)
        if not (isinstance(row_values, dict) and isinstance(base_values, dict)):
            continue
        for name, value in row_values.items():
            if name not in base_values or value != base_values[name]:
                different[f"{group}.{name}"] = value
    return different
