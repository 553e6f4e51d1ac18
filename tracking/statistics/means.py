"""The mean of a row over its seeds that did not diverge, their spread, and its difference from the reference row; and
the settings for scoring behind its scores, such as `decode.beam`: whether seeds agree, and how it differs from base.

Scores omit a setting while it has its neutral value. So an absent setting is a value, and takes part in comparisons.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import COSTS, Card, Metric

Results = Mapping[int, dict[str, Any]]
"""The content of `result.json` by seed."""


class _Absent:
    """The value of an omitted setting. Only `transformer` defines the neutral value itself."""

    def __str__(self) -> str:
        return "default"


ABSENT = _Absent()


@dataclass(frozen=True)
class DecodeSettings:
    """The settings of one row, over its scored seeds."""

    values: dict[str, list[Any]]  # of each setting, every value once: one value unless the seeds differ
    scored: bool  # without scores nothing can be compared

    @staticmethod
    def of(decodes: Sequence[Mapping[str, Any]]) -> "DecodeSettings":
        """From the settings of each seed."""
        names = dict.fromkeys(name for decode in decodes for name in decode)
        return DecodeSettings(
            {name: _once(each.get(name, ABSENT) for each in decodes) for name in names}, bool(decodes)
        )

    def agreed(self) -> dict[str, Any]:
        """The settings that all seeds have with one value."""
        return {name: values[0] for name, values in self.values.items() if len(values) == 1}

    def mixed(self) -> dict[str, list[Any]]:
        return {name: values for name, values in self.values.items() if len(values) > 1}

    def other_than(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with one value that differs from the reference."""
        agreed, mixed = self.agreed(), self.mixed()
        found = {name: agreed.get(name, ABSENT) for name in (*agreed, *reference) if name not in mixed}
        return {name: value for name, value in found.items() if self.scored and value != reference[name]}


def reference_of(rows: Iterable[DecodeSettings]) -> dict[str, Any]:
    """Each setting's value in the first row whose seeds agree on it. The caller puts base first."""
    scored = [row for row in rows if row.scored]
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in scored for name in row.values):
        agreed = [row.agreed().get(name, ABSENT) for row in scored if name not in row.mixed()]
        found |= {name: agreed[0]} if agreed else {}
    return found


def decode_note(
    card: Card, mixed: Mapping[str, Sequence[Any]], other: Mapping[str, Any], reference: Mapping[str, Any]
) -> str:
    """Such as "decode.alpha 1.0, not 0.6; seeds mix decode.beam 4, 8"."""
    differs = [f"{card.setting(name)} {value}, not {reference[name]}" for name, value in other.items()]
    mixes = [f"seeds mix {card.setting(name)} {', '.join(map(str, values))}" for name, values in mixed.items()]
    return "; ".join(differs + mixes)


def _once(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += [] if value in found else [value]
    return found


@dataclass(frozen=True)
class Means:
    """Over the finished seeds of one row; scores are those of the table, by name. ``diverged`` ones are left out."""

    seeds: int
    diverged: dict[int, int]  # by seed: the step
    steps: float | None
    values: dict[str, dict[int, float | None]]  # of each seed
    scores: dict[str, float | None]
    sd: dict[str, float | None]  # the sample standard deviation; None under two seeds
    params: float | None
    flops: float | None
    seconds: float | None
    decode: DecodeSettings


def means_of(card: Card, results: Results, diverged: Mapping[int, int] | None = None) -> Means:
    """Of the results that count. A metric that any seed lacks has no mean."""
    decode = DecodeSettings.of(_settings(card, list(results.values())))
    values = {each.name: _values(each, results) for each in card.tabled}
    shared = [each for each in card.tabled if not each.decided_by(decode.mixed())]
    empty: dict[str, float | None] = {each.name: None for each in card.tabled}
    costs = {name: mean([result.get(name) for result in results.values()]) for name in COSTS}
    return Means(
        seeds=len(results),
        diverged=dict(sorted((diverged or {}).items())),
        steps=mean([result["step"] for result in results.values()]),
        values=values,
        scores=empty | {each.name: metric_mean(each, list(values[each.name].values())) for each in shared},
        sd=empty | {each.name: deviation(list(values[each.name].values())) for each in shared},
        **costs,
        decode=decode,
    )


def deltas_of(row: Means, reference: Means) -> dict[str, float | None]:
    """The mean over all of the row's seeds less that over all of the reference's: one difference, everywhere."""
    return {name: minus(value, reference.scores[name]) for name, value in row.scores.items()}


def metric_mean(metric: Metric, values: Sequence[float | None]) -> float | None:
    """The arithmetic mean; of a metric that is e^ of another one, e^ of the mean of that one."""
    if metric.exp_of is None or len(values) < 2 or any(value is None or value <= 0 for value in values):
        return mean(values)
    logs = mean([math.log(value) for value in values if value is not None])
    return None if logs is None else math.exp(logs)


def mean(values: Sequence[float | None]) -> float | None:
    """None without values, or if one was not finite: leaving out a diverged seed would flatter the row."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def deviation(values: Sequence[float | None]) -> float | None:
    """The sample standard deviation; None under two values, or if one was not finite."""
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) > 1 and len(known) == len(values) else None


def minus(value: float | None, base: float | None) -> float | None:
    if value is None or base is None:
        return None
    return round(value - base, 9)  # 5.29 − 4.92 is 0.37, not 0.3700000000000001


def _values(metric: Metric, results: Results) -> dict[int, float | None]:
    return {seed: results[seed]["scores"].get(metric.set, {}).get(metric.name) for seed in sorted(results)}


def _settings(card: Card, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings for scoring of each seed with scores: its sets are scored with the same ones."""
    scored = [[result["scores"][name] for name in card.scored_sets if name in result["scores"]] for result in results]
    return [sets[0].get("decode", {}) for sets in scored if sets]
