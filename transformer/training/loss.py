"""The training loss, and the likelihood of references behind perplexity (sections 5.4 and 6.1).

Shape suffixes: B batch, T target, N target pieces that are not padding, M some of those, D d_model,
P pieces of the vocabulary.
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
"""Float32 logits in memory at a time: 16 MB. Twice as many took longer."""
GRADIENTS_AT_ONCE = 32_000_000
"""Logits per product with the embedding's gradient, in the precision of the matmuls.

Each product adds a gradient to all embeddings, so a few large products are best.
"""
LOGITS_AT_ONCE_ON_GPU = 2**27
"""Half a gigabyte of float32: enough rows to fill the matmuls."""


def summed_loss(
    model: Transformer,
    output_BTD: Tensor,
    target_BT: Tensor,
    label_smoothing: float,
) -> Tensor:
    """Cross-entropy in nats, summed over the target pieces that are not padding; float32.

    Label smoothing puts 1 − ε on the gold piece and ε/(P − 1) on each of the other P − 1 pieces.
    """
    on_gpu = output_BTD.device.type == "cuda"
    loss_of_cells = _over_all_cells if on_gpu else _over_real_cells
    return loss_of_cells(
        output_BTD.flatten(0, 1),
        model.embedding,
        target_BT.flatten(),
        label_smoothing,
    )


def _over_real_cells(
    x_ND: Tensor,
    embedding_PD: Tensor,
    gold_N: Tensor,
    label_smoothing: float,
) -> Tensor:
    """The summed loss, computed only where ``gold_N`` is not padding."""
    real_N = (gold_N != PAD).nonzero()[:, 0]  # indexing by a mask would search it at every use
    real_x_ND = x_ND.index_select(0, real_N)
    real_gold_N = gold_N.index_select(0, real_N)
    loss: Tensor = ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        real_x_ND,
        embedding_PD,
        real_gold_N,
        label_smoothing,
    )
    return loss


def _over_all_cells(
    x_ND: Tensor,
    embedding_PD: Tensor,
    gold_N: Tensor,
    label_smoothing: float,
) -> Tensor:
    """The summed loss, computed with padding cells, whose weight is 0.

    Leaving them out would make the host wait for the device to count them.
    """
    loss: Tensor = MaskedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        x_ND,
        embedding_PD,
        gold_N,
        label_smoothing,
    )
    return loss


class ProjectedCrossEntropy(torch.autograd.Function):
    """Projection to the pieces fused with cross-entropy, a block of rows at a time.

    Σ_N (log Z − (1 − ε − u)·gold logit − u·Σ_P logits), with u = ε/(P − 1). The forward pass also
    computes the gradients, while the logits are in memory. A block of rows for a gradient holds
    several blocks of rows for logits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        embedding_PD: Tensor,
        gold_N: Tensor,
        label_smoothing: float,
    ) -> Tensor:
        uniform = label_smoothing / (len(embedding_PD) - 1)
        weights = (1 - label_smoothing - uniform, uniform)
        matmul_dtype = _matmul_dtype(x_ND)
        embedding = embedding_PD.to(matmul_dtype)
        inputs = x_ND.to(matmul_dtype)
        gold_N1 = gold_N[:, None]
        x_gradient = torch.empty_like(x_ND)
        embedding_gradient = embedding_PD.new_empty(0)
        loss = torch.zeros((), device=x_ND.device)
        with torch.autocast(x_ND.device.type, enabled=False):
            for rows in _slices(len(x_ND), GRADIENTS_AT_ONCE // len(embedding)):
                x_MD = inputs[rows]
                gradient_MP = x_MD.new_empty((len(x_MD), len(embedding)))
                _add_loss(loss, gradient_MP, x_MD, embedding, gold_N1[rows], weights)
                x_gradient[rows] = gradient_MP @ embedding
                product = (gradient_MP.T @ x_MD).to(embedding_PD.dtype)
                if rows.start == 0:
                    embedding_gradient = product
                else:
                    embedding_gradient.add_(product)
        ctx.save_for_backward(x_gradient, embedding_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x_gradient, embedding_gradient = ctx.saved_tensors
        return x_gradient * grads[0], embedding_gradient * grads[0], None, None


def _add_loss(
    loss: Tensor,
    gradient_MP: Tensor,
    x_MD: Tensor,
    embedding: Tensor,
    gold_M1: Tensor,
    weights: tuple[float, float],
) -> None:
    """Add these rows to ``loss`` [], and fill ``gradient_MP`` with the gradient of their logits."""
    for rows in _slices(len(x_MD), LOGITS_AT_ONCE // len(embedding)):
        logits = (x_MD[rows] @ embedding.T).float()
        probability = logits.softmax(1)
        gold = gold_M1[rows]
        loss += _loss(logits, probability, gold, weights)
        gradient_MP[rows] = _gradient_in_place(probability, gold, weights)


class MaskedCrossEntropy(ProjectedCrossEntropy):
    """The same over all cells, padding with weight 0, in as few passes as torch's kernels allow.

    A GPU spends more time on passes over the logits than on the matmuls, so smoothing leaves out
    the logits. With x_D = Σ_N x and e_D = Σ_P embedding, Σ_N Σ_P logits is x_D·e_D. Its gradient is
    e_D for each cell and x_D for each piece.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        embedding_PD: Tensor,
        gold_N: Tensor,
        label_smoothing: float,
    ) -> Tensor:
        uniform = label_smoothing / (len(embedding_PD) - 1)
        gold_weight = 1 - label_smoothing - uniform
        dtype = _matmul_dtype(x_ND)
        gold_N1 = gold_N[:, None]
        padding_N1 = (gold_N == PAD)[:, None]
        embedding = embedding_PD.to(dtype)
        inputs = x_ND.masked_fill(padding_N1, 0).to(dtype)
        x_D = inputs.sum(0, dtype=torch.float32)
        e_D = embedding.sum(0, dtype=torch.float32)
        loss = -uniform * (x_D * e_D).sum()
        x_gradient = torch.empty_like(x_ND)
        embedding_gradient = (-uniform * x_D).repeat(len(embedding_PD), 1)
        with torch.autocast(x_ND.device.type, enabled=False):
            for rows in _slices(len(x_ND), LOGITS_AT_ONCE_ON_GPU // len(embedding_PD)):
                gold = gold_N1[rows]
                logits = inputs[rows] @ embedding.T
                probability = logits.softmax(1, dtype=torch.float32)
                losses = _log_z(logits, probability)
                losses.sub_(logits.gather(1, gold), alpha=gold_weight)
                loss += losses.masked_fill_(padding_N1[rows], 0).sum()
                gradient = probability.scatter_(1, gold, -gold_weight, reduce="add").to(dtype)
                x_gradient[rows] = gradient @ embedding
                embedding_gradient += gradient.T @ inputs[rows]
        x_gradient.sub_(e_D, alpha=uniform).masked_fill_(padding_N1, 0)
        ctx.save_for_backward(x_gradient, embedding_gradient)
        return loss


def _slices(length: int, size: int) -> Iterator[slice]:
    """Slices of ``size`` rows, at least one row each; there is at least one slice."""
    rows = max(1, size)
    for start in range(0, max(1, length), rows):
        yield slice(start, start + rows)


def _matmul_dtype(x: Tensor) -> torch.dtype:
    """The precision in which autocast runs a matmul of ``x``."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _log_z(logits_NP: Tensor, probability_NP: Tensor) -> Tensor:
    """log Σ_P e^logit [N, 1] in float32.

    It comes from each row's likeliest piece, whose probability cannot underflow.
    """
    best = logits_NP.max(1, keepdim=True)
    log_probability_N1 = probability_NP.gather(1, best.indices).log_()
    return best.values.float().sub_(log_probability_N1)


def _loss(
    logits_NP: Tensor,
    probability_NP: Tensor,
    gold_N1: Tensor,
    weights: tuple[float, float],
) -> Tensor:
    """The summed loss; ``weights`` are those of the gold piece and of every piece.

    log Z comes from each row's likeliest piece, whose probability cannot underflow.
    """
    gold_weight, uniform = weights
    best_N1 = logits_NP.amax(1, keepdim=True)
    log_z_N1 = best_N1 - probability_NP.amax(1, keepdim=True).log_()
    gold_logit_N1 = logits_NP.gather(1, gold_N1)
    loss = log_z_N1.sub_(gold_logit_N1, alpha=gold_weight).sum()
    return loss.sub_(logits_NP.sum(), alpha=uniform) if uniform else loss


def _gradient_in_place(
    probability_NP: Tensor,
    gold_N1: Tensor,
    weights: tuple[float, float],
) -> Tensor:
    """softmax − smoothed one-hot, in the memory of the softmax."""
    gold_weight, uniform = weights
    gradient_NP = probability_NP.sub_(uniform) if uniform else probability_NP
    return gradient_NP.scatter_(1, gold_N1, -gold_weight, reduce="add")


class Likelihood(NamedTuple):
    """A reference under teacher forcing: each piece is predicted from the gold pieces before it.

    ``nats`` is −log P of its pieces, end-of-sentence included. ``right`` counts the pieces that the
    model ranks first.
    """

    nats: float
    right: int


@torch.no_grad()
def likelihoods(
    model: Transformer,
    pairs: ParallelSet,
    precision: Precision,
    worker: Worker,
) -> list[Likelihood]:
    """The likelihood of each target. The workers share the work, and each gets all results.

    ``model`` is in evaluation mode. Raises NotFiniteError and StopRequested, on every worker.
    """
    share = _likelihoods_of_share(model, pairs, precision, worker)
    return worker.gather_sentences(share)


def _likelihoods_of_share(
    model: Transformer,
    pairs: ParallelSet,
    precision: Precision,
    worker: Worker,
) -> Iterator[tuple[int, Likelihood]]:
    """The number and the likelihood of each sentence in this worker's share.

    Raises NotFiniteError.
    """
    limit = worker.tokens_per_micro_batch
    for numbers, batch in evaluation_batches(pairs, limit, worker.rank, worker.world):
        with autocast(precision, worker.device):
            nats_B, right_B = _nats_and_right_pieces(model, batch.to(worker.device))
        nats_B = nats_B.cpu()
        infinite = ~nats_B.isfinite().numpy()
        if infinite.any():
            raise NotFiniteError(numbers[infinite].tolist())
        batch_likelihoods = map(Likelihood, nats_B.tolist(), right_B.tolist())
        yield from zip(numbers.tolist(), batch_likelihoods, strict=True)


def mean_nll(likelihoods: Sequence[Likelihood], pairs: ParallelSet) -> float:
    """Nats per target piece over the whole set, not a mean over sentences or batches."""
    nats = math.fsum(likelihood.nats for likelihood in likelihoods)
    return nats / int(pairs.target.lengths.sum())


def token_accuracy(likelihoods: Sequence[Likelihood], pairs: ParallelSet) -> float:
    """The share of the set's target pieces that the model ranks first, 0 to 1.

    End-of-sentence counts as a piece.
    """
    right = sum(likelihood.right for likelihood in likelihoods)
    return right / int(pairs.target.lengths.sum())


def perplexity(nll: float) -> float:
    """e^nll, capped so that it is finite: beyond e^700 a float is infinite."""
    return math.exp(min(nll, 700.0))


def _nats_and_right_pieces(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Nats [B] float64, and right pieces [B] int64, of each sentence of a batch.

    Only a few rows of logits are in memory at a time. Of equal logits, ``argmax`` takes the first.
    """
    real_BT = batch.target != PAD
    output_BTD = model(batch.source, batch.shifted, batch.source_padded)
    output_ND = output_BTD[real_BT]
    gold_N = batch.target[real_BT]
    rows = max(1, LOGITS_AT_ONCE // model.vocab_size)
    nats = list[Tensor]()
    right = list[Tensor]()
    for output, gold in zip(output_ND.split(rows), gold_N.split(rows), strict=True):
        logits = model.logits(output).float()
        nats.append(F.cross_entropy(logits, gold, reduction="none"))
        right.append(logits.argmax(1) == gold)
    sentence_N = real_BT.nonzero()[:, 0]
    nats_B = _sum_by_sentence(torch.cat(nats).double(), sentence_N, len(batch.target))
    right_B = _sum_by_sentence(torch.cat(right).long(), sentence_N, len(batch.target))
    return nats_B, right_B


def _sum_by_sentence(values_N: Tensor, sentence_N: Tensor, sentences: int) -> Tensor:
    """[B] for B ``sentences``: the sum of each one's values, in their type."""
    zeros_B = torch.zeros(sentences, dtype=values_N.dtype, device=values_N.device)
    return zeros_B.index_add(0, sentence_N, values_N)
