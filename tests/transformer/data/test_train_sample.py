"""The sample of train: as many pairs as dev, drawn by the fingerprint of the data."""

import json
from pathlib import Path

import pytest
from small_trials import copy_data, prepared_text

from transformer.data.prepared import ParallelSet, Prepared
from transformer.data.train_sample import train_sample

FINGERPRINTS = ("ab" * 32, "cd" * 32)


def with_fingerprint(prepared: Prepared, fingerprint: str) -> Prepared:
    (prepared.folder / "prepared.json").write_text(
        json.dumps({"fingerprint": fingerprint}), "utf-8"
    )
    return prepared


def pairs_of(pairs: ParallelSet) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [
        (tuple(pairs.source[i].tolist()), tuple(pairs.target[i].tolist()))
        for i in range(len(pairs))
    ]


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    data = copy_data(tmp_path, (60, 20, 5), "abcdef", longest=8, vocab_size=270)
    return with_fingerprint(prepared_text(data, tmp_path), FINGERPRINTS[0])


def test_as_many_different_pairs_of_train_as_dev_has_in_their_order(prepared: Prepared) -> None:
    train = pairs_of(prepared.pairs("train"))
    sample = pairs_of(train_sample(prepared, 40))
    places = [train.index(pair) for pair in sample]  # no two pairs of train are equal
    assert len(places) == 20
    assert places == sorted(set(places))
    assert places != list(range(20))


def test_the_fingerprint_alone_draws_them(prepared: Prepared) -> None:
    first, again = (pairs_of(train_sample(prepared, 40)) for _ in range(2))
    other_sample = pairs_of(train_sample(with_fingerprint(prepared, FINGERPRINTS[1]), 40))
    assert first == again != other_sample


def test_pairs_that_are_not_trained_are_passed_over(prepared: Prepared) -> None:
    all_pairs, sample = (pairs_of(train_sample(prepared, positions)) for positions in (40, 8))
    assert (
        max(len(source) for source, _ in sample) <= 8 < max(len(source) for source, _ in all_pairs)
    )
    assert {pair for pair in all_pairs if len(pair[0]) <= 8} <= set(sample)
    short = [pair for pair in pairs_of(prepared.pairs("train")) if len(pair[0]) <= 5]
    assert 0 < len(short) < 20
    assert pairs_of(train_sample(prepared, 5)) == short, "fewer than dev has"
