"""A scale shrinks every row alike: widths, depth and steps are divided, and must divide evenly."""

from typing import Any

from sweeps.settings import Scale
from transformer.schema import Problem

WIDTHS = ("d_model", "d_ff", "d_k", "d_v")


def apply_scale(tree: dict[str, Any], scale: Scale) -> list[Problem]:
    """Divide in place; says what does not divide. A value that is no whole number is left to the schema."""
    divisions = [("model", name, "width", scale.width) for name in WIDTHS]
    divisions += [("model", "n_layers", "depth", scale.depth), ("train", "steps", "steps", scale.steps or 1)]
    problems = []
    for group, name, divisor_name, divisor in divisions:
        values = tree.get(group)
        value = values.get(name) if isinstance(values, dict) else None
        if values is None or not isinstance(value, int) or isinstance(value, bool):
            continue
        if value % divisor:
            allowed = f"must divide {group}.{name}, which is {value}"
            problems.append(Problem(f"scale.{divisor_name}", f"is {divisor}", allowed))
        else:
            values[name] = value // divisor
    return problems
