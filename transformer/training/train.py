"""Training one model: one plain step on explicit state, and ``fit``, which reads top to bottom."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sweeps.task import Trial
from transformer.config import TrainConfig, TrialConfig
from transformer.cost import training_flops
from transformer.data.batches import Batch, Shape, TrainingBatches, prefetch
from transformer.data.prepared import ParallelSet
from transformer.faults import sentences_of
from transformer.model.encoder_decoder import Transformer
from transformer.training.attention_metrics import attention_metrics
from transformer.training.graphs import (
    CapturedForwardBackward,
    ForwardBackward,
    buckets,
    into_bucket,
)
from transformer.training.loss import likelihoods, mean_nll, perplexity, summed_loss, token_accuracy
from transformer.training.meter import Meter, Step, TrainingMetrics
from transformer.training.precision import autocast
from transformer.training.state import TrainState, learning_rate, set_learning_rate
from transformer.training.worker_group import Worker

JOINED_BELOW_FLOPS = 2e11
"""Blocks with fewer training FLOPs are joined: a GPU would spend its time on starting kernels."""
JOINED_BUCKETS = 8
"""Graphs for joined batches. Recording one costs what a closer fit gains in hundreds of steps."""

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

    Make ``forward_backward`` once with ``make_forward_backward``: it may hold recorded CUDA graphs.

    The loss is divided by the target pieces of the whole batch, over all micro-batches and workers.
    So up to rounding, its split into micro-batches changes only which dropout masks are drawn. They
    depend on (seed, step, rank) and on the micro-batches' shapes, not on earlier work of this
    process. The host never waits for the device.
    """
    state.step += 1
    torch.manual_seed(_step_seed(config.train.seed, state.step, worker.rank))
    rate = learning_rate(config.train, config.model.d_model, state.step)
    set_learning_rate(state.optimizer, rate)
    *earlier, last = micro_batches
    loss = torch.zeros((), device=worker.device)
    for batch in earlier:
        loss += forward_backward(batch)
    with worker.summing_gradients(state.model):
        loss += forward_backward(last)
    parameters = state.model.parameters()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    gradient_norm = torch.nn.utils.get_total_norm(gradients)
    state.optimizer.step()
    # Recorded graphs need the gradients in place.
    state.optimizer.zero_grad(set_to_none=not worker.uses_cuda_graphs)
    return Step(loss, gradient_norm)


def make_forward_backward(
    model: Transformer,
    config: TrialConfig,
    shapes: Sequence[Shape] = (),
) -> ForwardBackward:
    """Forward and backward through ``model``.

    CUDA graphs replay them for a batch with one of ``shapes``.
    """
    run = partial(_forward_backward, model, config)
    return CapturedForwardBackward(run, shapes) if shapes else run


def _forward_backward(model: Transformer, config: TrialConfig, batch: Batch) -> Tensor:
    """Add to the gradients, and return the loss [] in nats per target piece of the whole batch."""
    if not len(batch.target):  # this worker has no share
        return torch.zeros_like(batch.total)
    with autocast(config.train.precision, batch.target.device):
        output = model(batch.source, batch.shifted, batch.source_padded)
        loss = summed_loss(model, output, batch.target, config.train.label_smoothing) / batch.total
    loss.backward()
    return loss.detach()


def dev_metrics(
    model: Transformer,
    pairs: ParallelSet,
    config: TrialConfig,
    worker: Worker,
) -> TrainingMetrics:
    """NLL in nats per target piece, perplexity and token accuracy on dev (section 6.1).

    And what attention does there. They use neither label smoothing nor dropout. ``model`` is in
    training mode afterwards. Raises NotFiniteError.
    """
    with sentences_of("dev"):
        dev_likelihoods = likelihoods(model.eval(), pairs, config.train.precision, worker)
    of_attention = attention_metrics(model, pairs, config.train.precision, worker)
    model.train()
    nll = mean_nll(dev_likelihoods, pairs)
    return {
        DEV_NLL: nll,
        "dev/ppl": perplexity(nll),
        "dev/accuracy": token_accuracy(dev_likelihoods, pairs),
        **of_attention,
    }


