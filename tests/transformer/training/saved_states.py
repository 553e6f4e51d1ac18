"""Small plain states, and functions to save and find them."""

import hashlib
import json
from typing import Any

import fsspec
import torch
from small_trials import KEY, OWN

from transformer.training.checkpoint import Checkpoints


def state(step: int, size: int = 5) -> dict[str, Any]:
    """``size`` numbers of four bytes, and the other fields of a state."""
    return {
        "step": step,
        "model": {"w": torch.arange(size, dtype=torch.float32) * step},
        "metrics": {"dev/ppl": 1.5},
        "seconds": 0.25,
    }


def save(url: str, attempt: int, *steps: int, keep: int = 9, **changes: Any) -> Checkpoints:
    """Write checkpoints as one attempt, and wait for the last write."""
    checkpoints = Checkpoints(url, KEY, attempt, keep)
    for step in steps:
        checkpoints.save(step, state(step) | changes)
        assert checkpoints.wait() == step
    return checkpoints


def save_evaluated(url: str, attempt: int, nlls: dict[int, float | None], keep: int = 9) -> Checkpoints:
    """One checkpoint per step, with its dev_nll."""
    checkpoints = Checkpoints(url, KEY, attempt, keep)
    for step, nll in nlls.items():
        checkpoints.save(step, state(step), nll)
        checkpoints.wait()
    return checkpoints


def files(url: str, pattern: str = "a*/step-*") -> list[str]:
    """Paths below the folder of the trial."""
    filesystem, root = fsspec.core.url_to_fs(f"{url}/{OWN}")
    filesystem.invalidate_cache()
    return sorted(path.split(root)[1].strip("/") for path in filesystem.glob(f"{root}/{pattern}"))


def manifest_of(content: bytes, step: int, key: str = KEY) -> bytes:
    """A valid ``manifest.json`` of a checkpoint whose ``state.pt`` has this content."""
    sha256 = hashlib.sha256(content).hexdigest()
    return sealed({"bytes": len(content), "dev_nll": None, "key": key, "sha256": sha256, "step": step, "stop": False})


def sealed(fields: dict[str, Any]) -> bytes:
    """A manifest of these fields, in the order of their names, with its checksum."""
    checksum = hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()
    return json.dumps(fields | {"manifest_sha256": checksum}).encode()


def put(url: str, step: int, content: bytes, key: str = KEY) -> None:
    """A checkpoint of the first attempt with this ``state.pt`` and its valid manifest."""
    filesystem, root = fsspec.core.url_to_fs(url)
    folder = f"{root}/{OWN}/a1/step-{step}"
    filesystem.makedirs(folder, exist_ok=True)
    filesystem.pipe_file(f"{folder}/state.pt", content)
    filesystem.pipe_file(f"{folder}/manifest.json", manifest_of(content, step, key))


def step_of(found: dict[str, Any] | None) -> int | None:
    return None if found is None else int(found["step"])


def newest_step(url: str, attempt: int) -> int | None:
    """The step at which this attempt resumes."""
    return step_of(Checkpoints(url, KEY, attempt, keep=5).newest())
