"""The training loss, and the likelihood of references behind perplexity (sections 5.4 and 6.1).

Shape suffixes: B batch, T target, N target pieces that are not padding, M some of those, D d_model, P pieces of the
vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer.config import Precision
from transformer.data.batches import Batch, evaluation_batches
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.faults import NotFiniteError
from transformer.model.encoder_decoder import Transformer
from transformer.training.precision import autocast
from transformer.training.worker_group import Worker

LOGITS_AT_ONCE = 4_000_000
"""Logits in float32 between the matmul and their gradient: 16 MB; twice as many took longer."""
GRADIENTS_AT_ONCE = 32_000_000
"""Logits in the precision of the matmuls. Each product with them adds a gradient of all embeddings, so few are best."""
LOGITS_AT_ONCE_ON_GPU = 2**27
"""Half a gigabyte of float32: enough rows to fill the matmuls."""


def summed_loss(model: Transformer, output_BTD: Tensor, target_BT: Tensor, label_smoothing: float) -> Tensor:
    """Cross-entropy in nats, summed over the target pieces that are not padding; float32.

    Label smoothing puts 1 − ε on the gold piece and ε/(P − 1) on each of the other P − 1 pieces.
    """
    over = _over_all_cells if output_BTD.device.type == "cuda" else _over_real_cells
    return over(output_BTD.flatten(0, 1), model.embedding, target_BT.flatten(), label_smoothing)


def _over_real_cells(x_ND: Tensor, embedding_PD: Tensor, gold_N: Tensor, label_smoothing: float) -> Tensor:
    real_N = (gold_N != PAD).nonzero()[:, 0]  # found once; indexing by a mask searches at every use
    x_ND, gold_N = x_ND.index_select(0, real_N), gold_N.index_select(0, real_N)
    loss: Tensor = ProjectedCrossEntropy.apply(x_ND, embedding_PD, gold_N, label_smoothing)  # type: ignore[no-untyped-call]
    return loss


def _over_all_cells(x_ND: Tensor, embedding_PD: Tensor, gold_N: Tensor, label_smoothing: float) -> Tensor:
    """Padding cells are included, since the host would have to wait for the device to know their number."""
    loss: Tensor = MaskedCrossEntropy.apply(x_ND, embedding_PD, gold_N, label_smoothing)  # type: ignore[no-untyped-call]
    return loss


class ProjectedCrossEntropy(torch.autograd.Function):
    """Projection to the pieces fused with cross-entropy; logits for some rows at a time, gradients for some more.

    Σ_N (log Z − (1 − ε − u)·gold logit − u·Σ_P logits), with u = ε/(P − 1). The gradients are computed in the
    forward pass, while the logits are in memory.
    """

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, embedding_PD: Tensor, gold_N: Tensor, label_smoothing: float) -> Tensor:
        uniform = label_smoothing / (len(embedding_PD) - 1)
        weights = (1 - label_smoothing - uniform, uniform)
        matmul_dtype = _matmul_dtype(x_ND)
        embedding, inputs, gold_N1 = embedding_PD.to(matmul_dtype), x_ND.to(matmul_dtype), gold_N[:, None]
        x_gradient, embedding_gradient = torch.empty_like(x_ND), embedding_PD.new_empty(0)
        loss = torch.zeros((), device=x_ND.device)
        with torch.autocast(x_ND.device.type, enabled=False):
            for many in _slices(len(x_ND), GRADIENTS_AT_ONCE // len(embedding)):
                x_MD, gold_M1 = inputs[many], gold_N1[many]
                gradient_MP = x_MD.new_empty((len(x_MD), len(embedding)))
                for some in _slices(len(x_MD), LOGITS_AT_ONCE // len(embedding)):
                    logits, gold = (x_MD[some] @ embedding.T).float(), gold_M1[some]
                    probability = logits.softmax(1)
                    loss += _loss(logits, probability, gold, weights)
                    gradient_MP[some] = _gradient_in_place(probability, gold, weights)
                x_gradient[many] = gradient_MP @ embedding
                product = (gradient_MP.T @ x_MD).to(embedding_PD.dtype)
                embedding_gradient = embedding_gradient.add_(product) if many.start else product
        ctx.save_for_backward(x_gradient, embedding_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x_gradient, embedding_gradient = ctx.saved_tensors
        return x_gradient * grads[0], embedding_gradient * grads[0], None, None


class MaskedCrossEntropy(ProjectedCrossEntropy):
    """The same over all cells, padding with weight 0, in as few passes over the logits as torch's kernels allow.

    A GPU spends more time on those passes than on the matmuls, so smoothing does not touch the logits: with x_D = Σ_N x
    and e_D = Σ_P embedding, Σ_N Σ_P logits is x_D·e_D, whose gradient is e_D for each cell and x_D for each piece.
    """

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, embedding_PD: Tensor, gold_N: Tensor, label_smoothing: float) -> Tensor:
        uniform = label_smoothing / (len(embedding_PD) - 1)
        gold_weight = 1 - label_smoothing - uniform
        dtype, gold_N1, padding_N1 = _matmul_dtype(x_ND), gold_N[:, None], (gold_N == PAD)[:, None]
        embedding, inputs = embedding_PD.to(dtype), x_ND.masked_fill(padding_N1, 0).to(dtype)
        x_D, e_D = inputs.sum(0, dtype=torch.float32), embedding.sum(0, dtype=torch.float32)
        loss = -uniform * (x_D * e_D).sum()
        x_gradient, embedding_gradient = torch.empty_like(x_ND), (-uniform * x_D).repeat(len(embedding_PD), 1)
        rows = max(1, LOGITS_AT_ONCE_ON_GPU // len(embedding_PD))
        with torch.autocast(x_ND.device.type, enabled=False):
            for start in range(0, len(x_ND), rows):
                some = slice(start, start + rows)
                logits, gold = inputs[some] @ embedding.T, gold_N1[some]
                probability = logits.softmax(1, dtype=torch.float32)
                losses = _log_z(logits, probability).sub_(logits.gather(1, gold), alpha=gold_weight)
                loss += losses.masked_fill_(padding_N1[some], 0).sum()
                gradient = probability.scatter_(1, gold, -gold_weight, reduce="add").to(dtype)
                x_gradient[some] = gradient @ embedding
                embedding_gradient += gradient.T @ inputs[some]
        x_gradient.sub_(e_D, alpha=uniform).masked_fill_(padding_N1, 0)
        ctx.save_for_backward(x_gradient, embedding_gradient)
        return loss


def _slices(length: int, size: int) -> Iterator[slice]:
    """Slices of at least one row, and at least one slice."""
    return (slice(start, start + max(1, size)) for start in range(0, max(1, length), max(1, size)))


def _matmul_dtype(x: Tensor) -> torch.dtype:
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _log_z(logits_NP: Tensor, probability_NP: Tensor) -> Tensor:
    """log Σ_P e^logit [N, 1] in float32, by each row's likeliest piece, whose probability cannot underflow."""
    best = logits_NP.max(1, keepdim=True)
    log_probability_N1 = probability_NP.gather(1, best.indices).log_()
    return best.values.float().sub_(log_probability_N1)


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


