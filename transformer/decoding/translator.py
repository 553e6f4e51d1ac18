"""Translates many sentences: batches of similar lengths, results in the order of the sources.

A source with no piece except end-of-sentence translates to an empty line without running the model.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from transformer.config import TOKENS_PER_SEARCH, DecodeConfig, Precision
from transformer.data.batches import by_length, cut, pad
from transformer.data.prepared import ParallelSet, Sentences
from transformer.data.vocabulary import EOS, Vocabulary
from transformer.decoding.search import Hypothesis, beam_search
from transformer.faults import NotFiniteError
from transformer.model.encoder_decoder import Transformer
from transformer.training.precision import autocast, efficient

EMPTY = Hypothesis([], 0.0)


@dataclass(frozen=True)
class Translation:
    """One line of text, and its length-normalized log-probability in nats."""

    text: str
    score: float


@dataclass(frozen=True)
class Translator:
    """A trained model in evaluation mode, with its vocabulary and decode settings."""

    model: Transformer
    vocabulary: Vocabulary
    decode: DecodeConfig
    precision: Precision

    @property
    def device(self) -> torch.device:
        return self.model.embedding.device

    def efficient(self) -> AbstractContextManager[None]:
        """A context in which the model runs as fast as its precision allows on its device."""
        return efficient(self.model.config, self.precision, self.device)

    def translate(self, lines: list[str]) -> list[str]:
        """The best translation of each line; a line beyond ``longest_line`` is cut there."""
        with self.efficient():
            sources, _ = self.sources(lines)
            return [best[0].text for best in self.translations(sources, n_best=1)]

    def sources(self, lines: list[str]) -> tuple[list[list[int]], list[int]]:
        """Piece ids of each line, and the numbers of the lines that were cut.

        A line is cut if it has more pieces than the model's ``longest_line``.
        """
        longest = self.model.config.longest_line
        sources: list[list[int]] = []
        cut_lines: list[int] = []
        for number, pieces in enumerate(self.vocabulary.encode(lines)):
            if len(pieces) > longest:
                cut_lines.append(number)
                sources.append([*pieces[: longest - 1], EOS])
            else:
                sources.append(pieces)
        return sources, cut_lines

    def translations(
        self,
        sources: list[list[int]],
        n_best: int | None = None,
    ) -> Iterator[list[Translation]]:
        """The ``n_best`` best translations of each source (by default the beam), best first.

        Yields in the order of the sources, as soon as each is ready. Raises NotFiniteError.
        """
        waiting: dict[int, list[Translation]] = {}
        next_number = 0
        for number, hypotheses in search(self, Sentences.of(sources), n_best=n_best):
            texts = best_texts(self.vocabulary, hypotheses)
            scores = [hypothesis.score for hypothesis in hypotheses]
            waiting[number] = list(map(Translation, texts, scores))
            while next_number in waiting:
                yield waiting.pop(next_number)
                next_number += 1


@torch.no_grad()
def search(
    translator: Translator,
    sources: Sentences,
    rank: int = 0,
    world: int = 1,
    n_best: int | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The number and the ``n_best`` hypotheses of each source, in the order of decoding.

    ``world`` workers share the sources. ``n_best`` is the beam by default; fewer take less time.
    Raises NotFiniteError.
    """
    pairs = ParallelSet(sources, sources)
    order = by_length(pairs, np.arange(len(sources)))
    is_empty = sources.lengths[order] <= 1
    if rank == 0:
        for number in order[is_empty]:
            yield int(number), [EMPTY]
    limit = TOKENS_PER_SEARCH[translator.device.type]
    for numbers in cut(pairs, order[~is_empty], limit)[rank::world]:
        source = pad(sources, numbers).to(translator.device)
        try:
            with autocast(translator.precision, translator.device):
                batch = beam_search(translator.model, source, translator.decode, n_best)
        except NotFiniteError as error:
            raise NotFiniteError(int(numbers[row]) for row in error.places) from error
        for number, hypotheses in zip(numbers, batch, strict=True):
            yield int(number), hypotheses


def best_texts(vocabulary: Vocabulary, best: Sequence[Hypothesis]) -> list[str]:
    """The text of each hypothesis, on one line: every kind of line break becomes a space."""
    texts = vocabulary.decode([hypothesis.pieces for hypothesis in best])
    return [" ".join(text.splitlines()) for text in texts]
