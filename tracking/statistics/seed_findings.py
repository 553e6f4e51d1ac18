"""The tests over seeds of one metric, in its own units, with what these seeds could have shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tracking.card import Metric
from tracking.statistics.kept_results import fingerprint, kept
from tracking.statistics.power import detectable_exponential, detectable_range, would_need
from tracking.statistics.rows import TableRow
from tracking.statistics.seed_tests import Family, RowTest, exponential, family
from tracking.study import Study

VERSION = 1
"""Raise it when the same values give other results: older results are then computed again."""
Values = Mapping[str, Mapping[int, float | None]]


@dataclass(frozen=True)
class SeedFindings:
    """``family``: of a metric that is e^ of another one, in that one. Everything else is in the metric's units."""

    family: Family
    tests: dict[str, RowTest]
    detectable: tuple[float, float] | None  # the smallest and the largest over the rows
    needed: dict[str, int | None]  # by row without a difference shown: the seeds that its own difference would need


def seed_findings(study: Study, metric: Metric, rows: Sequence[TableRow], reference: str) -> SeedFindings | None:
    """Over all rows of the study. Rows whose scores cannot be compared are not tested. None without the reference.

    The results are kept in the study's folder, where that can be written."""
    comparable = [row for row in rows if not metric.decided_by((*row.mixed_decode, *row.other_decode))]
    values = {row.row: _scale(metric, row.seed_values[metric.name]) for row in comparable}
    if reference not in values:
        return None
    key = fingerprint([VERSION, [[row, sorted(of.items())] for row, of in values.items()]])
    name = f"seeds {metric.name} {metric.set} {reference}"
    content = kept(study.folder, name, key, lambda: _computed(values, reference, metric))
    found = Family.of(content["family"])
    reasons = {row.row: "other settings" for row in rows if row not in comparable}
    found = replace(found, untested=found.untested | reasons)
    tests = exponential(found) if metric.exp_of else found.tests
    return SeedFindings(found, tests, content["detectable"] and tuple(content["detectable"]), content["needed"])


def _computed(values: Values, reference: str, metric: Metric) -> dict[str, Any]:
    found = family(values, reference)
    assert found is not None
    ends = detectable_range(found) if found.tests else None
    if ends and metric.exp_of:
        ends = _exponentials(found, ends)
    needed = {row: would_need(found, row) for row, test in found.tests.items() if not test.shown}
    return {"family": asdict(found), "detectable": ends, "needed": needed}


def _exponentials(found: Family, ends: tuple[float, float]) -> tuple[float, float] | None:
    """None if they are beyond any number: a seed has diverged."""
    try:
        return detectable_exponential(found, ends[0]), detectable_exponential(found, ends[1])
    except OverflowError:
        return None


def _scale(metric: Metric, values: Mapping[int, float | None]) -> Mapping[int, float | None]:
    """A metric that is e^ of another one is tested as that one."""
    if metric.exp_of is None:
        return values
    return {seed: math.log(value) if value is not None and value > 0 else None for seed, value in values.items()}
