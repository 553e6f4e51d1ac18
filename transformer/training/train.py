"""Training one model: explicit state, one plain step, and ``fit``, which reads top to bottom."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.config import TrialConfig
from transformer.cost import Lengths
from transformer.data.batches import Batch, Shape, TrainingBatches
from transformer.data.buckets import buckets, into_bucket
from transformer.data.prefetch import prefetch
from transformer.data.prepare import ParallelSet
from transformer.finite import sentences_of
from transformer.messages import Metrics, Noticed, Report
from transformer.model.encoder_decoder import Transformer
from transformer.training.checkpoint import Checkpoints
from transformer.training.graphs import CapturedForwardBackward, ForwardBackward
from transformer.training.loss import summed_loss
from transformer.training.meter import Meter, Step
from transformer.training.optimizer import adam, load_adam, set_learning_rate
from transformer.training.parallel import StopVote, Worker
from transformer.training.perplexity import mean_nll, perplexity, sentence_nats
from transformer.training.precision import autocast
from transformer.training.schedule import learning_rate


@dataclass
class Tally:
    """The total lengths and seconds of training so far, saved with the checkpoint."""

    seconds: float = 0.0
    lengths: Lengths = field(default_factory=Lengths)

    def add(self, meter: Meter) -> None:
        self.seconds += meter.seconds
        self.lengths += meter.lengths


@dataclass
class TrainState:
    """Everything that training changes. The data order depends only on the step, so it is not stored."""

    model: Transformer
    optimizer: torch.optim.Adam
    step: int = 0
    tally: Tally = field(default_factory=Tally)
    reports: list[Report] = field(default_factory=list)  # all reports so far; only on rank zero
    best_nll: float = math.inf  # on dev

    def to_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers, loadable without running code."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "seconds": self.tally.seconds,
            "lengths": vars(self.tally.lengths),
            "reports": [vars(report) for report in self.reports],
            "best_nll": self.best_nll,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self.model.load_state_dict(saved["model"])
        load_adam(self.optimizer, saved["optimizer"])
        self.step, self.best_nll = saved["step"], saved["best_nll"]
        self.reports = [Report(**report) for report in saved["reports"]]
        self.tally = Tally(saved["seconds"], Lengths(**saved["lengths"]))


def start(trial: TrialConfig, vocab_size: int, device: torch.device) -> TrainState:
    """A fresh model, initialized only by the seed, and its Adam (section 5.3)."""
    torch.manual_seed(trial.train.seed)
    model = Transformer(trial.model, vocab_size).to(device)
    return TrainState(model, adam(model, capturable=device.type == "cuda"))


def train_step(
    state: TrainState,
    micro_batches: Sequence[Batch],
    trial: TrialConfig,
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
    torch.manual_seed(_step_seed(trial.train.seed, state.step, worker.rank))
    set_learning_rate(state.optimizer, learning_rate(trial.train, trial.model.d_model, state.step))
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


def make_forward_backward(model: Transformer, trial: TrialConfig, shapes: Sequence[Shape] = ()) -> ForwardBackward:
    """Forward and backward through ``model``, replayed from CUDA graphs if a batch has one of ``shapes``."""
    plain = partial(_forward_backward, model, trial)
    return CapturedForwardBackward(plain, shapes) if shapes else plain


def _forward_backward(model: Transformer, trial: TrialConfig, batch: Batch) -> Tensor:
    if not len(batch.target):  # this worker has no share
        return torch.zeros_like(batch.total)
    with autocast(trial.train.precision, batch.target.device):
        output = model(batch.source, batch.shifted, batch.source_padded)
        loss = summed_loss(model, output, batch.target, trial.train.label_smoothing) / batch.total
    loss.backward()
    return loss.detach()


def dev_nll(model: Transformer, pairs: ParallelSet, trial: TrialConfig, worker: Worker) -> float:
    """Mean nats per target piece, end-of-sentence included, without smoothing or dropout (section 6.1).

    ``model`` is in training mode afterwards. Raises NotFiniteError.
    """
    with sentences_of("dev"):
        nats = sentence_nats(model.eval(), pairs, trial.train.precision, worker)
    model.train()
    return mean_nll(nats, pairs)


def fit(
    state: TrainState,
    trial: TrialConfig,
    batches: TrainingBatches,
    dev: ParallelSet,
    checkpoints: Checkpoints,
    worker: Worker,
    scored: Callable[[Transformer], Metrics] | None = None,
) -> Iterator[Report | Noticed]:
    """Train from ``state.step`` to ``train.steps``; rank zero yields the reports.

    A checkpoint is written while training continues, and announced in the next report. It also holds all reports up
    to its step, because the latest ones may never arrive. A stop request on any worker ends training on all workers
    after the next step, with a report and a checkpoint. ``scored`` is called on every worker each ``score_every`` steps
    and at the end; it only observes the model. Raises DivergedError, NotFiniteError, CheckpointError.
    """
    train = trial.train
    whole_blocks = batches.tokens_per_block <= worker.tokens_per_micro_batch  # parts of blocks fit no bucket well
    shapes = buckets(batches.shapes()) if worker.uses_cuda_graphs and whole_blocks else []
    forward_backward = make_forward_backward(state.model, trial, shapes)
    state.model.train()
    meter, stop = Meter(trial, state.model.vocab_size, batches, worker), StopVote(worker)
    for micro_batches, waited in _prefetched(batches, range(state.step + 1, train.steps + 1), worker, shapes):
        meter.add(train_step(state, micro_batches, trial, worker, forward_backward), micro_batches, waited)
        stops = stop.agreed()
        last = state.step == train.steps
        evaluates = last or state.step % train.evaluate_every == 0
        scores = train.score_every > 0 and (last or state.step % train.score_every == 0)
        regular = last or state.step % train.checkpoint_every == 0  # a stop at another step must not change an average
        if not (evaluates or scores or regular or stops or state.step % train.log_every == 0):
            continue
        metrics = meter.read(state.step)  # before any evaluation or checkpoint: a divergence ends the trial here
        state.tally.add(meter)
        nll = dev_nll(state.model, dev, trial, worker) if evaluates else None
        if nll is not None:
            metrics |= {"dev/nll": nll, "dev/ppl": perplexity(nll)}
            regular, state.best_nll = regular or nll < state.best_nll, min(nll, state.best_nll)
        if scored is not None and scores:
            metrics |= scored(state.model)
        saves = regular or stops
        if worker.is_rank_zero:
            ends = last or stops
            yield from map(Noticed, checkpoints.until_written())
            written = checkpoints.wait()
            state.reports.append(Report(state.step, metrics, checkpoint=state.step if ends else written))
            if saves:
                checkpoints.save(state.step, state.to_dict(), nll, stop=not regular)
            if ends:
                yield from map(Noticed, checkpoints.until_written())
                checkpoints.wait()
            yield state.reports[-1]
        if stops:
            return
        meter = meter.fresh()


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
