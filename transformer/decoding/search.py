"""Beam search (section 6.1) with cached keys and values.

score = log P(Y) / ((5 + |Y|) / 6)^α, where |Y| counts end-of-sentence. Finished and unfinished hypotheses are kept
separately; one finishes if end-of-sentence is among the K best continuations. A sentence is done when no unfinished
hypothesis can beat the worst of its kept finished ones, or at its longest output. A beam of one is greedy for any α:
it takes the likeliest piece every time, until that is end-of-sentence.
Shape suffixes: B sentences still searched, K beam, P pieces, C candidates, S source, L output so far.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.config import DecodeConfig
from transformer.data.vocabulary import BOS, EOS, PAD
from transformer.faults import NotFiniteError
from transformer.model.encoder_decoder import Cache, Transformer


class Hypothesis(NamedTuple):
    """Piece ids without beginning- and end-of-sentence, and the length-normalized score in nats."""

    pieces: list[int]
    score: float


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """((5 + |Y|) / 6)^α."""
    return ((5 + length) / 6) ** alpha


@dataclass
class _Kept:
    """The ``most`` best finished hypotheses of one sentence; greedy search keeps the first."""

    most: int
    greedy: bool
    best: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis) -> None:
        self.best = sorted([*self.best, hypothesis], key=lambda h: -h.score)[: self.most]

    def beaten_by(self, bound: float) -> bool:
        """Whether a score of ``bound`` would still be kept."""
        if len(self.best) < self.most:
            return True
        return not self.greedy and bound > self.best[-1].score


@dataclass
class _Beams:
    """The unfinished hypotheses of the sentences still in the search."""

    sentence_B: list[int]
    limit_B: Tensor  # longest output in pieces, end-of-sentence included
    score_BK: Tensor  # log P, −∞ for a hypothesis that does not exist
    pieces_BKL: Tensor
    parent_BK: Tensor  # the last step's hypothesis that each extends: the cache's order until ``keep``
    cache: Cache

    def keep(self, going: list[int]) -> None:
        """Drop the sentences that are done, and reorder the cache to match the remaining hypotheses."""
        rows = torch.tensor(going, dtype=torch.long, device=self.score_BK.device)
        beam = self.score_BK.shape[1]
        outputs = (rows[:, None] * beam + self.parent_BK[rows]).flatten()
        if len(going) < len(self.sentence_B):
            self.sentence_B = [self.sentence_B[row] for row in going]
            self.limit_B, self.score_BK = self.limit_B[rows], self.score_BK[rows]
            self.pieces_BKL, self.parent_BK = self.pieces_BKL[rows], self.parent_BK[rows]
            self.cache.select(rows, outputs)
        elif beam > 1:
            self.cache.reorder(outputs)


@torch.no_grad()
def beam_search(
    model: Transformer, source_BS: Tensor, decode: DecodeConfig, n_best: int | None = None
) -> list[list[Hypothesis]]:
    """The ``n_best`` best hypotheses of each sentence, best first: at most ``decode.beam``, which is the default.

    A smaller ``n_best`` ends the search earlier, with the same best hypotheses.

    The longest output of a sentence is its input + ``decode.max_extra`` pieces, both with end-of-sentence, and at most
    ``max_positions``, which no input may exceed. If no hypothesis has finished by then, the best unfinished ones are
    returned. Raises NotFiniteError with row numbers of ``source_BS``.
    """
    if not len(source_BS):
        return []
    beams = _begin(model, source_BS, decode)
    kept = [_Kept(n_best or decode.beam, greedy=decode.beam == 1) for _ in range(len(source_BS))]
    while beams.sentence_B:
        parents_BKL = beams.pieces_BKL
        finished_BK = _advance(beams, *_best_continuations(model, beams))
        _collect(beams, kept, finished_BK, parents_BKL, decode.alpha)
        beams.keep(_still_open(beams, kept, decode.alpha))
    return [sentence.best for sentence in kept]


def _begin(model: Transformer, source_BS: Tensor, decode: DecodeConfig) -> _Beams:
    sentences, device = len(source_BS), source_BS.device
    score_BK = torch.full((sentences, decode.beam), -math.inf, device=device)
    score_BK[:, 0] = 0.0
    limit_B = ((source_BS != PAD).sum(1) + decode.max_extra).clamp(max=model.config.max_positions)
    start_BKL = torch.full((sentences, decode.beam, 1), BOS, device=device)
    parent_BK = torch.zeros((sentences, decode.beam), dtype=torch.long, device=device)
    return _Beams(list(range(sentences)), limit_B, score_BK, start_BKL, parent_BK, model.start(source_BS))


def _best_continuations(model: Transformer, beams: _Beams) -> tuple[Tensor, Tensor, Tensor]:
    """The 2K best of each sentence, best first: log P, the hypothesis that each continues, and its piece.

    They are among the 2K best of each hypothesis.
    """
    logits_BKP = model.step(beams.pieces_BKL[:, :, -1], beams.cache).float()
    logits_BKP[..., [PAD, BOS]] = -math.inf
    candidates = 2 * beams.score_BK.shape[1]
    each = torch.log_softmax(logits_BKP, dim=-1).topk(min(candidates, logits_BKP.shape[-1]))
    log_p_BKC = beams.score_BK[:, :, None] + each.values
    best = log_p_BKC.flatten(1).topk(candidates)
    return best.values, best.indices // log_p_BKC.shape[2], each.indices.flatten(1).gather(1, best.indices)


def _advance(beams: _Beams, log_p_BC: Tensor, parent_BC: Tensor, piece_BC: Tensor) -> Tensor:
    """Extend to the best unfinished hypotheses; returns log P [B, K] of each old one that ends here, or −∞.

    A hypothesis ends if end-of-sentence is among the K best of all continuations. Each has one such
    continuation, so at least K of the 2K best continue.
    """
    beam, parents_BKL = beams.score_BK.shape[1], beams.pieces_BKL
    ends_BC = piece_BC == EOS
    ending_BK = log_p_BC.masked_fill(~ends_BC, -math.inf)[:, :beam]
    finished_BK = torch.full_like(beams.score_BK, -math.inf).scatter_reduce(1, parent_BC[:, :beam], ending_BK, "amax")
    going_BK = ends_BC.int().argsort(dim=1, stable=True)[:, :beam]
    beams.score_BK, beams.parent_BK = log_p_BC.gather(1, going_BK), parent_BC.gather(1, going_BK)
    grown_BKL = parents_BKL.gather(1, beams.parent_BK[:, :, None].expand(-1, -1, parents_BKL.shape[2]))
    beams.pieces_BKL = torch.cat([grown_BKL, piece_BC.gather(1, going_BK)[:, :, None]], dim=2)
    return finished_BK


def _collect(beams: _Beams, kept: list[_Kept], finished_BK: Tensor, parents_BKL: Tensor, alpha: float) -> None:
    """Collect the hypotheses that just finished."""
    length = beams.cache.length  # pieces of a hypothesis finished now, end-of-sentence included
    scores = (finished_BK / length_penalty(length, alpha)).tolist()
    parents_BKL = parents_BKL.cpu()  # at once: each hypothesis read from a GPU would wait for it
    for row, sentence in enumerate(beams.sentence_B):
        for rank, score in enumerate(scores[row]):
            if score > -math.inf and kept[sentence].beaten_by(score):
                kept[sentence].add(Hypothesis(parents_BKL[row, rank, 1:].tolist(), score))


def _still_open(beams: _Beams, kept: list[_Kept], alpha: float) -> list[int]:
    """The rows of sentences that another step could improve.

    As a hypothesis grows, log P only falls and the penalty only rises. So the current log P over the penalty of the
    longest output is an upper bound of its score. ``topk`` puts NaN first, so the best score reveals any NaN.
    Raises NotFiniteError.
    """
    best_B = beams.score_BK[:, 0]
    bounds = (best_B / length_penalty(beams.limit_B, alpha)).tolist()
    lost = [sentence for sentence, bound in zip(beams.sentence_B, bounds, strict=True) if math.isnan(bound)]
    if lost:
        raise NotFiniteError(lost)
    going = []
    for row, (sentence, limit) in enumerate(zip(beams.sentence_B, beams.limit_B.tolist(), strict=True)):
        if beams.cache.length >= limit:
            _keep_unfinished(beams, kept[sentence], row, alpha)
        elif kept[sentence].beaten_by(bounds[row]):
            going.append(row)
    return going


def _keep_unfinished(beams: _Beams, kept: _Kept, row: int, alpha: float) -> None:
    if kept.best:
        return
    penalty = length_penalty(beams.cache.length, alpha)
    for rank, log_p in enumerate(beams.score_BK[row].tolist()):
        if log_p > -math.inf:
            kept.add(Hypothesis(beams.pieces_BKL[row, rank, 1:].tolist(), log_p / penalty))
