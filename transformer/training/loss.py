"""What training minimises and what perplexity is made of (section 5.4). N target pieces that are not padding."""

from typing import Any

import torch
from torch import Tensor

from transformer.data.pieces import PAD
from transformer.model.encoder_decoder import Transformer


def summed_loss(model: Transformer, output_BTD: Tensor, target_BT: Tensor, label_smoothing: float) -> Tensor:
    """Cross-entropy in nats, summed over the target pieces that are not padding; float32.

    Label smoothing puts 1 − ε on the gold piece and ε/(P − 1) on each of the other P − 1 pieces.
    """
    real = target_BT != PAD
    loss: Tensor = SmoothedCrossEntropy.apply(model.logits(output_BTD[real]), target_BT[real], label_smoothing)
    return loss


class SmoothedCrossEntropy(torch.autograd.Function):
    """Σ_N (log Z − (1 − ε − u)·gold logit − u·Σ_P logits), with u = ε/(P − 1): one exponential a logit each way.

    torch's own cross_entropy with label smoothing goes through log_softmax, whose backward took four times as long.
    """

    @staticmethod
    def forward(ctx: Any, logits_NP: Tensor, gold_N: Tensor, label_smoothing: float) -> Tensor:
        logits = logits_NP.float()
        uniform = label_smoothing / (logits.shape[1] - 1)
        log_z_N = logits.logsumexp(1)
        gold_logit_N = logits.gather(1, gold_N[:, None])[:, 0]
        ctx.save_for_backward(logits_NP, gold_N, log_z_N)
        ctx.gold_weight, ctx.uniform = 1 - label_smoothing - uniform, uniform
        spread = uniform * logits.sum() if uniform else 0.0
        return log_z_N.sum() - ctx.gold_weight * gold_logit_N.sum() - spread

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        logits_NP, gold_N, log_z_N = ctx.saved_tensors
        gradient = logits_NP.float().sub(log_z_N[:, None]).exp_().sub_(ctx.uniform)
        gradient[torch.arange(len(gold_N), device=gold_N.device), gold_N] -= ctx.gold_weight
        return gradient.mul_(grads[0]).to(logits_NP.dtype), None, None
