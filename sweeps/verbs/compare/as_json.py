"""A comparison as JSON: all numbers at full precision; differences are second minus first."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tracking.card import TESTED
from tracking.statistics.samples import SampleTest
from tracking.statistics.seeds.family import RowTest
from tracking.statistics.side_comparison import FIRST, SECOND, Compared, Differing, MetricCompared
from tracking.statistics.sides import Side

JsonObject = dict[str, Any]


def comparison_json(
    comparisons: Sequence[Compared], samples: Differing, left_out: Sequence[list[str]]
) -> JsonObject:
    """The pairs, the rows that only one study has finished, and the samples that differ most."""
    return {
        "pairs": [_pair_json(comparison) for comparison in comparisons],
        "not_compared": dict(zip((FIRST, SECOND), left_out, strict=True)),
        "samples": _samples_json(samples),
    }


def _samples_json(samples: Differing) -> JsonObject:
    return {
        "metric": samples.metric and samples.metric.name,
        "set": samples.set_name,
        "trials": [trial.name for trial in samples.trials or ()],
        "note": samples.note,
        "differing": [
            {**asdict(sample), "difference": sample.difference} for sample in samples.samples
        ],
    }


def _pair_json(comparison: Compared) -> JsonObject:
    first, second = comparison.sides
    return {
        FIRST: _side_json(first),
        SECOND: _side_json(second),
        "configuration": comparison.configuration,
        "origin": comparison.origin,
        "code": comparison.code,
        "metrics": [_metric_json(metric) for metric in comparison.metrics],
    }


def _side_json(side: Side) -> JsonObject:
    return {
        "name": side.label,
        "study": side.study.name,
        "trials": [trial.name for trial in side.trials],
    }


def _metric_json(compared: MetricCompared) -> JsonObject:
    return {
        "metric": compared.metric.name,
        "set": compared.set_name,
        "means": compared.means,
        "seeds": compared.seeds,
        "difference": compared.difference,
        "rows": compared.rows,
        "paired": compared.paired,
        "over_seeds": _test_json(compared.over_seeds),
        "over_samples": {name: _test_json(test) for name, test in compared.over_samples.items()},
    }


def _test_json(test: RowTest | SampleTest | str) -> JsonObject:
    """A test. One over seeds has the names of the table's CSV, and its finding in words."""
    if isinstance(test, str):
        return {"untested": test}
    if isinstance(test, SampleTest):
        names = ("difference", "low", "high", "p", "samples")
        return {name: getattr(test, name) for name in names}
    numbers = {name: getattr(test, name) for name in ("difference", *TESTED)}
    return {**numbers, "finding": test.finding.text}
