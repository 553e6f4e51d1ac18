"""Pieces become words, and their weights with them; a word is named by its text and number."""

import numpy as np
import pytest

from transformer.data.vocabulary import BOS, EOS, Vocabulary
from transformer.faults import FaultyError
from transformer.pictures.words import Words, position_of, word_weights, words_of

PIECES = {
    BOS: "<s>",
    EOS: "</s>",
    10: "▁The",
    11: "▁law",
    12: "yer",
    13: "'",
    14: "s",
    15: ",",
    16: "▁(",
    17: "T",
    18: "-",
    19: "shirt",
    20: ")",
    21: ".",
    22: "▁",
    23: "<0xF0>",
    24: "its",
    25: "▁its",
}


class ShownVocabulary(Vocabulary):
    """These pieces, without a model; bytes become one sign."""

    def __init__(self) -> None:
        super(Vocabulary, self).__init__()

    def pieces(self, ids: list[int]) -> list[str]:
        return [PIECES[i] for i in ids]

    def decode(self, pieces: list[list[int]]) -> list[str]:
        texts = []
        for ids in pieces:
            text = "".join(PIECES[i] for i in ids if i > EOS)
            texts.append(text.replace("▁", " ").replace("<0xF0>", "☺"))
        return texts


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([10, 11, 12, EOS], "The lawyer </s>"),
        ([BOS, 10, 11, 12, 13, 14, 15, EOS], "<s> The lawyer's , </s>"),
        ([16, 17, 18, 19, 20, 21, 21, EOS], "( T-shirt ) . . </s>"),
        ([22, 23, 10, EOS], "☺ The </s>"),
        ([24, 25, EOS], "its its </s>"),
        ([BOS], "<s>"),
    ],
)
def test_spaces_and_outer_punctuation_part_words(ids: list[int], words: str) -> None:
    shown = words_of(ShownVocabulary(), ids)
    assert " ".join(shown.texts) == words
    assert [place for span in shown.pieces for place in span] == list(range(len(ids)))
    pieces = words_of(ShownVocabulary(), ids, by_piece=True)
    assert pieces.texts == tuple(PIECES[i] for i in ids)


def test_key_pieces_are_summed_and_query_pieces_averaged() -> None:
    queries = Words(("a", "bc"), (range(1), range(1, 3)))
    keys = Words(("xy", "z"), (range(2), range(2, 3)))
    weights = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])[None, None]
    assert word_weights(weights, queries, keys)[0, 0].tolist() == [[0.75, 0.25], [0.75, 0.25]]


@pytest.mark.parametrize(("name", "place"), [("its", 1), ("its:1", 1), ("its:2", 3), ("8:2", 2)])
def test_a_number_names_the_second_of_equal_words(name: str, place: int) -> None:
    texts = ("The", "its", "8:2", "▁its")
    words = Words(texts, tuple(range(i, i + 1) for i in range(4)))
    assert position_of(words, name) == place


@pytest.mark.parametrize("name", ["it", "its:0", "its:3", "The:2", ":1", ""])
def test_a_word_that_is_not_there_lists_the_words(name: str) -> None:
    words = Words(("The", "its", "its"), tuple(range(i, i + 1) for i in range(3)))
    with pytest.raises(FaultyError, match=f'"{name}".*must be one of The its its'):
        position_of(words, name)
