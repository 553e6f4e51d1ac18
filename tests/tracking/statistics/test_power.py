"""What the table says of power is what happens in simulated studies."""

import numpy as np
import pytest

from tracking.statistics.finding import ALPHA
from tracking.statistics.seed_tests import CANDIDATES, POWER, Power, differences

STUDIES = 4000
POINTS = 0.045  # of the simulation, and of the 400 draws behind Power


def marked(sds: list[float], seeds: list[int], difference: float) -> float:
    """The share of simulated studies in which the first compared row is marked."""
    chance, number, sd = np.random.default_rng(1), np.array(seeds), np.array(sds)
    means = chance.normal(size=(STUDIES, len(seeds))) * sd / np.sqrt(number)
    means[:, 1] += difference
    variances = sd**2 * chance.chisquare(number - 1, (STUDIES, len(seeds))) / (number - 1)
    return float((differences(means, variances, number).p_holm[:, 0] <= ALPHA).mean())


@pytest.mark.parametrize(
    ("sds", "seeds", "difference"),
    [
        ([1.0] * 20, [3] * 20, 3.5),
        ([1.0] * 20, [9] + [3] * 19, 3.5),
        ([1.0] * 3, [3] * 3, 3.5),
        ([1.0, 3.0] + [1.0] * 8, [5] * 10, 6.0),
    ],
    ids=str,
)
def test_power_and_the_detectable_difference(sds: list[float], seeds: list[int], difference: float) -> None:
    power = Power([sd**2 for sd in sds])
    assert power.of(seeds, difference)[0] == pytest.approx(marked(sds, seeds, difference), abs=POINTS)
    assert marked(sds, seeds, float(power.detectable(seeds)[0])) == pytest.approx(POWER, abs=POINTS)


@pytest.mark.parametrize(("difference", "now"), [(1.5, [3] * 20), (2.0, [9] + [3] * 19)])
def test_the_seeds_that_are_told_are_enough_and_the_next_fewer_are_not(difference: float, now: list[int]) -> None:
    def share(seeds: int) -> float:
        return marked([1.0] * 20, [max(now[0], seeds), seeds, *now[2:]], difference)

    seeds = Power([1.0] * 20).seeds_needed(now, difference, 0)
    assert seeds is not None
    assert share(seeds) >= POWER - POINTS
    for fewer in CANDIDATES[: CANDIDATES.index(seeds)][-1:]:
        assert share(fewer) < POWER + POINTS


def test_no_number_of_seeds_marks_nothing() -> None:
    assert Power([1.0, 1.0]).seeds_needed([3, 3], 0.0, 0) is None
    assert Power([1.0, 1.0]).seeds_needed([3, 3], 1e-4, 0) is None
    assert Power([1.0, 1.0]).seeds_needed([3, 3], 1e9, 0) == CANDIDATES[0]
