"""What a number of seeds can show: the probability of a mark, detectable differences, and the seeds that one needs.

The variances that seeds may show are drawn, and go through the test's own moderation. So its guard and its estimated
prior are accounted for: without them the power at three seeds would be told too high by seven points.
Shapes: S draws, R rows with the reference first, K = R − 1 compared rows.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from tracking.statistics.moderated_tests import chance_of, critical

POWER = 0.8
LEAST_SEEDS = 3
CANDIDATES = (
    *range(3, 21),
    *(22, 24, 27, 30, 33, 36, 40, 45, 50, 55, 60, 70, 80, 90, 100, 120, 150, 200, 300, 500, 1000),
)
"""Numbers of seeds that are told: no estimate of a variance is worth more digits."""
DRAWS = 400
SEED = 20_170_612


class Power:
    """Of a family whose rows have these true variances over seeds, the reference first."""

    def __init__(self, variances: Sequence[float], families: int = 1) -> None:
        self.variances, self.families = np.asarray(variances, float), families
        self._known: dict[tuple[tuple[int, ...], int | None], tuple[Any, Any]] = {}

    def of(self, seeds: Sequence[int], differences: Any, row: int | None = None) -> Any:
        """[K]: the probability that each of [K] true differences is marked, if no other row differs; [R] seeds.

        Or that of this compared row alone."""
        error, reach = self._reaches(tuple(seeds), row)
        parts = [special.ndtr((sign * np.abs(differences) - reach) / error) for sign in (1, -1)]
        return (parts[0] + parts[1]).mean(axis=0)

    def detectable(self, seeds: Sequence[int]) -> Any:
        """[K]: the true difference of each row that is marked with probability 0.8."""
        error_K, reach_SK = self._reaches(tuple(seeds), None)
        low, high = 0 * error_K, reach_SK.max(axis=0) + 10 * error_K
        for _ in range(50):
            middle = (low + high) / 2
            enough = self.of(seeds, middle) >= POWER
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def seeds_needed(self, now: Sequence[int], difference: float, row: int | None = None) -> int | None:
        """Seeds that mark a true difference of this compared row with probability 0.8, if it and the reference have at
        least so many, and the other rows as many as ``now``. Without a row: that of the noisiest row, if all have so
        many, and the reference no fewer than now. None if 1000 are too few, as for a difference of 0."""
        if difference == 0:
            return None
        judged = int(np.argmax(self.variances[1:])) if row is None else row

        def is_enough(seeds: int) -> bool:
            each = [max(seeds, now[0]), *(now[1:] if row is not None else [seeds] * (len(self.variances) - 1))]
            if row is not None:
                each[row + 1] = max(seeds, each[row + 1])
            return bool(self.of(each, difference, judged) >= POWER)

        place = bisect_left(CANDIDATES, True, key=is_enough)
        return CANDIDATES[place] if place < len(CANDIDATES) else None

    def _reaches(self, seeds: tuple[int, ...], row: int | None) -> tuple[Any, Any]:
        """[K] true standard errors, and for each draw the difference from which a row is marked, [S, K]; without K of
        one compared row."""
        if (seeds, row) not in self._known:
            number = np.array(seeds, float)
            drawn = np.random.default_rng(SEED).chisquare(number - 1, (DRAWS, len(number)))
            true = self.variances / number
            seen = chance_of(self.variances * drawn / (number - 1), number)
            of = slice(None) if row is None else row
            reach = critical(seen.df[:, of], self.families * (len(number) - 1)) * seen.error[:, of]
            self._known[seeds, row] = np.sqrt(true[1:] + true[0])[of], reach
        return self._known[seeds, row]
