"""The simulation of paired differences goes through the table's own function, which errs and finds
as promised."""

import pytest

from benchmarks.paired_statistics import (
    CASES,
    ERROR,
    check_against_paired_table,
    paired_perplexity,
    paired_shares,
    scoring_power,
    trained_power,
)

STUDIES = 3000
CHANCE = 1.5  # points, of so many studies


@pytest.mark.parametrize("case", CASES)
def test_the_simulation_marks_what_a_paired_table_marks(case: str) -> None:
    check_against_paired_table(case, 4, 3)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("alike", [0.0, 0.9])
@pytest.mark.parametrize("rows", [3, 8])
def test_the_paired_mark_keeps_its_promises(case: str, alike: float, rows: int) -> None:
    measured = paired_shares(case, rows, 3, alike, STUDIES)
    assert measured.error <= ERROR + CHANCE
    assert measured.coverage >= 100 - ERROR - CHANCE


@pytest.mark.parametrize(("seeds", "least"), [(3, 85.0), (5, 99.0), (9, 99.0)])
def test_scoring_rows_find_what_the_usual_test_misses(seeds: int, least: float) -> None:
    power = scoring_power(3, seeds, STUDIES)
    assert power.paired >= least
    assert power.usual <= 25


def test_pairing_trained_rows_gains_with_shared_luck_and_costs_without() -> None:
    without = trained_power(0.0, 5, 5, STUDIES)
    with_luck = trained_power(0.9, 5, 5, STUDIES)
    assert without.paired < without.usual
    assert with_luck.paired > with_luck.usual


def test_intervals_of_perplexities_hold_the_true_differences() -> None:
    assert paired_perplexity(0.03, 5, STUDIES).coverage >= 94
