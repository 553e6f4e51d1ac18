"""What two trials share if they computed the same: nested states without times and speeds."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from saved_state import saved_state
from torch import Tensor

OF_THE_MACHINE = (
    "seconds",
    "cpu_seconds",
    "device_flops",
    "sustained",
    "pace",
    "tokens_per_s",
    "padded_tokens_per_s",
    "data_wait",
    "flops_per_s",
    "mfu",
)
"""Speed is not part of the computed result."""


OF_ATTEMPTS = ("ts", "attempt", "lineage", "run")


def computed(tree: Any) -> Any:
    """Nested content without times, speeds, the load of the machine, attempts, and their random
    names."""
    if isinstance(tree, dict):
        compared = {name: item for name, item in tree.items() if not _of_the_machine(str(name))}
        return {name: computed(item) for name, item in compared.items() if name not in OF_ATTEMPTS}
    return [computed(item) for item in tree] if isinstance(tree, list | tuple) else tree


def leaves(tree: Any, name: str = "") -> dict[str, Any]:
    """Every tensor and value of a nested state, by its path."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {
            path: leaf
            for key, item in items
            for path, leaf in leaves(item, f"{name}/{key}").items()
        }
    return {name: tree}


def state_after(trial: Path, step: int) -> dict[str, Any]:
    """The leaves of the checkpoint of this step."""
    (folder,) = trial.glob(f"checkpoints/*/a*/step-{step}")
    return leaves(saved_state(folder))


def differing(actual: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """The names of leaves that are not the same to the bit."""
    names = [
        name for name in expected if name not in actual or not _same(actual[name], expected[name])
    ]
    return names + [name for name in actual if name not in expected]


def _same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, Tensor):
        return torch.equal(actual, expected)
    return (
        np.array_equal(actual, expected)
        if isinstance(expected, np.ndarray)
        else bool(actual == expected)
    )


def _of_the_machine(name: str) -> bool:
    return name.startswith("system/") or name.removeprefix("train/") in OF_THE_MACHINE
