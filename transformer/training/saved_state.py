"""Checks that a saved state fits the model and its training, before any of it is loaded."""

from typing import Any

from torch import Tensor, float32, nn

from transformer.training.checkpoint_files import DamagedError, SavedState

FIELDS = ("model", "optimizer", "seconds", "lengths", "reports", "best_nll")
"""What a state (``train.TrainState.to_dict``) has besides its step."""
MISFIT = "state.pt does not fit the model or its training; use the code that wrote it, or remove the checkpoint"
ONE = (), float32
"""The shape and type of Adam's count of steps."""


def check_state(state: SavedState, model: nn.Module, steps: int) -> None:
    """Raises DamagedError, in one line, unless training of ``model`` for ``steps`` steps can resume from it."""
    check_weights(state, model)
    step = state.get("step")
    whole = all(name in state for name in FIELDS) and type(step) is int and 0 <= step <= steps
    if not whole or not _moments_fit(state["optimizer"], model, state["step"]):
        raise DamagedError(MISFIT)


def check_weights(state: SavedState, model: nn.Module) -> None:
    """Raises DamagedError, in one line, unless the weights of the state fit ``model``."""
    if _sorts(state.get("model")) != _sorts(model.state_dict()):
        raise DamagedError(MISFIT)


def _moments_fit(adam: Any, model: nn.Module, step: int) -> bool:
    """Adam's tensors are named by the parameter's number; before the first step it has none."""
    parameters = map(_sorts, model.parameters() if step else ())
    expected = {index: {"step": ONE, "exp_avg": sort, "exp_avg_sq": sort} for index, sort in enumerate(parameters)}
    found: Any = adam.get("state") if isinstance(adam, dict) else None
    return _sorts(found) == expected and all(each["step"].item() == step for each in found.values())


def _sorts(value: Any) -> Any:
    """Shape and type of each tensor, by name."""
    if isinstance(value, dict):
        return {name: _sorts(inner) for name, inner in value.items()}
    return (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else None
