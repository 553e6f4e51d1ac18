"""What the file of a row or of a scale must hold, by its lines."""

from collections.abc import Iterator

import yaml

from sweeps.planning.base_file import base_faults
from sweeps.planning.form_fault import BASE, FormFault, Pairs, line_of, names
from sweeps.planning.schema import Schema
from sweeps.planning.settings import PLATFORM
from transformer.schema import UNKNOWN_KEY, nearest

ROW = 'row: {group: mine, change: "what differs"}'


def form_faults(group: str, name: str, top: Pairs, schema: Schema) -> Iterator[FormFault]:
    """The faults of a file in ``conf/<group>/``; files of other groups have no form."""
    if group == "row":
        yield from _row_faults(top)
    if group == "scale":
        yield from _scale_faults(name, top, schema)
    if group == BASE:
        yield from base_faults(top, schema)
    if group in ("row", "scale") and schema.seed is not None:
        yield from _seed_faults(group, top, schema.seed)


def _row_faults(top: Pairs) -> Iterator[FormFault]:
    about = top["row"][1] if "row" in top else None
    if about is None:
        yield FormFault("row", "is missing", f"must be given: {ROW}", 1)
    elif isinstance(about, yaml.MappingNode) and "group" not in names(about):
        yield FormFault("row.group", "is missing", f"must be given: {ROW}", line_of(about))


def _scale_faults(name: str, top: Pairs, schema: Schema) -> Iterator[FormFault]:
    for group in PLATFORM:
        if group in top and group != "scale":
            allowed = f"a scale may set only {', '.join(schema.groups)}"
            yield FormFault(group, "is set by a scale", allowed, line_of(top[group][0]), None, tuple(_keys(group, top)))
    divisors = top["scale"][1] if "scale" in top else None
    if divisors is None:
        yield FormFault("scale", "is missing", f"must be given: {_scale_example(schema.divisors)}", 1)
    elif isinstance(divisors, yaml.MappingNode):
        yield from _divisor_faults(name, divisors, schema.divisors)


def _divisor_faults(name: str, divisors: yaml.MappingNode, needed: tuple[str, ...]) -> Iterator[FormFault]:
    """A divisor under another name is one fault, not also a missing one."""
    known = ("name", *needed)
    missing = [divisor for divisor in known if divisor not in names(divisors)]
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
        allowed = f"must be given: {_scale_example(needed)}"
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
    return (f"{group}.{name}" for name in names(node))


def example(group: str, schema: Schema) -> str | None:
    """The least that a file of the group must hold."""
    examples = {"row": ROW, "scale": _scale_example(schema.divisors)}
    return examples.get(group)


def _scale_example(divisors: tuple[str, ...]) -> str:
    values = [f"{divisor}: {1 if place else 2}" for place, divisor in enumerate(divisors)]
    return f"scale: {{{', '.join(['name: mine', *values])}}}"
