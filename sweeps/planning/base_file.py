"""What the base values of a task must hold, by the lines of their file: every key of the schema, and nothing else."""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import yaml

from sweeps.planning.form_fault import FormFault, Pairs, line_of, names
from sweeps.planning.schema import Schema
from sweeps.planning.settings import tree_type
from sweeps.planning.suggestions import other_name
from transformer.schema import UNKNOWN_KEY, nearest
from transformer.versions import field_types, neutral_of


def base_faults(top: Pairs, schema: Schema) -> Iterator[FormFault]:
    """Groups that are no groups of the task, and groups and keys that are missing."""
    groups = field_types(schema.task.schema)
    for group, (node, _) in top.items():
        if group not in groups and "." not in group:
            allowed, near = f"base sets only {', '.join(groups)}", nearest(group, groups)
            yield FormFault(group, UNKNOWN_KEY, allowed, line_of(node), near, _below(near, schema) if near else ())
    meant = {nearest(group, groups) for group in top if group not in groups}
    for group, kind in groups.items():
        needed = list(_needed(kind))
        if group in top:
            yield from _key_faults(group, top[group][1], needed, schema)
        elif needed and group not in meant and not any(name.startswith(f"{group}.") for name in top):
            yield FormFault(group, "is missing", f"must hold {', '.join(needed)}", 1, None, _below(group, schema))


def _key_faults(group: str, node: yaml.Node, needed: list[str], schema: Schema) -> Iterator[FormFault]:
    """A key under another name is one fault, not also a missing one."""
    known = [key.partition(".")[2] for key in _below(group, schema)[1:]]
    if not isinstance(node, yaml.MappingNode):
        yield FormFault(
            group, "is not a group", f"must hold {', '.join(known)}", line_of(node), None, _below(group, schema)
        )
        return
    missing = [f"{group}.{name}" for name in needed if name not in names(node)]
    for key, _ in node.value:
        name = f"{group}.{key.value}"
        if key.value not in known:
            near = other_name(tree_type(schema.task), name) or nearest(name, _below(group, schema)[1:])
            missing = [other for other in missing if other != near]
            allowed = f"keys under {group} are {', '.join(known)}"
            yield FormFault(name, UNKNOWN_KEY, allowed, line_of(key), near, (near,) if near else ())
    yield from (FormFault(name, "is missing", "must be given", line_of(node)) for name in missing)


def _needed(kind: Any) -> Iterator[str]:
    """The keys of a group that have no value of their own."""
    hints = field_types(kind)
    for field in fields(kind):
        optional = field.default is not MISSING or field.default_factory is not MISSING
        if not optional and neutral_of(hints[field.name]) is None:
            yield field.name


def _below(group: str, schema: Schema) -> tuple[str, ...]:
    return (group, *(key for key in schema.short_names if key.startswith(f"{group}.")))
