"""Training one model: explicit state, one plain step, and ``fit``, which reads top to bottom."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transformer.config import TrialConfig
from transformer.cost import Lengths
from transformer.data.batches import Batch, TrainingBatches, judging_batches
from transformer.data.prepare import ParallelSet
from transformer.messages import Metrics, Report
from transformer.model.encoder_decoder import Transformer
from transformer.training.checkpoint import Checkpoints
from transformer.training.loss import summed_loss
from transformer.training.parallel import Worker
from transformer.training.precision import autocast
from transformer.training.schedule import learning_rate


@dataclass
class Tally:
    """What has been trained on so far: it travels with the checkpoint."""

    seconds: float = 0.0
    lengths: Lengths = field(default_factory=Lengths)


@dataclass
class State:
    """Everything that training changes. The data order is a function of the step, so it is not in here."""

    model: Transformer
    optimizer: torch.optim.Adam
    step: int = 0
    tally: Tally = field(default_factory=Tally)
    metrics: Metrics = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers, loadable without running code."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "seconds": self.tally.seconds,
            "lengths": vars(self.tally.lengths),
            "metrics": self.metrics,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step, self.metrics = saved["step"], saved["metrics"]
        self.tally = Tally(saved["seconds"], Lengths(**saved["lengths"]))


def start(trial: TrialConfig, vocab_size: int, device: torch.device) -> State:
    """A fresh model, initialised by the seed alone, and its Adam (section 5.3)."""
    torch.manual_seed(trial.train.seed)
    model = Transformer(trial.model, vocab_size).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    return State(model, optimizer)


def train_step(state: State, batch: Batch, trial: TrialConfig, worker: Worker) -> Tensor:
    """One update; returns this worker's part of the loss in nats a target piece.

    The loss divides by the target pieces of all workers, and dropout is drawn from (seed, step, rank), so a step
    depends neither on how it was split nor on what ran before it in this process.
    """
    state.step += 1
    torch.manual_seed(_step_seed(trial.train.seed, state.step, worker.rank))
    loss = torch.zeros((), device=worker.device)
    if len(batch.target):
        with autocast(trial.train.precision, worker.device):
            output = state.model(batch.source, batch.shifted)
            loss = summed_loss(state.model, output, batch.target, trial.train.label_smoothing)
        loss = loss / batch.total_targets
        loss.backward()
    worker.sum_gradients(state.model)
    for group in state.optimizer.param_groups:
        group["lr"] = learning_rate(trial.train, trial.model.d_model, state.step)
    state.optimizer.step()
    state.optimizer.zero_grad(set_to_none=True)
    return loss.detach()


@torch.no_grad()
def dev_nll(model: Transformer, pairs: ParallelSet, trial: TrialConfig, worker: Worker) -> float:
    """Mean nats a target piece, end-of-sentence included, without smoothing or dropout (section 6.1)."""
    model.eval()
    nats, pieces = 0.0, 0
    for _, batch in judging_batches(pairs, trial.train.tokens_per_batch, worker.rank, worker.world):
        batch = batch.to(worker.device)
        with autocast(trial.train.precision, worker.device):
            nats += float(summed_loss(model, model(batch.source, batch.shifted), batch.target, 0.0))
        pieces += batch.total_targets
    model.train()
    nats, total = worker.sum([nats, pieces])
    return nats / total


def fit(
    state: State,
    trial: TrialConfig,
    batches: TrainingBatches,
    dev: ParallelSet,
    checkpoints: Checkpoints,
    worker: Worker,
) -> Iterator[Report]:
    """Train from ``state.step`` to ``train.steps``; the leading worker yields what there is to report."""
    train = trial.train
    state.model.train()
    losses: list[Tensor] = []
    window = Window()
    while state.step < train.steps:
        batch = batches.batch(state.step + 1, worker.rank, worker.world)
        losses.append(train_step(state, batch.to(worker.device), trial, worker))
        window.targets += batch.total_targets
        state.tally.lengths += batch.lengths
        last = state.step == train.steps
        evaluates = last or state.step % train.evaluate_every == 0
        saves = last or state.step % train.checkpoint_every == 0
        logs = saves or state.step % train.log_every == 0  # so that no mean reaches back over a checkpoint
        if not (logs or evaluates):
            continue
        metrics = _training_metrics(losses, window, state, trial, worker) if logs else {}
        state.tally.seconds += window.stop()
        if evaluates:
            metrics |= _judged(dev_nll(state.model, dev, trial, worker))
        if saves:
            metrics |= {"checkpoint": float(state.step)}
            state.metrics = metrics
            if worker.leads:
                checkpoints.save(state.step, state.to_dict())
        if worker.leads:
            yield Report(state.step, metrics)
        window.resume(fresh=logs)


@dataclass
class Window:
    """Time spent training and pieces trained on since the last log line; judging and saving are not counted."""

    targets: int = 0
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def stop(self) -> float:
        """Seconds since training went on."""
        elapsed = time.perf_counter() - self.began
        self.seconds += elapsed
        return elapsed

    def resume(self, fresh: bool) -> None:
        if fresh:
            self.targets, self.seconds = 0, 0.0
        self.began = time.perf_counter()


def _training_metrics(
    losses: list[Tensor], window: Window, state: State, trial: TrialConfig, worker: Worker
) -> Metrics:
    """Means over the steps since the last log line; float() here is the only wait for the device."""
    (loss,) = worker.sum([torch.stack(losses).mean()])
    losses.clear()
    seconds = window.seconds + time.perf_counter() - window.began
    return {
        "train/loss": loss,
        "train/learning_rate": learning_rate(trial.train, trial.model.d_model, state.step),
        "train/tokens_per_s": window.targets / seconds,
    }


def _judged(nll: float) -> Metrics:
    return {"dev/nll": nll, "dev/ppl": float(np.exp(min(nll, 700.0)))}  # beyond e^700 a float is infinite


def _step_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
