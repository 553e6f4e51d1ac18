"""Checkpoints at any fsspec URL: ``a<attempt>/step-<n>/`` holds ``state.pt``, then ``manifest.json``.

The manifest carries the checksum and is written last: a folder without a matching one is not whole, and is passed
over. An attempt writes only into its own folder and starts from those of earlier attempts, so a worker believed
dead cannot disturb its successor.
"""

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import torch

State = dict[str, Any]


@dataclass(frozen=True, order=True)
class Place:
    """Where one checkpoint lies; ordered by step, then attempt."""

    step: int
    attempt: int
    path: str


class Checkpoints:
    """The checkpoints of one trial, as attempt ``attempt`` sees them."""

    def __init__(self, url: str, attempt: int, keep: int) -> None:
        self.filesystem, self.root = fsspec.core.url_to_fs(url)
        self.attempt, self.keep = attempt, keep
        self.passed_over: list[str] = []

    def wait(self) -> int | None:
        """Until the running write is done."""

    def save(self, step: int, state: State, dev_nll: float | None = None) -> None:
        """Write one whole checkpoint, then let go of this attempt's oldest beyond ``keep``."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getvalue()
        folder = f"{self.root}/a{self.attempt}/step-{step}"
        self.filesystem.makedirs(folder, exist_ok=True)
        self._write(f"{folder}/state.pt", content)
        manifest = {"step": step, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        self._write(f"{folder}/manifest.json", json.dumps(manifest).encode())
        own = sorted(place for place in self._places() if place.attempt == self.attempt)
        for place in own[: -self.keep]:
            self.filesystem.rm(place.path, recursive=True)

    def newest(self) -> State | None:
        """The state of the newest whole checkpoint of an earlier attempt."""
        return next(self._whole(lambda place: place.attempt < self.attempt), None)

    def last(self, n: int) -> list[State]:
        """The states of the newest ``n`` whole checkpoints, this attempt's included, newest first."""
        states: dict[int, State] = {}
        for state in self._whole(lambda place: place.attempt <= self.attempt):
            states.setdefault(state["step"], state)
            if len(states) == n:
                break
        return list(states.values())

    def _whole(self, wanted: Any) -> Iterator[State]:
        for place in sorted(filter(wanted, self._places()), reverse=True):
            state = self._read(place)
            if state is not None:
                yield state

    def _places(self) -> Iterator[Place]:
        for path in self.filesystem.glob(f"{self.root}/a*/step-*"):
            match = re.search(r"/a(\d+)/step-(\d+)/?$", path)
            if match:
                yield Place(int(match[2]), int(match[1]), path)

    def _read(self, place: Place) -> State | None:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            manifest = json.loads(self.filesystem.cat_file(f"{place.path}/manifest.json"))
            content = self.filesystem.cat_file(f"{place.path}/state.pt")
            if hashlib.sha256(content).hexdigest() == manifest["sha256"]:
                state: State = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
                return state
        return None

    def _write(self, path: str, content: bytes) -> None:
        with self.filesystem.open(path, "wb") as file:
            file.write(content)
            file.flush()
            if hasattr(file, "fileno"):
                with contextlib.suppress(OSError):  # object stores are durable at close, and have no file number
                    os.fsync(file.fileno())
