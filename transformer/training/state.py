"""The state of training: the model, its Adam (section 5.3), its step; saved, loaded, compared."""

import hashlib
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from sweeps.task import Saved, StateError
from transformer.config import TrainConfig, TrialConfig
from transformer.cost import Lengths
from transformer.model.encoder_decoder import Transformer
from transformer.training.worker_group import Worker

DIGITS_SHOWN = 12  # how much of a digest a message shows


class DisagreementError(Exception):
    """The workers of a trial start from different states: the state of each rank, in one line."""


@dataclass
class TrainState:
    """Everything that training changes, except the data order, which depends only on the step."""

    model: Transformer
    optimizer: torch.optim.Adam
    step: int = 0
    lengths: Lengths = field(default_factory=Lengths)  # of all sentences so far
    best_nll: float = math.inf  # on dev

    def to_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers. They are no copies: the next step changes them."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "lengths": dict(vars(self.lengths)),
            "best_nll": self.best_nll,
        }

    def load(self, saved: Saved) -> None:
        """Continue from a saved state. Raises StateError if it doesn't fit."""
        weights = fitting_weights(saved, self.model)
        state = saved.state
        if state.keys() != self.to_dict().keys():
            raise _misfit(saved)
        if _shapes(state["optimizer"]["state"]) != self._moment_shapes():
            raise _misfit(saved)
        self.model.load_state_dict(weights)
        load_adam(self.optimizer, state["optimizer"])
        self.step = saved.step
        self.lengths = Lengths(**state["lengths"])
        self.best_nll = state["best_nll"]

    def _moment_shapes(self) -> dict[int, dict[str, Any]]:
        """The shapes of Adam's state, by the number of the parameter."""
        moments = dict[int, dict[str, Any]]()
        for number, parameter in enumerate(self.model.parameters()):
            shape = tuple(parameter.shape)
            moments[number] = {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
        return moments

    def digest(self) -> str:
        """SHA-256 of weights and moments with their names, shapes and types.

        It takes about a second per gigabyte.
        """
        sha256 = hashlib.sha256()
        weights = self.model.state_dict()
        moments = self.optimizer.state_dict()["state"]
        for name, tensor in _tensors([weights, moments]):
            header = f"{name} {tensor.dtype} {tuple(tensor.shape)}\n"
            flat = tensor.detach().cpu().contiguous().view(-1)
            sha256.update(header.encode())
            sha256.update(flat.view(torch.uint8).numpy().data)
        return sha256.hexdigest()


def start(config: TrialConfig, vocab_size: int, device: torch.device) -> TrainState:
    """A fresh model, initialized only by the seed, and its Adam (section 5.3)."""
    torch.manual_seed(config.train.seed)
    model = Transformer(config.model, vocab_size).to(device)
    return TrainState(model, adam(model, config.train, capturable=device.type == "cuda"))


def fitting_weights(saved: Saved, model: nn.Module) -> dict[str, Tensor]:
    """The weights in a saved state. Raises StateError, in one line, unless they fit ``model``."""
    if not isinstance(saved.state, dict):
        raise _misfit(saved)
    weights: dict[str, Tensor] | None = saved.state.get("model")
    if weights is None or _shapes(weights) != _shapes(model.state_dict()):
        raise _misfit(saved)
    return weights


def mean_weights(states: Iterable[Saved], model: nn.Module) -> dict[str, Tensor]:
    """The mean of the weights of at least one state (section 6.1); memory holds two at a time.

    Raises StateError unless each fits ``model``.
    """
    n = 0
    total = dict[str, Tensor]()
    for saved in states:
        weights = fitting_weights(saved, model)
        if n > 0:
            weights = {name: total[name] + weight for name, weight in weights.items()}
        total = weights
        n += 1
    return {name: weight / n for name, weight in total.items()}


def compare(state: TrainState, worker: Worker) -> None:
    """Check that all workers hold the same step, weights and moments, bit for bit.

    Raises DisagreementError.
    """
    if worker.world == 1:
        return
    states = worker.gather((state.step, state.digest()))
    if len(set(states)) > 1:
        ranks = []
        for rank, (step, digest) in enumerate(states):
            ranks.append(f"rank {rank} step {step} ({digest[:DIGITS_SHOWN]})")
        fault = f"the workers start from different states: {', '.join(ranks)}"
        fix = "give all workers the same code, packages and kind of device"
        raise DisagreementError(f"{fault}; {fix}")


def _misfit(saved: Saved) -> StateError:
    fault = f"the checkpoint of step {saved.step} does not fit the model or its training"
    return StateError(f"{fault}; use the code that wrote it, or remove it")


def _shapes(value: Any) -> Any:
    """The same nested value with each tensor replaced by its shape, and any other leaf by None."""
    if isinstance(value, dict):
        return {name: _shapes(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shapes(inner) for inner in value]
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The path and the tensor of each tensor in a nested value, such as "/0/embedding"."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _tensors(inner, f"{name}/{key}")
    elif isinstance(value, Tensor):
        yield name, value


class EagerAdam(torch.optim.Adam):
    """torch's Adam without the import of torch.compile, which takes two seconds and isn't used.

    torch wraps these methods for compiled graphs, and the wrappers import torch.compile at their
    first call.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def adam(model: nn.Module, train: TrainConfig, capturable: bool) -> torch.optim.Adam:
    """Adam with β₁, β₂ and ε of ``train``, its step in one kernel.

    A capturable Adam reads its learning rate from a fixed tensor on the model's device, so that a
    CUDA graph of its step can be replayed at any rate.
    """
    parameters = list(model.parameters())
    rate = torch.zeros((), device=parameters[0].device) if capturable else 0.0
    # torch warns about steps that no CUDA graph records; a trial may have such steps.
    warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
    return EagerAdam(
        parameters,
        rate,
        betas=(train.adam_beta1, train.adam_beta2),
        eps=train.adam_epsilon,
        fused=True,
        capturable=capturable,
    )


def set_learning_rate(optimizer: torch.optim.Adam, rate: float) -> None:
    """Set the rate of the next steps, without waiting for a GPU."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def load_adam(optimizer: torch.optim.Adam, saved: dict[str, Any]) -> None:
    """Load moments, counts and learning rate of a saved Adam, from a CPU or a GPU."""
    # Whether Adam is capturable depends on this device, so the options are not the saved ones.
    options = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": saved["state"], "param_groups": options})
    set_learning_rate(optimizer, float(saved["param_groups"][0]["lr"]))


def learning_rate(train: TrainConfig, d_model: int, step: int) -> float:
    """lr_factor · d_model^−0.5 · min(step^−0.5, step · warmup_steps^−1.5); steps count from 1."""
    warmup = step * train.warmup_steps**-1.5
    decay = step**-0.5
    return float(train.lr_factor * d_model**-0.5 * min(decay, warmup))
