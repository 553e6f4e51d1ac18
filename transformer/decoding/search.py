"""Beam search (section 6.1) with cached keys and values.

score = log P(Y) / ((5 + |Y|) / 6)^α, where |Y| counts end-of-sentence. Finished and unfinished hypotheses are kept
apart; one finishes where end-of-sentence is among the K best continuations. A sentence is done when no unfinished
hypothesis can still beat the worst of its kept finished ones, or at its own longest output.
Shape suffixes: B sentences still searched, K beam, P pieces, L output so far.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from transformer.config import DecodeConfig
from transformer.data.pieces import BOS, EOS, PAD
from transformer.model.encoder_decoder import Cache, Transformer


class Hypothesis(NamedTuple):
    """Piece ids without beginning- and end-of-sentence, and the length-normalised score in nats."""

    pieces: list[int]
    score: float


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """((5 + |Y|) / 6)^α."""
    return ((5 + length) / 6) ** alpha


@dataclass
class _Kept:
    """The best finished hypotheses of one sentence."""

    beam: int
    best: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis) -> None:
        self.best = sorted([*self.best, hypothesis], key=lambda h: -h.score)[: self.beam]

    def beaten_by(self, bound: float) -> bool:
        """Whether a score of ``bound`` would still be kept."""
        return len(self.best) < self.beam or bound > self.best[-1].score


@dataclass
class _Beams:
    """The unfinished hypotheses of the sentences still searched."""

    sentence_B: list[int]
    limit_B: Tensor  # longest output in pieces, end-of-sentence included
    score_BK: Tensor  # log P, −∞ for a hypothesis that does not exist
    pieces_BKL: Tensor
    cache: Cache

    def keep(self, going: list[int]) -> None:
        """Forget the sentences that are done."""
        rows = torch.tensor(going, dtype=torch.long, device=self.score_BK.device)
        beam = self.score_BK.shape[1]
        flat = (rows[:, None] * beam + torch.arange(beam, device=rows.device)).flatten()
        self.sentence_B = [self.sentence_B[row] for row in going]
        self.limit_B, self.score_BK = self.limit_B[rows], self.score_BK[rows]
        self.pieces_BKL, self.cache = self.pieces_BKL[rows], self.cache.select(flat)


@torch.no_grad()
def beam_search(model: Transformer, source_BS: Tensor, decode: DecodeConfig) -> list[list[Hypothesis]]:
    """The ``decode.beam`` best hypotheses of each sentence, best first.

    The longest output of a sentence is its own input + ``decode.max_extra`` pieces, both with end-of-sentence, and
    at most ``max_positions``. Where nothing finished by then, the best unfinished hypotheses are returned.
    """
    beams = _begin(model, source_BS, decode)
    kept = [_Kept(decode.beam) for _ in range(len(source_BS))]
    while beams.sentence_B:
        parents_BKL = beams.pieces_BKL
        finished_BK = _advance(beams, _next_log_probabilities(model, beams))
        _collect(beams, kept, finished_BK, parents_BKL, decode.alpha)
        going = _still_open(beams, kept, decode.alpha)
        if len(going) < len(beams.sentence_B):
            beams.keep(going)
    return [sentence.best for sentence in kept]


def _begin(model: Transformer, source_BS: Tensor, decode: DecodeConfig) -> _Beams:
    sentences, device = len(source_BS), source_BS.device
    rows = torch.arange(sentences, device=device).repeat_interleave(decode.beam)
    score_BK = torch.full((sentences, decode.beam), -math.inf, device=device)
    score_BK[:, 0] = 0.0
    limit_B = ((source_BS != PAD).sum(1) + decode.max_extra).clamp(max=model.config.max_positions)
    start_BKL = torch.full((sentences, decode.beam, 1), BOS, device=device)
    return _Beams(list(range(sentences)), limit_B, score_BK, start_BKL, model.start(source_BS).select(rows))


def _next_log_probabilities(model: Transformer, beams: _Beams) -> Tensor:
    last = beams.pieces_BKL[:, :, -1].flatten()
    logits = model.step(last, beams.cache).float()
    logits[:, [PAD, BOS]] = -math.inf
    return torch.log_softmax(logits, dim=-1).view(*beams.score_BK.shape, -1)


def _advance(beams: _Beams, log_p_BKP: Tensor) -> Tensor:
    """Grow to the best unfinished hypotheses; returns log P [B, K] of each old one that ends here, or −∞.

    A hypothesis ends where end-of-sentence is among the K best of all continuations. Each has one such
    continuation, so the 2K best hold at least K that go on.
    """
    sentences, beam, pieces = log_p_BKP.shape
    total_BKP, parents_BKL = beams.score_BK[:, :, None] + log_p_BKP, beams.pieces_BKL
    top = total_BKP.flatten(1).topk(2 * beam, dim=1)
    parent, piece = top.indices // pieces, top.indices % pieces
    ends = piece == EOS
    ending = top.values.masked_fill(~ends, -math.inf)[:, :beam]
    finished_BK = torch.full_like(beams.score_BK, -math.inf).scatter_reduce(1, parent[:, :beam], ending, "amax")
    going = ends.int().argsort(dim=1, stable=True)[:, :beam]
    parent_BK, piece_BK = parent.gather(1, going), piece.gather(1, going)
    grown = parents_BKL.gather(1, parent_BK[:, :, None].expand(-1, -1, parents_BKL.shape[2]))
    beams.pieces_BKL, beams.score_BK = torch.cat([grown, piece_BK[:, :, None]], dim=2), top.values.gather(1, going)
    first = torch.arange(sentences, device=parent_BK.device)[:, None] * beam
    beams.cache.reorder((first + parent_BK).flatten())
    return finished_BK


def _collect(beams: _Beams, kept: list[_Kept], finished_BK: Tensor, parents_BKL: Tensor, alpha: float) -> None:
    """Keep the hypotheses that end-of-sentence just finished."""
    length = beams.cache.length  # pieces of a hypothesis finished now, end-of-sentence included
    scores = (finished_BK / length_penalty(length, alpha)).tolist()
    for row, sentence in enumerate(beams.sentence_B):
        for rank, score in enumerate(scores[row]):
            if score > -math.inf and kept[sentence].beaten_by(score):
                kept[sentence].add(Hypothesis(parents_BKL[row, rank, 1:].tolist(), score))


def _still_open(beams: _Beams, kept: list[_Kept], alpha: float) -> list[int]:
    """The rows whose sentence another step could improve.

    log P only falls as a hypothesis grows, and the penalty only rises, so log P now over the penalty of the longest
    output bounds whatever an unfinished hypothesis can become.
    """
    best_B = beams.score_BK[:, 0]
    bounds = (best_B / length_penalty(beams.limit_B, alpha)).tolist()
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
