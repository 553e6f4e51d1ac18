"""What training minimises and what perplexity is made of (section 5.4).

Shape suffixes: B batch, T target, N target pieces that are not padding, D d_model, P pieces of the vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

from transformer.data.pieces import PAD
from transformer.model.encoder_decoder import Transformer

LOGITS_AT_ONCE = 4_000_000
"""Larger buffers are handed back to the system after every use; their page faults took a third of a step."""


def summed_loss(model: Transformer, output_BTD: Tensor, target_BT: Tensor, label_smoothing: float) -> Tensor:
    """Cross-entropy in nats, summed over the target pieces that are not padding; float32.

    Label smoothing puts 1 − ε on the gold piece and ε/(P − 1) on each of the other P − 1 pieces.
    """
    real_N = (target_BT != PAD).flatten().nonzero()[:, 0]  # sought once; indexing by a mask seeks at every use
    x_ND, gold_N = (tensor.flatten(0, 1).index_select(0, real_N) for tensor in (output_BTD, target_BT))
    loss: Tensor = ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x_ND, model.embedding, gold_N, label_smoothing, torch.is_grad_enabled()
    )
    return loss


class ProjectedCrossEntropy(torch.autograd.Function):
    """Projection to the pieces and cross-entropy in one, some rows at a time: no [N, P] is ever held.

    Σ_N (log Z − (1 − ε − u)·gold logit − u·Σ_P logits), with u = ε/(P − 1). The gradients are made on the way
    forward, while the logits are at hand.
    """

    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, embedding_PD: Tensor, gold_N: Tensor, label_smoothing: float, differentiate: bool
    ) -> Tensor:
        uniform = label_smoothing / (len(embedding_PD) - 1)
        weights = (1 - label_smoothing - uniform, uniform)
        device = x_ND.device.type
        matmul_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x_ND.dtype
        embedding, inputs, gold_N1 = embedding_PD.to(matmul_dtype), x_ND.to(matmul_dtype), gold_N[:, None]
        x_gradient, embedding_gradient = torch.empty_like(x_ND), torch.zeros_like(embedding_PD)
        loss = torch.zeros((), device=x_ND.device)
        rows = max(1, LOGITS_AT_ONCE // len(embedding_PD))
        with torch.autocast(device, enabled=False):
            for start in range(0, len(x_ND), rows):
                some = slice(start, start + rows)
                x, gold = inputs[some], gold_N1[some]
                logits = (x @ embedding.T).float()
                probability = logits.softmax(1)
                loss += _loss(logits, probability, gold, weights)
                if differentiate:
                    gradient = _gradient_in_place(probability, gold, weights).to(matmul_dtype)
                    x_gradient[some] = gradient @ embedding
                    embedding_gradient += gradient.T @ x
        ctx.save_for_backward(x_gradient, embedding_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x_gradient, embedding_gradient = ctx.saved_tensors
        return x_gradient * grads[0], embedding_gradient * grads[0], None, None, None


def _loss(logits_NP: Tensor, probability_NP: Tensor, gold_N1: Tensor, weights: tuple[float, float]) -> Tensor:
    """The summed loss; log Z comes from each row's likeliest piece, whose probability cannot underflow."""
    gold_weight, uniform = weights
    log_z_N1 = logits_NP.amax(1, keepdim=True) - probability_NP.amax(1, keepdim=True).log_()
    loss = log_z_N1.sub_(logits_NP.gather(1, gold_N1), alpha=gold_weight).sum()
    return loss.sub_(logits_NP.sum(), alpha=uniform) if uniform else loss


def _gradient_in_place(probability_NP: Tensor, gold_N1: Tensor, weights: tuple[float, float]) -> Tensor:
    """softmax − smoothed one-hot, in the memory of the softmax."""
    gold_weight, uniform = weights
    gradient_NP = probability_NP.sub_(uniform) if uniform else probability_NP
    return gradient_NP.scatter_(1, gold_N1, -gold_weight, reduce="add")
