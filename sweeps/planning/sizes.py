"""Rows that change the model's size, too, although nothing that they change is meant to."""

from sweeps.config.folders import BASE
from sweeps.config.schema import Schema
from sweeps.planning.composition import ComposedRow, Composition
from sweeps.task import Costs

TOLERATED = 0.05
"""Of base's parameters and FLOPs."""


def size_notes(composition: Composition, costs: dict[str, Costs]) -> dict[str, str]:
    """For each row whose parameters or FLOPs are others than base's, though it changes no key that sizes divide."""
    divided, base = Schema.of(composition.base.source.task).divided, costs.get(BASE)
    rows = [row for row in composition.rows if row.name != BASE and divided.keys().isdisjoint(row.changes)]
    return {row.name: words for row in rows if base and (words := _words(row, costs, base))}


def _words(row: ComposedRow, costs: dict[str, Costs], base: Costs) -> str:
    """Such as "18 % fewer parameters and 19 % fewer FLOPs"."""
    ours = costs.get(row.name, Costs())
    pairs = (("parameters", ours.params, base.params), ("FLOPs", ours.flops, base.flops))
    ratios = [(name, value / usual - 1) for name, value, usual in pairs if value and usual]
    words = [f"{abs(by):.0%} {'more' if by > 0 else 'fewer'} {name}" for name, by in ratios if abs(by) > TOLERATED]
    return " and ".join(words)
