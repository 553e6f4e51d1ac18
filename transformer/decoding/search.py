"""Beam search (section 6.1) with cached keys and values.

score = log P(Y) / ((5 + |Y|) / 6)^α, where |Y| counts end-of-sentence. Finished and unfinished
hypotheses have separate lists; a hypothesis finishes if end-of-sentence is among the K best
continuations. A sentence is done when no unfinished hypothesis can beat the worst of its best
finished ones, or at its longest output. A beam of one is greedy for any α: it takes the likeliest
piece every time, until that is end-of-sentence.

Shape suffixes: B sentences still searched, K beam, P pieces, C candidates, S source, L output so
far.
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
class _Finished:
    """The ``limit`` best finished hypotheses of one sentence; greedy search keeps the first."""

    limit: int
    greedy: bool
    best: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis) -> None:
        """Insert a hypothesis, and drop the worst one beyond the limit."""
        ranking = sorted([*self.best, hypothesis], key=lambda hypothesis: -hypothesis.score)
        self.best = ranking[: self.limit]

    def accepts(self, score: float) -> bool:
        """Whether a hypothesis with this score would be among the best."""
        if len(self.best) < self.limit:
            return True
        return not self.greedy and score > self.best[-1].score


@dataclass
class _Beams:
    """The unfinished hypotheses of the sentences still in the search."""

    sentence_B: list[int]
    limit_B: Tensor  # longest output in pieces, end-of-sentence included
    score_BK: Tensor  # log P, −∞ for a hypothesis that does not exist
    pieces_BKL: Tensor
    parent_BK: Tensor  # the hypothesis of the last step that each extends
    cache: Cache  # in the order of the last step until ``keep``

    def keep(self, open_rows: list[int]) -> None:
        """Keep only these sentences, and reorder the cache to match their hypotheses."""
        rows = torch.tensor(open_rows, dtype=torch.long, device=self.score_BK.device)
        beam = self.score_BK.shape[1]
        outputs = (rows[:, None] * beam + self.parent_BK[rows]).flatten()
        if len(open_rows) < len(self.sentence_B):
            self.sentence_B = [self.sentence_B[row] for row in open_rows]
            self.limit_B = self.limit_B[rows]
            self.score_BK = self.score_BK[rows]
            self.pieces_BKL = self.pieces_BKL[rows]
            self.parent_BK = self.parent_BK[rows]
            self.cache.select(rows, outputs)
        elif beam > 1:
            self.cache.reorder(outputs)


@torch.no_grad()
def beam_search(
    model: Transformer,
    source_BS: Tensor,
    decode: DecodeConfig,
    n_best: int | None = None,
) -> list[list[Hypothesis]]:
    """The ``n_best`` best hypotheses of each sentence, best first.

    ``n_best`` is at most ``decode.beam``, its default. A smaller ``n_best`` ends the search
    earlier, with the same best hypotheses.

    The longest output of a sentence is its input + ``decode.max_extra`` pieces, both with
    end-of-sentence. Learned positions limit it to ``max_positions``, which no input may exceed. If
    no hypothesis has finished by then, the result is the best unfinished ones. Raises
    NotFiniteError with row numbers of ``source_BS``.
    """
    if not len(source_BS):
        return []
    beams = _start_beams(model, source_BS, decode)
    limit = n_best or decode.beam
    finished = [_Finished(limit, greedy=decode.beam == 1) for _ in range(len(source_BS))]
    while beams.sentence_B:
        parents_BKL = beams.pieces_BKL
        log_p_BC, parent_BC, piece_BC = _best_continuations(model, beams)
        finished_BK = _advance(beams, log_p_BC, parent_BC, piece_BC)
        _collect(beams, finished, finished_BK, parents_BKL, decode.alpha)
        beams.keep(_open_rows(beams, finished, decode.alpha))
    return [sentence.best for sentence in finished]


def _start_beams(model: Transformer, source_BS: Tensor, decode: DecodeConfig) -> _Beams:
    """One empty hypothesis per sentence, and K − 1 that do not exist."""
    sentences = len(source_BS)
    device = source_BS.device
    score_BK = torch.full((sentences, decode.beam), -math.inf, device=device)
    score_BK[:, 0] = 0.0
    limit_B = (source_BS != PAD).sum(1) + decode.max_extra
    if model.config.longest_sequence is not None:
        limit_B = limit_B.clamp(max=model.config.longest_sequence)
    start_BKL = torch.full((sentences, decode.beam, 1), BOS, device=device)
    parent_BK = torch.zeros((sentences, decode.beam), dtype=torch.long, device=device)
    return _Beams(
        sentence_B=list(range(sentences)),
        limit_B=limit_B,
        score_BK=score_BK,
        pieces_BKL=start_BKL,
        parent_BK=parent_BK,
        cache=model.start(source_BS),
    )


def _best_continuations(model: Transformer, beams: _Beams) -> tuple[Tensor, Tensor, Tensor]:
    """The 2K best continuations of each sentence, best first: three tensors [B, C].

    They hold log P, the hypothesis that is continued, and the piece. The 2K best of a sentence are
    among the 2K best of each hypothesis.
    """
    logits_BKP = model.step(beams.pieces_BKL[:, :, -1], beams.cache).float()
    logits_BKP[..., [PAD, BOS]] = -math.inf
    candidates = 2 * beams.score_BK.shape[1]
    next_pieces = min(candidates, logits_BKP.shape[-1])
    by_hypothesis = torch.log_softmax(logits_BKP, dim=-1).topk(next_pieces)
    log_p_BKC = beams.score_BK[:, :, None] + by_hypothesis.values
    best = log_p_BKC.flatten(1).topk(candidates)
    parent_BC = best.indices // next_pieces
    piece_BC = by_hypothesis.indices.flatten(1).gather(1, best.indices)
    return best.values, parent_BC, piece_BC


def _advance(beams: _Beams, log_p_BC: Tensor, parent_BC: Tensor, piece_BC: Tensor) -> Tensor:
    """Extend the beams to the best unfinished hypotheses.

    Returns log P [B, K] of each former hypothesis that ends here, and −∞ for the rest. A hypothesis
    ends if end-of-sentence is among the K best of all continuations. Each hypothesis has one such
    continuation, so at least K of the 2K best continue.
    """
    beam = beams.score_BK.shape[1]
    former_BKL = beams.pieces_BKL
    ends_BC = piece_BC == EOS
    ending_BK = log_p_BC.masked_fill(~ends_BC, -math.inf)[:, :beam]
    none_BK = torch.full_like(beams.score_BK, -math.inf)
    finished_BK = none_BK.scatter_reduce(1, parent_BC[:, :beam], ending_BK, "amax")
    unfinished_BK = ends_BC.int().argsort(dim=1, stable=True)[:, :beam]
    beams.score_BK = log_p_BC.gather(1, unfinished_BK)
    beams.parent_BK = parent_BC.gather(1, unfinished_BK)
    parent_BKL = beams.parent_BK[:, :, None].expand(-1, -1, former_BKL.shape[2])
    piece_BK1 = piece_BC.gather(1, unfinished_BK)[:, :, None]
    beams.pieces_BKL = torch.cat([former_BKL.gather(1, parent_BKL), piece_BK1], dim=2)
    return finished_BK


def _collect(
    beams: _Beams,
    finished: list[_Finished],
    finished_BK: Tensor,
    parents_BKL: Tensor,
    alpha: float,
) -> None:
    """Add the hypotheses that just finished to those of their sentences."""
    length = beams.cache.length  # pieces of a hypothesis finished now, end-of-sentence included
    scores = (finished_BK / length_penalty(length, alpha)).tolist()
    parents_BKL = parents_BKL.cpu()  # one copy: reading hypotheses from a GPU would wait each time
    for row, sentence in enumerate(beams.sentence_B):
        for rank, score in enumerate(scores[row]):
            if score > -math.inf and finished[sentence].accepts(score):
                pieces = parents_BKL[row, rank, 1:].tolist()
                finished[sentence].add(Hypothesis(pieces, score))


def _open_rows(beams: _Beams, finished: list[_Finished], alpha: float) -> list[int]:
    """The rows of sentences that one more step could improve.

    A sentence at its longest output without a finished hypothesis gets its unfinished ones.

    As a hypothesis grows, log P only falls and the penalty only rises. So the current log P over
    the penalty of the longest output is an upper bound of its score. ``topk`` puts NaN first, so
    the best score reveals any NaN. Raises NotFiniteError.
    """
    best_B = beams.score_BK[:, 0]
    bounds = (best_B / length_penalty(beams.limit_B, alpha)).tolist()
    not_finite = [beams.sentence_B[row] for row, bound in enumerate(bounds) if math.isnan(bound)]
    if not_finite:
        raise NotFiniteError(not_finite)
    limits = beams.limit_B.tolist()
    open_rows = []
    for row, sentence in enumerate(beams.sentence_B):
        if beams.cache.length >= limits[row]:
            _keep_unfinished(beams, finished[sentence], row, alpha)
        elif finished[sentence].accepts(bounds[row]):
            open_rows.append(row)
    return open_rows


def _keep_unfinished(beams: _Beams, finished: _Finished, row: int, alpha: float) -> None:
    """Add the row's unfinished hypotheses, unless one has finished."""
    if finished.best:
        return
    penalty = length_penalty(beams.cache.length, alpha)
    for rank, log_p in enumerate(beams.score_BK[row].tolist()):
        if log_p > -math.inf:
            pieces = beams.pieces_BKL[row, rank, 1:].tolist()
            finished.add(Hypothesis(pieces, log_p / penalty))
