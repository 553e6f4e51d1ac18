"""Many lines through a model: each as if it were alone, in order, with any content."""

from dataclasses import replace
from itertools import islice

import pytest
from small_trials import DECODE, small_model

from transformer.data.prepared import Prepared
from transformer.data.vocabulary import EOS
from transformer.decoding.translator import Translation, Translator

WORDY = replace(DECODE, alpha=5.0, max_extra=20)
"""Settings that make an untrained model write something."""
LINES = ["a b c", "", "f", "c c c c d e f a b c d e", " ", "b a", "ä 😀 שלום", "a" * 30, "d e f"]


@pytest.fixture(scope="module")
def translator(copies: Prepared) -> Translator:
    return Translator(small_model(270, seed=5), copies.vocabulary, WORDY, "fp32")


def test_each_line_is_translated_as_if_it_were_alone_and_in_its_place(translator: Translator) -> None:
    together = translator.translate(LINES)
    assert together == [translator.translate([line])[0] for line in LINES]
    assert [not line for line in together] == [not line.strip() for line in LINES]
    assert translator.translate(LINES[::-1]) == together[::-1]


def test_the_best_come_with_their_scores_best_first(translator: Translator) -> None:
    sources, _ = translator.sources(["a b c", ""])
    words, nothing = translator.translations(sources)
    assert len(words) == WORDY.beam
    assert [each.score for each in words] == sorted((each.score for each in words), reverse=True)
    assert len({each.text for each in words}) > 1
    assert nothing == [Translation("", 0.0)]


def test_results_are_yielded_before_later_ones_are_computed(translator: Translator) -> None:
    greedy = replace(translator, decode=replace(WORDY, beam=1, max_extra=0))
    sources, _ = greedy.sources(["a"] * 600)
    no_pieces = [9_999] * 20 + [EOS]  # the model fails on them, in a separate batch
    results = greedy.translations([*sources, no_pieces])
    assert len(list(islice(results, 600))) == 600
    with pytest.raises(IndexError):
        next(results)


def test_a_line_longer_than_the_positions_is_cut_and_reported(translator: Translator) -> None:
    longest = translator.model.config.max_positions
    sources, long = translator.sources(["a b", "a " * 100, "c"])
    assert long == [1]
    assert len(sources[1]) == longest
    assert sources[1][-1] == EOS
    assert translator.translate(["a " * 100]) == translator.translate(["a " * (longest - 1)])