def fit(
    state: TrainState,
    trial: Trial[TrialConfig],
    batches: TrainingBatches,
    dev: ParallelSet,
    worker: Worker,
    score: Callable[[Transformer], TrainingMetrics] | None = None,
) -> None:
    """Train from ``state.step`` to ``train.steps``, or until someone stops the trial.

    Every worker calls this. A step is reported before it is saved, so a checkpoint carries the
    reports up to it. ``score`` runs on every worker each ``score_every`` steps and at the end; it
    only observes the model.

    Raises DivergedError, NotFiniteError.
    """
    config = trial.config
    train = config.train
    kept_steps = trial.kept_steps
    batches, shapes = plan_graphs(batches, config, state.model.vocab_size, worker)
    forward_backward = make_forward_backward(state.model, config, shapes)
    state.model.train()
    meter = Meter(config, state.model.vocab_size, batches, worker)
    steps = range(state.step + 1, train.steps + 1)
    for micro_batches, waited in _prefetched(batches, steps, worker, shapes):
        step = train_step(state, micro_batches, config, worker, forward_backward)
        meter.add(step, micro_batches, waited)
        stops = trial.stopping()
        due = _due(state.step, train, kept_steps)
        if not (stops or due.anything):
            continue
        metrics = meter.read(state.step)  # first of all: a divergence ends the trial here
        state.lengths += meter.lengths
        if due.evaluation:
            metrics |= dev_metrics(state.model, dev, config, worker.persistent)
        nll = metrics.get(DEV_NLL)
        is_best = nll is not None and nll < state.best_nll
        if nll is not None:
            state.best_nll = min(nll, state.best_nll)
        if score is not None and due.scores:
            metrics |= score(state.model)
        trial.report(state.step, metrics)
        if stops or due.checkpoint or is_best:
            trial.checkpoint(state.step, state.to_dict(), score=nll)
        if stops:
            return
        meter = meter.fresh()


class _Due(NamedTuple):
    """What has to happen after a step."""

    report: bool
    evaluation: bool
    scores: bool
    checkpoint: bool

    @property
    def anything(self) -> bool:
        return self.report or self.evaluation or self.scores or self.checkpoint


def _due(step: int, train: TrainConfig, kept_steps: Collection[int]) -> _Due:
    """What ``train`` asks for after this step; the last step has all of it."""
    is_last = step == train.steps
    evaluation = is_last or step % train.evaluate_every == 0
    scores = train.score_every > 0 and (is_last or step % train.score_every == 0)
    checkpoint = is_last or step % train.checkpoint_every == 0 or step in kept_steps
    return _Due(step % train.log_every == 0, evaluation, scores, checkpoint)


def plan_graphs(
    batches: TrainingBatches,
    config: TrialConfig,
    vocab_size: int,
    worker: Worker,
) -> tuple[TrainingBatches, list[Shape]]:
    """The batches as this worker trains on them, and the shapes of its CUDA graphs.

    There are no shapes if the worker records no graphs. Small blocks are joined: a kernel takes
    about as long for a few of their pieces as for all of them.
    """
    if not worker.uses_cuda_graphs:
        return batches, []
    limit = worker.tokens_per_micro_batch
    lengths = batches.micro_batches(1, 0, 1, limit)[0].lengths
    flops = training_flops(config.model, vocab_size, lengths)
    if flops < JOINED_BELOW_FLOPS * batches.blocks_per_batch:
        joined = batches.joined()
        shapes = buckets(joined.shapes(), most=JOINED_BUCKETS)
        if all(shape.sentences * shape.longest <= limit for shape in shapes):
            return joined, shapes
    if batches.tokens_per_block > limit:  # parts of blocks fit no bucket well
        return batches, []
    return batches, buckets(batches.shapes())


def _prefetched(
    batches: TrainingBatches,
    steps: range,
    worker: Worker,
    shapes: Sequence[Shape],
) -> Iterator[tuple[list[Batch], float]]:
    """The micro-batches of each step, and the seconds that the step waited for them.

    The micro-batches are on the worker's device.
    """
    limit = worker.tokens_per_micro_batch

    def make(step: int) -> list[Batch]:
        micro_batches = batches.micro_batches(step, worker.rank, worker.world, limit)
        return [into_bucket(batch, shapes).to(worker.device) for batch in micro_batches]

    prefetched = prefetch(make, steps)
    for _ in steps:
        start = time.perf_counter()
        micro_batches = next(prefetched)
        yield micro_batches, time.perf_counter() - start


def _step_seed(seed: int, step: int, rank: int) -> int:
    """The seed of this worker's dropout in a step: 63 bits."""
    (seed_64,) = np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)
    return int(seed_64 >> 1)
