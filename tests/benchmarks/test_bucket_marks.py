"""*Last minus first* errs as the table does; marks in every bucket err more if one row is noisy."""

import pytest

from benchmarks.bucket_marks import bucket_marks
from benchmarks.statistics import ERROR, EVEN_ERROR, sizes

STUDIES = 1500
CHANCE = 2.0  # points, of so many studies


@pytest.mark.parametrize(("times", "bound"), [(1.0, EVEN_ERROR), (5.0, ERROR)])
def test_last_less_first_errs_as_promised(times: float, bound: float) -> None:
    marks = bucket_marks(times, sizes(3, 9), STUDIES)
    assert 0 < marks.last_less_first <= bound + CHANCE
    assert times == 1 or marks.every_bucket > ERROR + CHANCE
