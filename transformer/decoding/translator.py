"""Translates many sentences: batches of similar lengths, results in the order of the sources.

A source with no piece except end-of-sentence translates to an empty line without running the model.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from transformer.config import DecodeConfig, Precision
from transformer.data.batches import by_length, cut, pad
from transformer.data.prepared import ParallelSet, Sentences
from transformer.data.vocabulary import EOS, Vocabulary
from transformer.decoding.search import Hypothesis, beam_search
from transformer.faults import NotFiniteError
from transformer.model.encoder_decoder import Transformer
from transformer.training.precision import autocast, efficient

TOKENS_PER_BATCH = {"cpu": 2_000, "cuda": 16_000}
"""Sentences × longest source. A GPU takes hardly longer for more sentences, up to the memory of their logits."""
EMPTY = Hypothesis([], 0.0)


@dataclass(frozen=True)
class Translation:
    """One line of text, and its length-normalized log-probability in nats."""

    text: str
    score: float


@dataclass(frozen=True)
class Translator:
    """A trained model in evaluation mode, with its decode settings; ``precision`` is "fp32" or "bf16"."""

    model: Transformer
    vocabulary: Vocabulary
    decode: DecodeConfig
    precision: Precision

    @property
    def device(self) -> torch.device:
        return self.model.embedding.device

    def efficient(self) -> AbstractContextManager[None]:
        """Within it, the model computes as fast as its precision allows on its device."""
        return efficient(self.model.config, self.precision, self.device)

    def translate(self, lines: list[str]) -> list[str]:
        """The best translation of each line; a line longer than the model's positions is cut there."""
        with self.efficient():
            return [best[0].text for best in self.translations(self.sources(lines)[0], n_best=1)]

    def sources(self, lines: list[str]) -> tuple[list[list[int]], list[int]]:
        """Piece ids of each line, and the numbers of the lines that were cut to the model's positions."""
        longest = self.model.config.max_positions
        encoded = self.vocabulary.encode(lines)
        long = [place for place, pieces in enumerate(encoded) if len(pieces) > longest]
        return [pieces if len(pieces) <= longest else [*pieces[: longest - 1], EOS] for pieces in encoded], long

    def translations(self, sources: list[list[int]], n_best: int | None = None) -> Iterator[list[Translation]]:
        """The ``n_best`` best translations of each source (by default the beam), best first.

        Yields in the order of the sources, as soon as each is ready. Raises NotFiniteError.
        """
        known: dict[int, list[Translation]] = {}
        following = 0
        for place, hypotheses in search(self, Sentences.of(sources), n_best=n_best):
            texts = best_texts(self.vocabulary, hypotheses)
            known[place] = [Translation(text, each.score) for text, each in zip(texts, hypotheses, strict=True)]
            while following in known:
                yield known.pop(following)
                following += 1


@torch.no_grad()
def search(
    translator: Translator, sources: Sentences, rank: int = 0, world: int = 1, n_best: int | None = None
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The number and the hypotheses of each source, in the order of decoding; ``world`` workers share the work.

    ``n_best`` hypotheses per source, by default the beam; fewer are found sooner.
    Raises NotFiniteError.
    """
    pairs = ParallelSet(sources, sources)
    order = by_length(pairs, np.arange(len(sources)))
    silent = sources.lengths[order] <= 1
    if rank == 0:
        yield from ((int(place), [EMPTY]) for place in order[silent])
    for places in cut(pairs, order[~silent], TOKENS_PER_BATCH[translator.device.type])[rank::world]:
        source = pad(sources, places).to(translator.device)
        try:
            with autocast(translator.precision, translator.device):
                found = beam_search(translator.model, source, translator.decode, n_best)
        except NotFiniteError as error:
            raise NotFiniteError(int(places[row]) for row in error.places) from error
        yield from ((int(place), hypotheses) for place, hypotheses in zip(places, found, strict=True))


def best_texts(vocabulary: Vocabulary, best: Sequence[Hypothesis]) -> list[str]:
    """The text of each hypothesis, on one line: every kind of line break becomes a space, for any reader."""
    texts = vocabulary.decode([hypothesis.pieces for hypothesis in best])
    return [" ".join(text.splitlines()) for text in texts]
