"""A sentence and its translation through the model, and what each kind of attention reads there."""

from collections.abc import Mapping

import torch

from transformer.data.prepared import Sentences
from transformer.data.vocabulary import BOS, EOS
from transformer.decoding.translator import Translator, best_texts, search
from transformer.pictures.choice import Kind
from transformer.pictures.reading import Pair, Reading
from transformer.pictures.text import pieces_of
from transformer.pictures.weights import attention_weights
from transformer.pictures.words import word_weights, words_of
from transformer.training.precision import autocast

SENTENCE = "SENTENCE"
TARGET = "--target"


def read_pair(translator: Translator, sentence: str, target: str | None) -> Pair:
    """The sentence, with this target or else the model's own translation.

    Raises FaultyError for text that is empty, or that does not fit the positions.
    """
    longest = translator.model.config.max_positions
    source = pieces_of(translator.vocabulary, SENTENCE, sentence, longest)
    if target is not None:
        pieces = pieces_of(translator.vocabulary, TARGET, target, longest)
        return Pair(source, pieces, target, False)
    with translator.efficient():
        ((_, best),) = search(translator, Sentences.of([source]), n_best=1)
    (text,) = best_texts(translator.vocabulary, best[:1])
    pieces = best[0].pieces
    if translator.model.config.longest_sequence is not None:
        pieces = pieces[: longest - 1]  # one that did not finish leaves no position for its end
    return Pair(source, [*pieces, EOS], text, True)


def readings(translator: Translator, pair: Pair, by_piece: bool = False) -> Mapping[Kind, Reading]:
    """What each kind of attention of the model reads, over words or ``by_piece``."""
    shifted = [BOS, *pair.target[:-1]]
    source_BS = torch.tensor([pair.source], device=translator.device)
    shifted_BT = torch.tensor([shifted], device=translator.device)
    with translator.efficient(), autocast(translator.precision, translator.device):
        weights = attention_weights(translator.model, source_BS, shifted_BT)
    vocabulary = translator.vocabulary
    source = words_of(vocabulary, pair.source, by_piece)
    read = words_of(vocabulary, shifted, by_piece)
    written = words_of(vocabulary, pair.target, by_piece)
    sides = {
        Kind.encoder: (source, source),
        Kind.decoder: (read, read),
        Kind.cross: (written, source),
    }
    by_kind: dict[Kind, Reading] = {}
    for kind, (queries, keys) in sides.items():
        if kind in weights:
            weights_LHTS = weights[kind][:, 0].double().numpy()
            by_kind[kind] = Reading(queries, keys, word_weights(weights_LHTS, queries, keys))
    return by_kind
