"""Checks that a saved state fits the model and its training, before any of it is loaded."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from transformer.cost import Lengths
from transformer.messages import Report
from transformer.training.checkpoint_files import DamagedError, SavedState

Sort = tuple[tuple[int, ...], torch.dtype]
"""A tensor's shape and type."""


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_amount(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value) and value >= 0


def _is_lengths(value: Any) -> bool:
    named = isinstance(value, dict) and set(value) == {field.name for field in fields(Lengths)}
    return named and all(map(_is_amount, value.values()))


def _is_metrics(value: Any) -> bool:
    return isinstance(value, dict) and all(type(name) is str and _is_number(item) for name, item in value.items())


def _is_reports(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(report, dict) and _is_report(report) for report in value)


def _is_report(value: dict[str, Any]) -> bool:
    named = set(value) == {field.name for field in fields(Report)}
    safe = named and (value["checkpoint"] is None or _is_count(value["checkpoint"]))
    return safe and _is_count(value["step"]) and _is_amount(value["ts"]) and _is_metrics(value["metrics"])


def _is_adam(value: Any) -> bool:
    groups = value.get("param_groups") if isinstance(value, dict) else None
    return (
        isinstance(groups, list) and len(groups) == 1 and isinstance(groups[0], dict) and _is_rate(groups[0].get("lr"))
    )


def _is_rate(value: Any) -> bool:
    return _is_amount(value.item() if isinstance(value, Tensor) and value.numel() == 1 else value)


FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "step": (_is_count, "a whole number of at least 0"),
    "model": (lambda value: isinstance(value, dict), "weights by name"),
    "optimizer": (_is_adam, "the moments and learning rate of Adam"),
    "seconds": (_is_amount, "a finite number of at least 0"),
    "lengths": (_is_lengths, "the sums of lengths by name"),
    "reports": (_is_reports, "the reports up to its step"),
    "best_nll": (_is_number, "a number"),
}
"""The required fields of a state (``train.TrainState.to_dict``) and their types. Other entries are ignored."""


def check_state(state: SavedState, model: nn.Module, steps: int) -> None:
    """Raises DamagedError, in one line, unless training of ``model`` for ``steps`` steps can resume from it."""
    for name, (fits, words) in FIELDS.items():
        if name not in state:
            raise DamagedError(f"state.pt does not fit: {name} is missing")
        if not fits(state[name]):
            raise DamagedError(f"state.pt does not fit: {name} is not {words}")
    if state["step"] > steps:
        raise DamagedError(f"state.pt does not fit: step is {state['step']}, but training has {steps} steps")
    check_weights(state, model)
    _check_moments(state, model)


def check_weights(state: SavedState, model: nn.Module) -> None:
    """Raises DamagedError, in one line, unless the weights of the state fit ``model``."""
    expected = {name: _sort(weight) for name, weight in model.state_dict().items()}
    _compare(state.get("model"), expected, "weight")


def _check_moments(state: SavedState, model: nn.Module) -> None:
    expected = dict(_adam_of(model)) if state["step"] else {}
    found = state["optimizer"].get("state")
    if not (isinstance(found, dict) and all(isinstance(item, dict) for item in found.values())):
        raise DamagedError("state.pt does not fit: the moments of Adam are missing")
    flat = {f"{index}.{name}": item for index, items in found.items() for name, item in items.items()}
    _compare(flat, expected, "Adam's")
    for items in found.values():
        if (count := items["step"].item()) != state["step"]:
            raise DamagedError(f"state.pt does not fit: Adam counts {count:g} steps, but step is {state['step']}")


def _adam_of(model: nn.Module) -> Iterator[tuple[str, Sort]]:
    """Adam's tensors for each parameter, named by the parameter's number."""
    for index, parameter in enumerate(model.parameters()):
        yield f"{index}.step", ((), torch.float32)
        yield f"{index}.exp_avg", _sort(parameter)
        yield f"{index}.exp_avg_sq", _sort(parameter)


def _compare(found: Any, expected: Mapping[str, Sort], what: str) -> None:
    if not isinstance(found, dict):
        raise DamagedError(f"state.pt does not fit: {what} names are missing")
    if missing := [name for name in expected if name not in found]:
        raise DamagedError(f"state.pt does not fit: {what} {missing[0]} is missing{_more(missing)}")
    if extra := [name for name in found if name not in expected]:
        raise DamagedError(f"state.pt does not fit: {what} {extra[0]!r} is unknown{_more(extra)}")
    for name, (shape, dtype) in expected.items():
        tensor = found[name]
        if not isinstance(tensor, Tensor):
            raise DamagedError(f"state.pt does not fit: {what} {name} is a {type(tensor).__name__}, not a tensor")
        if _sort(tensor) != (shape, dtype):
            is_, must = _words(*_sort(tensor)), _words(shape, dtype)
            raise DamagedError(f"state.pt does not fit: {what} {name} is {is_}, but must be {must}")


def _sort(tensor: Tensor) -> Sort:
    return tuple(tensor.shape), tensor.dtype


def _words(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    """Shape and type in words, such as float32 of 512 × 64."""
    return f"{str(dtype).removeprefix('torch.')} of {' × '.join(map(str, shape)) or 'one number'}"


def _more(names: list[str]) -> str:
    return f", and {len(names) - 1} more" if len(names) > 1 else ""
