"""What attention does while it trains: the spread of its logits, and the entropy of its weights.

Both are measured on the first sentences of dev, without dropout. Large logits make a softmax that
hardly lets gradients through (section 3.2.1). Shape suffixes as in ``model/attention.py``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer.config import Precision
from transformer.data.batches import Batch, evaluation_batches
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.model.attention import Observer, SelfAttention
from transformer.model.encoder_decoder import Transformer
from transformer.training.precision import autocast
from transformer.training.worker_group import Worker

SENTENCES = 50


@dataclass
class _Sums:
    """Sums over queries, heads and layers, on the device."""

    spread: Tensor
    entropy: Tensor
    queries: Tensor

    def observer(self, real_BT: Tensor) -> Observer:
        """Adds the queries that are not padding, as ``real_BT`` says."""

        def observe(logits_BHTS: Tensor, weights_BHTS: Tensor) -> None:
            real_BHT = real_BT[:, None].expand(weights_BHTS.shape[:3])
            self.spread += (_spread(logits_BHTS.float()) * real_BHT).sum()
            self.entropy += (torch.special.entr(weights_BHTS).sum(-1) * real_BHT).sum()
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


@torch.no_grad()
def attention_metrics(
    model: Transformer,
    pairs: ParallelSet,
    precision: Precision,
    worker: Worker,
) -> dict[str, float]:
    """Means over the queries of all heads and layers, encoder, decoder and between them.

    ``attention/logit_sd`` is the standard deviation of a query's logits over its keys.
    ``attention/entropy`` is that of its weights, in nats. ``model`` is in evaluation mode.
    """
    sums = _Sums(*torch.zeros(3, device=worker.device))
    first = ParallelSet(pairs.source.first(SENTENCES), pairs.target.first(SENTENCES))
    for _, batch in evaluation_batches(first, worker.tokens_per_micro_batch):
        batch_here = batch.to(worker.device)
        with _observed(model, batch_here, sums), autocast(precision, worker.device):
            model(batch_here.source, batch_here.shifted, batch_here.source_padded)
    return {
        "attention/logit_sd": float(sums.spread / sums.queries),
        "attention/entropy": float(sums.entropy / sums.queries),
    }


@contextmanager
def _observed(model: Transformer, batch: Batch, sums: _Sums) -> Iterator[None]:
    """A context in which ``sums`` sees every attention of the model."""
    of_source = sums.observer(batch.source != PAD)
    of_target = sums.observer(batch.target != PAD)
    try:
        for attention in model.attentions():
            attention.observer = of_target
        for module in model.encoder.modules():
            if isinstance(module, SelfAttention):
                module.observer = of_source
        yield
    finally:
        for attention in model.attentions():
            attention.observer = None
