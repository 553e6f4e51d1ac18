"""The simulation goes through the table's own function, and the mark errs and finds as often as is
promised."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.statistics import (
    CASES,
    DESIGNS,
    EQUAL,
    ERROR,
    EVEN_ERROR,
    WITHIN,
    cases,
    check_against_table,
    shares,
    sizes,
)

STUDIES = 3000
CHANCE = 1.5  # points, of so many studies


@pytest.mark.parametrize("case", [EQUAL, "one row's sd × 5"])
def test_the_simulation_marks_what_a_table_marks(case: str) -> None:
    check_against_table(CASES[case], sizes(3, 9))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_mark_keeps_its_promises(case: str, design: tuple[int, int]) -> None:
    measured = shares(case, CASES[case], sizes(*design), STUDIES)
    assert measured.error <= (EVEN_ERROR if case == EQUAL else ERROR) + CHANCE
    assert measured.coverage == pytest.approx(100 - measured.error, abs=0.2), (
        "Holm's first step is Bonferroni's"
    )
    assert measured.against <= 10


def test_a_row_that_differs_is_found() -> None:
    powers = [shares(EQUAL, CASES[EQUAL], sizes(*design), STUDIES).power or 0 for design in DESIGNS]
    assert powers[0] >= 65 - CHANCE
    assert powers[1] >= 85 - CHANCE
    assert powers == sorted(powers)


def test_real_results_stand_in_for_normal_values(tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    lists = {str(sd): list(3 + sd * chance.normal(size=40)) for sd in (0.001, 0.002)}
    (tmp_path / "noise.json").write_text(json.dumps({"values": lists}))
    all_cases = cases(tmp_path / "noise.json")
    assert len(all_cases) == 3
    measured = shares(WITHIN, all_cases[WITHIN], sizes(3, 3), STUDIES)
    assert (measured.power, measured.error <= EVEN_ERROR + CHANCE) == (None, True)
