"""Training one model: one plain step on explicit state, and ``fit``, which reads top to bottom."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from sweeps.task import Trial
from transformer.config import TrialConfig
from transformer.cost import training_flops
from transformer.data.batches import Batch, Shape, TrainingBatches, prefetch
from transformer.data.prepared import ParallelSet
from transformer.faults import sentences_of
from transformer.model.encoder_decoder import Transformer
from transformer.training.graphs import CapturedForwardBackward, ForwardBackward, buckets, into_bucket
from transformer.training.loss import likelihoods, mean_nll, perplexity, summed_loss, token_accuracy
from transformer.training.meter import Meter, Step, TrainingMetrics
from transformer.training.precision import autocast
from transformer.training.state import TrainState, learning_rate, set_learning_rate
from transformer.training.worker_group import Worker

JOINED_BELOW_FLOPS = 2e11
"""Training FLOPs of a block below which a GPU spends its time on starting kernels rather than in them."""
JOINED_BUCKETS = 8
"""Graphs for joined batches: recording one costs as much as hundreds of steps gain from a closer fit."""

DEV_NLL = "dev/nll"
"""The metric whose lowest value makes a checkpoint the best one."""


def train_step(
    state: TrainState,
    micro_batches: Sequence[Batch],
    config: TrialConfig,
    worker: Worker,
    forward_backward: ForwardBackward,
) -> Step:
    """One update from this worker's share of a batch, in one or more micro-batches.

    ``forward_backward`` comes from ``make_forward_backward``, since it may contain recorded CUDA graphs.

    The loss is divided by the target pieces of the whole batch, over all micro-batches and workers. Dropout is drawn
    from (seed, step, rank). So a step depends neither on its split into micro-batches nor on earlier work of this
    process. The host never waits for the device.
    """
    state.step += 1
    torch.manual_seed(_step_seed(config.train.seed, state.step, worker.rank))
    set_learning_rate(state.optimizer, learning_rate(config.train, config.model.d_model, state.step))
    *earlier, last = micro_batches
    loss = torch.zeros((), device=worker.device)
    for batch in earlier:
        loss += forward_backward(batch)
    with worker.summing_gradients(state.model):
        loss += forward_backward(last)
    gradients = [parameter.grad for parameter in state.model.parameters() if parameter.grad is not None]
    gradient_norm = torch.nn.utils.get_total_norm(gradients)
    state.optimizer.step()
    state.optimizer.zero_grad(set_to_none=not worker.uses_cuda_graphs)  # recorded graphs need gradients in place
    return Step(loss, gradient_norm)


def make_forward_backward(model: Transformer, config: TrialConfig, shapes: Sequence[Shape] = ()) -> ForwardBackward:
    """Forward and backward through ``model``, replayed from CUDA graphs if a batch has one of ``shapes``."""
    plain = partial(_forward_backward, model, config)
    return CapturedForwardBackward(plain, shapes) if shapes else plain


def _forward_backward(model: Transformer, config: TrialConfig, batch: Batch) -> Tensor:
    if not len(batch.target):  # this worker has no share
        return torch.zeros_like(batch.total)
    with autocast(config.train.precision, batch.target.device):
        output = model(batch.source, batch.shifted, batch.source_padded)
        loss = summed_loss(model, output, batch.target, config.train.label_smoothing) / batch.total
    loss.backward()
    return loss.detach()


def dev_metrics(model: Transformer, pairs: ParallelSet, config: TrialConfig, worker: Worker) -> TrainingMetrics:
    """NLL in nats per target piece, perplexity and token accuracy on dev, without smoothing or dropout (section 6.1).

    ``model`` is in training mode afterwards. Raises NotFiniteError.
    """
    with sentences_of("dev"):
        sentences = likelihoods(model.eval(), pairs, config.train.precision, worker)
    model.train()
    nll = mean_nll(sentences, pairs)
    return {DEV_NLL: nll, "dev/ppl": perplexity(nll), "dev/accuracy": token_accuracy(sentences, pairs)}


def fit(
    state: TrainState,
    trial: Trial[TrialConfig],
    batches: TrainingBatches,
    dev: ParallelSet,
    worker: Worker,
    scored: Callable[[Transformer], TrainingMetrics] | None = None,
) -> None:
    """Train from ``state.step`` to ``train.steps``, or until the trial is told to stop; every worker calls it.

    A step is reported before it is saved: a checkpoint carries the reports up to it. ``scored`` is called on every
    worker each ``score_every`` steps and at the end; it only observes the model.

    Raises DivergedError, NotFiniteError.
    """
    config, train, kept_steps = trial.config, trial.config.train, trial.kept_steps
    batches, shapes = recorded(batches, config, state.model.vocab_size, worker)
    forward_backward = make_forward_backward(state.model, config, shapes)
    state.model.train()
    meter = Meter(config, state.model.vocab_size, batches, worker)
    for micro_batches, waited in _prefetched(batches, range(state.step + 1, train.steps + 1), worker, shapes):
        meter.add(train_step(state, micro_batches, config, worker, forward_backward), micro_batches, waited)
        stops, last = trial.stopping(), state.step == train.steps
        evaluates = last or state.step % train.evaluate_every == 0
        scores = train.score_every > 0 and (last or state.step % train.score_every == 0)
        saves = last or stops or state.step % train.checkpoint_every == 0 or state.step in kept_steps
        if not (evaluates or scores or saves or state.step % train.log_every == 0):
            continue
        metrics = meter.read(state.step)  # before any evaluation or checkpoint: a divergence ends the trial here
        state.lengths += meter.lengths
        if evaluates:
            metrics |= dev_metrics(state.model, dev, config, worker.persistent)
        nll = metrics.get(DEV_NLL)
        if nll is not None:
            saves, state.best_nll = saves or nll < state.best_nll, min(nll, state.best_nll)
        if scored is not None and scores:
            metrics |= scored(state.model)
        trial.report(state.step, metrics)
        if saves:
            trial.checkpoint(state.step, state.to_dict(), score=nll)
        if stops:
            return
        meter = meter.fresh()


def recorded(
    batches: TrainingBatches, config: TrialConfig, vocab_size: int, worker: Worker
) -> tuple[TrainingBatches, list[Shape]]:
    """The batches as this worker trains on them, and the shapes of its CUDA graphs; none if it records no graph.

    Small blocks are joined: a kernel takes about as long for a few of their pieces as for all of them.
    """
    if not worker.uses_cuda_graphs:
        return batches, []
    step = batches.micro_batches(1, 0, 1, worker.tokens_per_micro_batch)[0].lengths
    if training_flops(config.model, vocab_size, step) < JOINED_BELOW_FLOPS * batches.blocks_per_batch:
        joined = batches.joined()
        shapes = buckets(joined.shapes(), most=JOINED_BUCKETS)
        if all(shape.sentences * shape.longest <= worker.tokens_per_micro_batch for shape in shapes):
            return joined, shapes
    if batches.tokens_per_block > worker.tokens_per_micro_batch:  # parts of blocks fit no bucket well
        return batches, []
    return batches, buckets(batches.shapes())


def _prefetched(
    batches: TrainingBatches, steps: range, worker: Worker, shapes: Sequence[Shape]
) -> Iterator[tuple[list[Batch], float]]:
    """The micro-batches of each step on the worker's device, and the seconds that the step waited for them."""

    def make(step: int) -> list[Batch]:
        micro_batches = batches.micro_batches(step, worker.rank, worker.world, worker.tokens_per_micro_batch)
        return [into_bucket(batch, shapes).to(worker.device) for batch in micro_batches]

    made = prefetch(make, steps)
    for _ in steps:
        began = time.perf_counter()
        micro_batches = next(made)
        yield micro_batches, time.perf_counter() - began


def _step_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
