"""The family of tests of one metric, seed by seed: rows against one reference at the seeds that both have."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.family import NO_SPREAD, Family, FamilyTests, SeedValues, finite, why_untested
from tracking.statistics.finding import ALPHA
from tracking.statistics.paired_tests import (
    PairedPower,
    paired_differences,
    paired_exponential_intervals,
    paired_variances,
)
from tracking.statistics.seed_tests import LEAST_SEEDS, intervals

SeedPairs = Mapping[int, tuple[float, float]]
"""Of one row: seed -> its value and that of the reference."""


def paired_family(
    metric: Metric,
    values: SeedValues,
    reference: str,
    diverged: Mapping[str, Collection[int]] | None = None,
    seconds: Mapping[str, float | None] | None = None,
    margin: float | None = None,
    families: int = 1,
) -> Family | None:
    """Every row against the reference at the seeds that both have. Arguments are those of `family`.

    A seed at which the reference diverged is left out of every row. None if the reference is no row.
    """
    if reference not in values:
        return None
    lost = diverged or {}
    why = why_untested(values[reference], lost.get(reference, ()), True)
    reasons, pairs = dict[str, str](), dict[str, SeedPairs]()
    for row, row_values in values.items():
        if row == reference:
            continue
        diverged_alone = set(lost.get(row, ())) - set(lost.get(reference, ()))
        pairs[row] = _pairs(row_values, values[reference])
        reasons[row] = f"{reference}: {why}" if why else _why_not_paired(row_values, diverged_alone, pairs[row])
        reasons[row] = reasons[row].replace("{reference}", reference)
    tested = {row: pairs[row] for row, reason in reasons.items() if not reason}
    if not tested:
        return Family(metric, reference, dict(reasons), paired=True)
    found = _PairedTests(metric, reference, tested, seconds or {}, margin, families)
    found.reference_seeds = len(finite(values[reference]))
    tests = found.tests()
    rows = {row: reason or tests[row] for row, reason in reasons.items()}
    return Family(metric, reference, rows, margin, found.sizes, found.detectable(), paired=True)


def _pairs(row: Mapping[int, float | None], reference: Mapping[int, float | None]) -> SeedPairs:
    row_values, reference_values = finite(row), finite(reference)
    seeds = sorted(row_values.keys() & reference_values.keys())
    return {seed: (row_values[seed], reference_values[seed]) for seed in seeds}


def _why_not_paired(row: Mapping[int, float | None], diverged: Collection[int], pairs: SeedPairs) -> str:
    """Empty if the row can be tested."""
    if reason := why_untested(row, diverged):
        return reason
    if len(pairs) < LEAST_SEEDS:
        number = {0: "no seed", 1: "1 seed"}.get(len(pairs), f"{len(pairs)} seeds")
        return f"{number} in common with {{reference}}"
    largest = max(abs(value) for pair in pairs.values() for value in pair)
    differences = [row_value - reference_value for row_value, reference_value in pairs.values()]
    if max(map(abs, differences)) <= NO_SPREAD * largest:
        return "same scores as {reference}"
    if np.std(differences) <= NO_SPREAD * largest:
        return "no variance over seeds"
    return ""


class _PairedTests(FamilyTests):
    """The tests of rows that can be tested."""

    reference_seeds: int  # that the reference has, in common or not

    def __init__(
        self,
        metric: Metric,
        reference: str,
        pairs: Mapping[str, SeedPairs],
        seconds: Mapping[str, float | None],
        margin: float | None,
        families: int,
    ) -> None:
        super().__init__(metric, reference, list(pairs), seconds, margin, families)
        self.sizes = {row: len(of_row) for row, of_row in pairs.items()}
        seeds = sorted({seed for of_row in pairs.values() for seed in of_row})
        both_KN2 = np.full((len(pairs), len(seeds), 2), np.nan)
        for place, of_row in enumerate(pairs.values()):
            for seed, pair in of_row.items():
                both_KN2[place, seeds.index(seed)] = pair
        differences_KN = both_KN2[..., 0] - both_KN2[..., 1]
        self.reference_KN = both_KN2[..., 1]
        self.residuals_KN = _residuals(differences_KN)
        self.reference_means = np.nanmean(self.reference_KN, axis=1)
        self.found = paired_differences(differences_KN)
        moderated = paired_variances(self.residuals_KN, np.array([*self.sizes.values()]))
        self.power = PairedPower(moderated.likely, families)
        self.p_holm = np.minimum(1.0, self.found.p_holm * families)

    def tested_ends(self) -> Any:
        alpha = ALPHA / self.families
        return np.stack([self.found.difference, *intervals(self.found, alpha)], axis=1)

    def ends_in_units(self) -> Any:
        if not self.metric.exp_of:
            return self.tested_ends()
        means, number = self.reference_means, np.array([*self.sizes.values()])
        residuals_KN = _residuals(self.reference_KN)
        squares_K = (residuals_KN**2).sum(axis=1)
        error_K = np.sqrt(squares_K / (number - 1) / number)
        products_K = (residuals_KN * self.residuals_KN).sum(axis=1)
        scale_K = np.sqrt(squares_K * (self.residuals_KN**2).sum(axis=1))
        correlation_K = np.divide(products_K, scale_K, out=np.zeros_like(products_K), where=scale_K > 0)
        ends = paired_exponential_intervals(self.found, means, error_K, correlation_K, ALPHA / self.families)
        difference = np.exp(means + self.found.difference) - np.exp(means)
        return np.stack([difference, *ends], axis=1)

    def missing_seeds(self, place: int, seeds: int) -> dict[str, int]:
        row = self.rows[place]
        return {row: seeds - self.sizes[row], self.reference: seeds - self.reference_seeds}


def _residuals(values: Any) -> Any:
    """[K, N] less the mean of each row; 0 where a row lacks the seed."""
    centered = values - np.nanmean(values, axis=1, keepdims=True)
    return np.where(np.isnan(values), 0.0, centered)
