"""What attention does while it trains: the spread of its logits, and the entropy of its weights.

Both are measured on the first sentences of dev, without dropout. Large logits make a softmax that
hardly lets gradients through (section 3.2.1). Shape suffixes as in ``model/attention.py``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.config import Precision
from transformer.data.batches import Batch, evaluation_batches
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.model.attention import Observer
from transformer.model.encoder_decoder import Transformer
from transformer.model.observation import Attention, attentions_by_place, observed
from transformer.training.precision import autocast
from transformer.training.worker_group import Worker

SENTENCES = 50


@dataclass
class _Sums:
    """Sums over queries, heads and layers of one place, on the device."""

    spread: Tensor
    entropy: Tensor
    queries: Tensor

    def observer(self, real_BT: Tensor) -> Observer:
        """Adds the queries that are not padding, as ``real_BT`` says."""

        def observe(logits_BHTS: Tensor, weights_BHTS: Tensor) -> None:
            real_BHT = real_BT[:, None].expand(weights_BHTS.shape[:3])
            spread_BHT = _spread(logits_BHTS.float())
            entropy_BHT = torch.special.entr(weights_BHTS).sum(-1)
            self.spread += (spread_BHT * real_BHT).sum()
            self.entropy += (entropy_BHT * real_BHT).sum()
            self.queries += real_BHT.sum()

        return observe


def _spread(logits_BHTS: Tensor) -> Tensor:
    """The standard deviation [B, H, T] of each query's logits over the keys that it may read."""
    legal_BHTS = logits_BHTS.isfinite()
    keys_BHT1 = legal_BHTS.sum(-1, keepdim=True)
    mean_BHT1 = logits_BHTS.masked_fill(~legal_BHTS, 0).sum(-1, keepdim=True) / keys_BHT1
    deviation_BHTS = (logits_BHTS - mean_BHT1).masked_fill(~legal_BHTS, 0)
    variance_BHT = deviation_BHTS.square().sum(-1) / keys_BHT1[..., 0]
    return variance_BHT.sqrt()


def attention_metrics(
    model: Transformer,
    pairs: ParallelSet,
    precision: Precision,
    worker: Worker,
) -> dict[str, float]:
    """Means over the queries, heads and layers of each place that has attention.

    Places are ``encoder``, ``decoder`` and ``cross``, the decoder's attention to the encoder.
    ``attention/<place>_logit_sd`` is the standard deviation of a query's logits over its keys.
    ``attention/<place>_entropy`` is the entropy of a query's weights over its keys, in nats. Only
    rank 0 measures, since only its reports are recorded. ``model`` is in evaluation mode.
    """
    metrics: dict[str, float] = {}
    if not worker.is_rank_zero:
        return metrics
    for place, sums in _sums_by_place(model, pairs, precision, worker).items():
        metrics[f"attention/{place}_logit_sd"] = float(sums.spread / sums.queries)
        metrics[f"attention/{place}_entropy"] = float(sums.entropy / sums.queries)
    return metrics


@torch.no_grad()
def _sums_by_place(
    model: Transformer,
    pairs: ParallelSet,
    precision: Precision,
    worker: Worker,
) -> dict[str, _Sums]:
    """The sums of each place with attention, over the first sentences of ``pairs``."""
    places = attentions_by_place(model)
    sums_by_place = {place: _Sums(*torch.zeros(3, device=worker.device)) for place in places}
    first = ParallelSet(pairs.source.first(SENTENCES), pairs.target.first(SENTENCES))
    for _, batch in evaluation_batches(first, worker.tokens_per_micro_batch):
        batch_here = batch.to(worker.device)
        observers = _observers(places, batch_here, sums_by_place)
        with observed(observers), autocast(precision, worker.device):
            model(batch_here.source, batch_here.shifted, batch_here.source_padded)
    return sums_by_place


def _observers(
    places: dict[str, list[Attention]],
    batch: Batch,
    sums_by_place: dict[str, _Sums],
) -> dict[Attention, Observer]:
    """For each attention an observer that adds to the sums of its place."""
    observers: dict[Attention, Observer] = {}
    for place, attentions in places.items():
        queries = batch.source if place == "encoder" else batch.target
        observer = sums_by_place[place].observer(queries != PAD)
        observers |= dict.fromkeys(attentions, observer)
    return observers
