"""The family of tests of one metric, seed by seed: rows against their reference at the seeds that
both have."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracking.statistics.seeds.family import (
    NO_SPREAD,
    Family,
    FamilyTests,
    References,
    SeedScores,
    finite,
    one_per_reference,
    seed_count,
    why_untested,
)
from tracking.statistics.seeds.finding import LEAST_SEEDS, same_scores
from tracking.statistics.seeds.paired_tests import (
    PairedPower,
    paired_differences,
    paired_exponential_intervals,
    paired_variances,
    products,
    residuals,
)

SeedPairs = Mapping[int, tuple[float, float]]
"""For one row: seed -> its value and the reference's."""


def paired_families(scores: SeedScores, references: References) -> dict[str, Family]:
    """Every row against its reference at the seeds that both have.

    A seed at which the reference diverged is left out of the rows that are compared with it.
    """
    values = scores.values
    reasons = dict[str, str]()
    pairs = dict[str, SeedPairs]()
    for row, reference in references.items():
        pairs[row] = _pairs(values[row], values.get(reference, {}))
        only_row_diverged = {*scores.diverged_seeds(row)} - {*scores.diverged_seeds(reference)}
        reasons[row] = (
            why_untested(values[row], only_row_diverged)
            or scores.reference_fault(reference)
            or _why_not_paired(pairs[row], reference)
        )
    compared = {row: reference for row, reference in references.items() if not reasons[row]}
    if not compared:
        return one_per_reference(scores.metric, references, reasons, paired=True)
    testable = {row: pairs[row] for row in compared}
    return _PairedTests(scores, compared, testable).families(references, reasons)


def _pairs(row: Mapping[int, float | None], reference: Mapping[int, float | None]) -> SeedPairs:
    row_values = finite(row)
    reference_values = finite(reference)
    seeds = sorted(row_values.keys() & reference_values.keys())
    return {seed: (row_values[seed], reference_values[seed]) for seed in seeds}


def _why_not_paired(pairs: SeedPairs, reference: str) -> str:
    """Empty if differences at these seeds can be tested."""
    if len(pairs) < LEAST_SEEDS:
        return f"{seed_count(len(pairs))} in common with {reference}"
    largest = max(abs(value) for pair in pairs.values() for value in pair)
    differences = [row_value - reference_value for row_value, reference_value in pairs.values()]
    if max(map(abs, differences)) <= NO_SPREAD * largest:
        return same_scores(reference)
    if np.std(differences) <= NO_SPREAD * largest:
        return "the same difference at every seed"
    return ""


class _PairedTests(FamilyTests):
    paired = True

    def __init__(
        self, scores: SeedScores, references: References, pairs: Mapping[str, SeedPairs]
    ) -> None:
        super().__init__(scores, references)
        self.sizes = {row: len(row_pairs) for row, row_pairs in pairs.items()}
        self.seeds_K = np.array([*self.sizes.values()])
        row_values_KN, self.reference_KN = _pair_arrays(pairs)
        differences_KN = row_values_KN - self.reference_KN
        self.residuals_KN = residuals(differences_KN)
        self.reference_means = np.nanmean(self.reference_KN, axis=1)
        self.differences = paired_differences(differences_KN)
        moderated = paired_variances(products(self.residuals_KN), self.seeds_K)
        self.power = PairedPower(moderated.posterior, scores.n_families)

    def exponential_ends(self) -> Any:
        means = self.reference_means
        reference_residuals_KN = residuals(self.reference_KN)
        squares_K = (reference_residuals_KN**2).sum(axis=1)
        error_K = np.sqrt(squares_K / (self.seeds_K - 1) / self.seeds_K)
        products_K = (reference_residuals_KN * self.residuals_KN).sum(axis=1)
        scale_K = np.sqrt(squares_K * (self.residuals_KN**2).sum(axis=1))
        correlation_K = np.divide(
            products_K, scale_K, out=np.zeros_like(products_K), where=scale_K > 0
        )
        low, high = paired_exponential_intervals(
            self.differences, means, error_K, correlation_K, self.alpha
        )
        difference = np.exp(means + self.differences.difference) - np.exp(means)
        return np.stack([difference, low, high], axis=1)

    def missing_seeds(self, index: int, seeds: int) -> dict[str, int]:
        """The reference has all its seeds, in common or not."""
        row = self.rows[index]
        reference = self.references[row]
        reference_seeds = len(finite(self.scores.values[reference]))
        return {row: seeds - self.sizes[row], reference: seeds - reference_seeds}


def _pair_arrays(pairs: Mapping[str, SeedPairs]) -> tuple[Any, Any]:
    """[K, N] values of the rows, and of the reference; NaN at a seed that the two do not share."""
    seeds = sorted({seed for row_pairs in pairs.values() for seed in row_pairs})
    pairs_KN2 = np.full((len(pairs), len(seeds), 2), np.nan)
    for index, row_pairs in enumerate(pairs.values()):
        for seed, pair in row_pairs.items():
            pairs_KN2[index, seeds.index(seed)] = pair
    return pairs_KN2[..., 0], pairs_KN2[..., 1]
