"""The scores of a study's finished trials by seed, and how much they spread."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Metric
from tracking.statistics.means import DecodeSettings
from tracking.study import Study

SeedValues = dict[str, dict[int, float | None]]
Results = dict[str, dict[int, dict[str, Any]]]
"""Row -> seed -> the result of a finished trial."""


@dataclass(frozen=True)
class PooledSpread:
    """The standard deviation over seeds, pooled over rows, and its degrees of freedom (seeds less rows)."""

    sd: float
    df: int


def finished_results(study: Study) -> Results:
    """Of every trial that is finished with the key that the study names. Damaged trials are left out."""
    found: Results = {}
    for trial in study.trials:
        _, result = study.trial_folder(trial).standing(trial.key)
        if result is not None:
            found.setdefault(trial.row, {})[trial.seed] = result
    return found


def seed_values(results: Results, metric: Metric) -> SeedValues:
    """The metric on its own set. Rows whose seeds were scored with settings that change it differently have none."""
    scores = {
        row: {seed: of["scores"].get(metric.set, {}) for seed, of in each.items()} for row, each in results.items()
    }
    return {
        row: {seed: of.get(metric.name) for seed, of in each.items()}
        for row, each in scores.items()
        if not metric.decided_by(DecodeSettings.of([of.get("decode", {}) for of in each.values() if of]).mixed())
    }


def pooled_spread(values: Mapping[str, Mapping[int, float | None]]) -> PooledSpread | None:
    """Over the rows with at least two finite values; rows with another value are left out. None without such a row."""
    rows = [known for each in values.values() if len(known := _known(list(each.values()))) == len(each) > 1]
    if not rows:
        return None
    df = sum(map(len, rows)) - len(rows)
    squares = math.fsum((value - math.fsum(row) / len(row)) ** 2 for row in rows for value in row)
    return PooledSpread(math.sqrt(squares / df), df)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
