"""What a packed file of samples holds comes back."""

from typing import Any

import pytest

from tracking.json_lines.packed_file import packed

HEAD = {"scores": {"ppl": 4.5}}


@pytest.mark.parametrize(
    "samples",
    [
        [{"counts": []}, {"counts": []}],
        [{"counts": [[1, 2]]}, {"counts": [[3, 4]]}],
        [{"counts": [1]}, {"counts": [1, 2]}],
    ],
)
def test_samples_that_are_no_columns_of_numbers_stay_plain(samples: list[dict[str, Any]]) -> None:
    assert packed(HEAD, samples) == [HEAD, *samples]


def test_lists_of_numbers_become_columns() -> None:
    lines = packed(HEAD, [{"counts": [1, 2]}, {"counts": [3, 4]}])
    assert [line.get("column") for line in lines] == [None, "counts", "counts"]
