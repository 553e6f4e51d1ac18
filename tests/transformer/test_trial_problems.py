"""Conflicts between keys that are each valid alone."""

from dataclasses import replace
from typing import Any

import pytest
from small_trials import SMALL, SYNTHETIC, small_trial


@pytest.mark.parametrize(
    ("model", "train", "key"),
    [
        ({"d_model": 15}, {}, "model.d_model"),
        ({}, {"tokens_per_batch": 39}, "train.tokens_per_batch"),
        ({}, {"label_smoothing": 0.9995}, "train.label_smoothing"),
    ],
)
def test_keys_that_contradict_each_other_are_found(model: Any, train: Any, key: str) -> None:
    assert small_trial().problems() == []
    assert [p.key for p in small_trial(model=replace(SMALL, **model), **train).problems()] == [key]


def test_an_odd_width_is_fine_with_learned_positions() -> None:
    assert small_trial(model=replace(SMALL, d_model=15, positions="learned")).problems() == []


def test_only_the_files_corpus_accepts_files() -> None:
    with_files = small_trial(data=replace(SYNTHETIC, train=["a", "b"]))
    without = small_trial(data=replace(SYNTHETIC, name="files", dev=["a"], test=["a", "b"]))
    assert [p.key for p in with_files.problems()] == ["data.train"]
    assert [p.key for p in without.problems()] == ["data.train", "data.dev"]
