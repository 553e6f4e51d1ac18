"""What the file of a row or of a scale must hold, by its lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from sweeps.planning.schema import Schema
from sweeps.planning.settings import PLATFORM
from transformer.schema import UNKNOWN_KEY, nearest

EXAMPLES = {
    "row": 'row: {group: mine, change: "16 heads"}',
    "scale": "scale: {name: mine, width: 2, depth: 1, steps: 1}",
}
Pairs = Mapping[str, tuple[yaml.Node, yaml.Node]]
"""The groups of a file: the node of the name and that of the content."""


@dataclass(frozen=True)
class FormFault:
    """A fault of one key in one line. ``follows`` are keys whose problems follow from it."""

    key: str
    found: str
    allowed: str
    line: int
    nearest: str | None = None
    follows: tuple[str, ...] = ()


def form_faults(group: str, name: str, top: Pairs, schema: Schema) -> Iterator[FormFault]:
    """The faults of a file in ``conf/<group>/``; files of other groups have no form."""
    if group == "row":
        yield from _row_faults(top)
    if group == "scale":
        yield from _scale_faults(name, top, schema)
    if group in EXAMPLES and schema.seed is not None:
        yield from _seed_faults(group, top, schema.seed)


def line_of(part: yaml.Node | yaml.Event) -> int:
    """Counted from 1."""
    assert part.start_mark is not None
    return int(part.start_mark.line) + 1


def _row_faults(top: Pairs) -> Iterator[FormFault]:
    about = top["row"][1] if "row" in top else None
    if about is None:
        yield FormFault("row", "is missing", f"must be given: {EXAMPLES['row']}", 1)
    elif isinstance(about, yaml.MappingNode) and "group" not in _names(about):
        yield FormFault("row.group", "is missing", f"must be given: {EXAMPLES['row']}", line_of(about))


def _scale_faults(name: str, top: Pairs, schema: Schema) -> Iterator[FormFault]:
    for group in PLATFORM:
        if group in top and group != "scale":
            allowed = f"a scale may set only {', '.join(schema.groups)}"
            yield FormFault(group, "is set by a scale", allowed, line_of(top[group][0]), None, tuple(_keys(group, top)))
    divisors = top["scale"][1] if "scale" in top else None
    if divisors is None:
        yield FormFault("scale", "is missing", f"must be given: {EXAMPLES['scale']}", 1)
    elif isinstance(divisors, yaml.MappingNode):
        yield from _divisor_faults(name, divisors, ("name", *schema.divisors))


def _divisor_faults(name: str, divisors: yaml.MappingNode, known: tuple[str, ...]) -> Iterator[FormFault]:
    """A divisor under another name is one fault, not also a missing one."""
    missing = [divisor for divisor in known if divisor not in _names(divisors)]
    for node, value in divisors.value:
        near = nearest(node.value, missing)
        if node.value not in known:
            missing = [divisor for divisor in missing if divisor != near]
            follows = (f"scale.{near}",) if near else ()
            allowed = f"keys under scale are {', '.join(known)}"
            yield FormFault(
                f"scale.{node.value}", UNKNOWN_KEY, allowed, line_of(node), next(iter(follows), None), follows
            )
        elif node.value == "name" and isinstance(value, yaml.ScalarNode) and value.value != name:
            found, allowed = f"is {value.value}, but the file is {name}.yaml", f"must be {name}: it names the study"
            yield FormFault("scale.name", found, allowed, line_of(node))
    for divisor in missing:
        allowed = f"must be given: {EXAMPLES['scale']}"
        yield FormFault(f"scale.{divisor}", "is missing", allowed, line_of(divisors))


def _seed_faults(group: str, top: Pairs, seed: str) -> Iterator[FormFault]:
    its_group, _, name = seed.partition(".")
    values = top[its_group][1] if its_group in top else None
    for key, _ in values.value if isinstance(values, yaml.MappingNode) else ():
        if key.value == name:
            allowed = "set the seeds of all rows with sweep.seeds=[1,2,3]"
            yield FormFault(seed, f"is set by a {group}", allowed, line_of(key))


def _keys(group: str, top: Pairs) -> Iterator[str]:
    node = top[group][1]
    return (f"{group}.{name}" for name in (_names(node) if isinstance(node, yaml.MappingNode) else ()))


def _names(node: yaml.MappingNode) -> list[str]:
    return [key.value for key, _ in node.value]
