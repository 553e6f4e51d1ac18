"""A number by which the samples of a set can be grouped, such as their length.

It stands among the counts of each sample. No trial may change it: samples that are grouped by an
outcome, such as their loss, would be different samples for each trial.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Card
from tracking.statistics.samples import Floats, counts

LENGTH = "length"
"""The name of what the first ratio among the metrics divides by, such as pieces."""
RATIOS = ("ratio", "exp_ratio")
Sample = Mapping[str, Any]


class UngroupedError(ValueError):
    """The samples can't be grouped like this: the ``fault``, and what is ``allowed`` instead."""

    def __init__(self, fault: str, allowed: str) -> None:
        super().__init__(f"{fault}; {allowed}")
        self.fault = fault
        self.allowed = allowed


@dataclass(frozen=True, eq=False)
class Quantity:
    """``field`` is its name among a sample's counts; ``values_N`` holds it for each sample."""

    name: str
    field: str
    values_N: Floats

    @property
    def words(self) -> str:
        """Such as "length in pieces"."""
        return self.name if self.name == self.field else f"{self.name} in {self.field}"


def quantity(name: str, card: Card, samples: Sequence[Sample]) -> Quantity:
    """The quantity of this name. Raises UngroupedError with those that there are."""
    fields = fields_by_name(card, samples[0])
    if name not in fields:
        allowed = f"must be a number that no trial changes: {', '.join(fields) or 'there is none'}"
        raise UngroupedError(f'is "{name}", which can\'t group {card.sample}s', allowed)
    field = fields[name]
    try:
        return Quantity(name, field, values(samples, field))
    except ValueError as error:
        raise UngroupedError(f"can't be {name}", f"a file of samples {error}") from None


def values(samples: Sequence[Sample], field: str) -> Floats:
    """[N]. Raises ValueError for a sample without this number."""
    return counts(samples, ("mean", field))[:, 0]


def fields_by_name(card: Card, sample: Sample) -> dict[str, str]:
    """The fields of a sample that can group it, by the names that commands take."""
    outcomes = _outcomes(card)
    fields = dict[str, str]()
    length = _length(card)
    if length in sample:
        fields[LENGTH] = length
    for field, value in sample.items():
        if field not in outcomes and isinstance(value, int | float):
            fields[field] = field
    return fields


def _length(card: Card) -> str:
    """The field that the first ratio divides by; empty without a ratio."""
    for metric in card.metrics:
        if metric.from_counts and metric.from_counts[0] in RATIOS:
            return metric.from_counts[2]
    return ""


def _outcomes(card: Card) -> set[str]:
    """The fields that a trial's outputs decide: all that formulas take, except divisors."""
    outcomes = set[str]()
    divisors = set[str]()
    for metric in card.metrics:
        formula, *fields = metric.from_counts or ("",)
        outcomes |= set(fields)
        if formula in RATIOS:
            divisors.add(fields[1])
    return outcomes - divisors
