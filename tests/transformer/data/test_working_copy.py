"""The copy of a text: every n-th pair of a large one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from transformer.data import preparation as working_copy
from transformer.data.corpora import Text
from transformer.data.preparation import WorkingCopy, untold
from transformer.data.text_file import SentencePair


def numbered(size: int) -> Iterator[SentencePair]:
    return ((f"source {number:07d} {'x' * 80}", f"target {number:07d} {'y' * 80}") for number in range(size))


def taken(folder: Path, size: int) -> WorkingCopy:
    copy = WorkingCopy(folder)
    copy.take(Text({"train": numbered(size)}, dict), untold)
    return copy


@pytest.mark.parametrize(("parts", "every"), [(1, 1), (1.01, 2), (3.5, 4), (40, 40)])
def test_a_vocabulary_is_learned_from_evenly_spaced_pairs_of_a_larger_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: float, every: int
) -> None:
    copy = taken(tmp_path, 1000)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(working_copy, "SAMPLED_ABOVE", int(size / parts))
    assert list(copy.lines_to_learn()) == [line for pair in list(numbered(1000))[::every] for line in pair]