class Likelihood(NamedTuple):
    """A reference under teacher forcing: each piece is predicted from the gold pieces before it.

    ``nats`` is −log P of its pieces, end-of-sentence included. ``right`` counts those that the model ranks first.
    """

    nats: float
    right: int


@torch.no_grad()
def likelihoods(model: Transformer, pairs: ParallelSet, precision: Precision, worker: Worker) -> list[Likelihood]:
    """The likelihood of each target; the workers share the work, and each gets all results.

    ``model`` is in evaluation mode. Raises NotFiniteError and StopRequested, on every worker.
    """
    return worker.gather_sentences(_own_likelihoods(model, pairs, precision, worker))


def _own_likelihoods(
    model: Transformer, pairs: ParallelSet, precision: Precision, worker: Worker
) -> Iterator[tuple[int, Likelihood]]:
    """The number and the likelihood of each sentence of this worker's share. Raises NotFiniteError."""
    for places, batch in evaluation_batches(pairs, worker.tokens_per_micro_batch, worker.rank, worker.world):
        with autocast(precision, worker.device):
            nats_B, right_B = _of_batch(model, batch.to(worker.device))
        nats_B = nats_B.cpu()
        if lost := places[~nats_B.isfinite().numpy()].tolist():
            raise NotFiniteError(lost)
        sentences = map(Likelihood, nats_B.tolist(), right_B.tolist())
        yield from zip(places.tolist(), sentences, strict=True)


def mean_nll(sentences: Sequence[Likelihood], pairs: ParallelSet) -> float:
    """Nats per target piece over the whole set, not a mean over sentences or batches."""
    return math.fsum(sentence.nats for sentence in sentences) / int(pairs.target.lengths.sum())


def token_accuracy(sentences: Sequence[Likelihood], pairs: ParallelSet) -> float:
    """The share of the set's target pieces that the model ranks first, end-of-sentence included; 0 to 1."""
    return sum(sentence.right for sentence in sentences) / int(pairs.target.lengths.sum())


def perplexity(nll: float) -> float:
    """e^nll, capped so that it is finite: beyond e^700 a float is infinite."""
    return math.exp(min(nll, 700.0))


def _of_batch(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Nats [B] float64, and right pieces [B] int64; the logits of a few pieces are in memory at a time.

    Of equal logits, ``argmax`` takes the first.
    """
    real_BT = batch.target != PAD
    output_ND, gold_N = model(batch.source, batch.shifted, batch.source_padded)[real_BT], batch.target[real_BT]
    rows = max(1, LOGITS_AT_ONCE // model.vocab_size)
    nats, right = list[Tensor](), list[Tensor]()
    for output, gold in zip(output_ND.split(rows), gold_N.split(rows), strict=True):
        logits = model.logits(output).float()
        nats.append(F.cross_entropy(logits, gold, reduction="none"))
        right.append(logits.argmax(1) == gold)
    sentence_N = real_BT.nonzero()[:, 0]
    no_nats_B = torch.zeros(len(batch.target), dtype=torch.float64, device=gold_N.device)
    none_right_B = torch.zeros(len(batch.target), dtype=torch.int64, device=gold_N.device)
    nats_B = no_nats_B.index_add(0, sentence_N, torch.cat(nats).double())
    right_B = none_right_B.index_add(0, sentence_N, torch.cat(right).long())
    return nats_B, right_B
