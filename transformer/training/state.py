"""The state of training: the model, its Adam (section 5.3), and how far they are; saved, loaded, and compared."""

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

DIGITS_SHOWN = 12  # of a digest, in a message


class DisagreementError(Exception):
    """The workers of a trial start from different states: the state of each rank, in one line."""


@dataclass
class TrainState:
    """Everything that training changes. The data order depends only on the step, so it is not stored."""

    model: Transformer
    optimizer: torch.optim.Adam
    step: int = 0
    lengths: Lengths = field(default_factory=Lengths)  # of all sentences so far
    best_nll: float = math.inf  # on dev

    def to_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers, which training goes on to change."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "lengths": dict(vars(self.lengths)),
            "best_nll": self.best_nll,
        }

    def load(self, saved: Saved) -> None:
        """Go on from a saved state. Raises StateError."""
        weights, state = fitting_weights(saved, self.model), saved.state
        shapes = enumerate(_shapes(list(self.model.parameters())))
        moments = {number: {"step": (), "exp_avg": shape, "exp_avg_sq": shape} for number, shape in shapes}
        if state.keys() != self.to_dict().keys() or _shapes(state["optimizer"]["state"]) != moments:
            raise _misfit(saved)
        self.model.load_state_dict(weights)
        load_adam(self.optimizer, state["optimizer"])
        self.step, self.lengths, self.best_nll = saved.step, Lengths(**state["lengths"]), state["best_nll"]

    def digest(self) -> str:
        """SHA-256 of weights and moments with their names, shapes and types; takes about a second per gigabyte."""
        sha256 = hashlib.sha256()
        for name, tensor in _tensors([self.model.state_dict(), self.optimizer.state_dict()["state"]]):
            sha256.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            sha256.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return sha256.hexdigest()


def start(config: TrialConfig, vocab_size: int, device: torch.device) -> TrainState:
    """A fresh model, initialized only by the seed, and its Adam (section 5.3)."""
    torch.manual_seed(config.train.seed)
    model = Transformer(config.model, vocab_size).to(device)
    return TrainState(model, adam(model, config.train, capturable=device.type == "cuda"))


def fitting_weights(saved: Saved, model: nn.Module) -> dict[str, Tensor]:
    """The weights in a saved state. Raises StateError, in one line, unless they fit ``model``."""
    weights: dict[str, Tensor] | None = saved.state.get("model") if isinstance(saved.state, dict) else None
    if weights is None or _shapes(weights) != _shapes(model.state_dict()):
        raise _misfit(saved)
    return weights


def mean_weights(states: Iterable[Saved], model: nn.Module) -> dict[str, Tensor]:
    """The mean of the weights of at least one state (section 6.1); memory holds two at a time.

    Raises StateError unless each fits ``model``.
    """
    n, total = 0, dict[str, Tensor]()
    for saved in states:
        weights = fitting_weights(saved, model)
        total = {name: total[name] + weight if n else weight for name, weight in weights.items()}
        n += 1
    return {name: weight / n for name, weight in total.items()}


def compare(state: TrainState, worker: Worker) -> None:
    """Raises DisagreementError unless all workers hold the same step, weights and moments, bit for bit."""
    if worker.world == 1:
        return
    held = worker.gather((state.step, state.digest()))
    if len(set(held)) > 1:
        ranks = ", ".join(f"rank {rank} step {step} ({sha[:DIGITS_SHOWN]})" for rank, (step, sha) in enumerate(held))
        fix = "give all workers the same code, packages and kind of device"
        raise DisagreementError(f"the workers start from different states: {ranks}; {fix}")


def _misfit(saved: Saved) -> StateError:
    fix = "use the code that wrote it, or remove it"
    return StateError(f"the checkpoint of step {saved.step} does not fit the model or its training; {fix}")


def _shapes(value: Any) -> Any:
    """The shape of each tensor in a nested value."""
    if isinstance(value, dict):
        return {name: _shapes(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shapes(inner) for inner in value]
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a nested value, by its path."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _tensors(inner, f"{name}/{key}")
    elif isinstance(value, Tensor):
        yield name, value


class EagerAdam(torch.optim.Adam):
    """torch's Adam without the import of torch.compile, which takes two seconds and is not used here.

    torch wraps these methods for graphs that are compiled, and the wrappers import it at their first call.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def adam(model: nn.Module, train: TrainConfig, capturable: bool) -> torch.optim.Adam:
    """Adam with β₁, β₂ and ε of ``train``, its step in one kernel.

    A capturable one reads its learning rate from one fixed tensor on the model's device, so that a CUDA graph of its
    step can be replayed at any rate.
    """
    parameters = list(model.parameters())
    rate = torch.zeros((), device=parameters[0].device) if capturable else 0.0
    warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")  # not all are captured
    betas = train.adam_beta1, train.adam_beta2
    return EagerAdam(parameters, rate, betas=betas, eps=train.adam_epsilon, fused=True, capturable=capturable)


def set_learning_rate(optimizer: torch.optim.Adam, rate: float) -> None:
    """Set the rate of the next steps, without waiting for a GPU."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def load_adam(optimizer: torch.optim.Adam, saved: dict[str, Any]) -> None:
    """Load moments, counts and learning rate of a saved Adam, from a CPU or a GPU."""
    own = optimizer.state_dict()["param_groups"]  # capturable or not depends on this device
    optimizer.load_state_dict({"state": saved["state"], "param_groups": own})
    set_learning_rate(optimizer, float(saved["param_groups"][0]["lr"]))


def learning_rate(train: TrainConfig, d_model: int, step: int) -> float:
    """lr_factor · d_model^−0.5 · min(step^−0.5, step · warmup_steps^−1.5), with steps counted from 1."""
    return float(train.lr_factor * d_model**-0.5 * min(step**-0.5, step * train.warmup_steps**-1.5))
