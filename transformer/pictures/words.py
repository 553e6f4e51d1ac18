"""Pieces joined into words, and the weights of a word from those of its pieces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transformer.data.vocabulary import BOS, EOS, PAD, Vocabulary
from transformer.faults import Fault, FaultyError

Weights = npt.NDArray[np.float64]
CONTROL = (PAD, BOS, EOS)
WORD_START = "▁"
"""Begins each piece that has a space before it."""


@dataclass(frozen=True)
class Words:
    """The words of a sentence in order, each with the positions of its pieces."""

    texts: tuple[str, ...]
    pieces: tuple[range, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def membership(self) -> Weights:
        """[words, pieces]: 1 where the piece belongs to the word, otherwise 0."""
        members = np.zeros((len(self), self.pieces[-1].stop))
        for word, positions in enumerate(self.pieces):
            members[word, positions.start : positions.stop] = 1
        return members


def words_of(vocabulary: Vocabulary, ids: list[int], by_piece: bool = False) -> Words:
    """The words of these pieces; ``by_piece``, each piece counts as a word.

    A space begins a word. Punctuation around a word stands by itself, and so do ``<s>`` and
    ``</s>``.
    """
    pieces = vocabulary.pieces(ids)
    if by_piece:
        return Words(tuple(pieces), tuple(range(i, i + 1) for i in range(len(pieces))))
    spans = tuple(_spans(ids, pieces))
    texts: list[str] = []
    for span in spans:
        (text,) = vocabulary.decode([ids[span.start : span.stop]])
        texts.append(text.strip() or "".join(pieces[span.start : span.stop]))
    return Words(tuple(texts), spans)


def word_weights(weights_LHTS: Weights, queries: Words, keys: Words) -> Weights:
    """[layers, heads, queries, keys] of words, from those of pieces.

    A word reads what its pieces read on average, and is read as much as its pieces together. So the
    weights of each query still sum to 1.
    """
    members_QT = queries.membership()
    mean_QT = members_QT / members_QT.sum(1, keepdims=True)
    weights_LHQK: Weights = mean_QT @ weights_LHTS @ keys.membership().T
    return weights_LHQK


def position_of(words: Words, name: str) -> int:
    """The position of the word ``making``, or of the second ``its`` for ``its:2``.

    Raises FaultyError, which lists the words.
    """
    texts = [text.removeprefix(WORD_START) for text in words.texts]
    positions = _positions(words, texts, name)
    if positions:
        return positions[0]
    text, _, number = name.rpartition(":")
    positions = _positions(words, texts, text)
    if number.isdecimal() and 0 < int(number) <= len(positions):
        return positions[int(number) - 1]
    problem = f'names "{name}"'
    if positions and number.isdecimal():
        problem = f'names "{name}", but the sentence has {len(positions)} of "{text}"'
    raise FaultyError(Fault("--word", problem, f"must be one of {' '.join(words.texts)}"))


def _positions(words: Words, texts: Sequence[str], name: str) -> list[int]:
    """The positions of the words with this text, with or without the mark of their space."""
    return [
        position for position, text in enumerate(texts) if name in (text, words.texts[position])
    ]


def _spans(ids: Sequence[int], pieces: Sequence[str]) -> Iterator[range]:
    """The positions of each word's pieces."""
    starts = [position for position in range(len(ids)) if _begins(ids, pieces, position)]
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        yield from _without_marks(pieces, range(start, end))


def _begins(ids: Sequence[int], pieces: Sequence[str], position: int) -> bool:
    """Whether a space, the sentence's start or a control piece separates it from what is before."""
    if position == 0 or pieces[position].startswith(WORD_START):
        return True
    return ids[position] in CONTROL or ids[position - 1] in CONTROL


def _without_marks(pieces: Sequence[str], span: range) -> Iterator[range]:
    """The word in this span, and the punctuation before and after it, mark by mark."""
    start = span.start
    end = span.stop
    while start < end and _is_mark(pieces[start]):
        yield range(start, start + 1)
        start += 1
    last_mark = end
    while start < end and _is_mark(pieces[end - 1]):
        end -= 1
    if start < end:
        yield range(start, end)
    for position in range(end, last_mark):
        yield range(position, position + 1)


def _is_mark(piece: str) -> bool:
    """Whether the piece is only punctuation."""
    text = piece.removeprefix(WORD_START)
    return bool(text) and not any(letter.isalnum() for letter in text)
