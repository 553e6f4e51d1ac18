"""Adam and its learning rate (section 5.3), for CPUs and for replay in CUDA graphs."""

import warnings
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from transformer.config import TrainConfig


class EagerAdam(torch.optim.Adam):
    """torch's Adam without the import of torch.compile, which takes two seconds and is not used here.

    torch wraps these methods for graphs that are compiled, and the wrappers import it at their first call.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def adam(model: nn.Module, capturable: bool) -> torch.optim.Adam:
    """β₁ 0.9, β₂ 0.98, ε 1e−9. A capturable one reads its learning rate from one fixed tensor on the model's device,
    so that a CUDA graph of its step can be replayed at any rate."""
    parameters = list(model.parameters())
    rate = torch.zeros((), device=parameters[0].device) if capturable else 0.0
    warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")  # not all are captured
    return EagerAdam(parameters, rate, betas=(0.9, 0.98), eps=1e-9, fused=True, capturable=capturable)


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
