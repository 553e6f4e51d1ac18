"""The likelihood of the references under a model: teacher forcing, without smoothing or dropout (section 6.1).

Shape suffixes: B sentences, T target, D d_model, N target pieces that are not padding.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.config import Precision
from transformer.data.batches import Batch, evaluation_batches
from transformer.data.pieces import PAD
from transformer.data.prepare import ParallelSet
from transformer.finite import NotFiniteError
from transformer.model.encoder_decoder import Transformer
from transformer.training.parallel import Worker
from transformer.training.precision import autocast

LOGITS_AT_ONCE = 4_000_000


@torch.no_grad()
def sentence_nats(model: Transformer, pairs: ParallelSet, precision: Precision, worker: Worker) -> list[float]:
    """−log P of each target in nats, end-of-sentence included; the workers share the work, and each gets all results.

    ``model`` is in evaluation mode. Raises NotFiniteError and StopRequested, on every worker.
    """
    everything = sorted(worker.gather_unless_stopped(_own_nats(model, pairs, precision, worker)))
    if lost := [place for place, nats in everything if not math.isfinite(nats)]:
        raise NotFiniteError(lost)
    return [nats for _, nats in everything]


def _own_nats(
    model: Transformer, pairs: ParallelSet, precision: Precision, worker: Worker
) -> Iterator[tuple[int, float]]:
    """The number and the nats of each sentence of this worker's share."""
    for places, batch in evaluation_batches(pairs, worker.tokens_per_micro_batch, worker.rank, worker.world):
        with autocast(precision, worker.device):
            nats_B = _batch_nats(model, batch.to(worker.device))
        yield from zip(places.tolist(), nats_B.tolist(), strict=True)


def mean_nll(nats: list[float], pairs: ParallelSet) -> float:
    """Nats per target piece over the whole set, not a mean over sentences or batches."""
    return math.fsum(nats) / int(pairs.target.lengths.sum())


def perplexity(nll: float) -> float:
    """e^nll, capped so that it is finite: beyond e^700 a float is infinite."""
    return math.exp(min(nll, 700.0))


def _batch_nats(model: Transformer, batch: Batch) -> Tensor:
    """[B] float64; the logits of a few pieces are in memory at a time."""
    real_BT = batch.target != PAD
    output_ND, gold_N = model(batch.source, batch.shifted, batch.source_padded)[real_BT], batch.target[real_BT]
    rows = max(1, LOGITS_AT_ONCE // model.vocab_size)
    nats = [
        F.cross_entropy(model.logits(output).float(), gold, reduction="none")
        for output, gold in zip(output_ND.split(rows), gold_N.split(rows), strict=True)
    ]
    total_B = torch.zeros(len(batch.target), dtype=torch.float64, device=gold_N.device)
    return total_B.index_add(0, real_BT.nonzero()[:, 0], torch.cat(nats).double())
