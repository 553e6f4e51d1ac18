"""The checkpoints of a trial at any fsspec URL, ``a<attempt>/step-<n>/`` each, written while training goes on.

An attempt writes only into its own folder and starts from those of earlier attempts, so a worker believed dead
cannot disturb its successor. What is not whole is passed over.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import fsspec

from transformer.training import checkpoint_files as files
from transformer.training.checkpoint_files import DamagedError, Manifest, State


class CheckpointError(Exception):
    """A checkpoint could not be written: where, why, and which newest one still stands, in one line."""


@dataclass(frozen=True, order=True)
class Place:
    """One checkpoint's place in its trial; the newest is that of the latest step, then of the latest attempt."""

    step: int
    attempt: int

    def __str__(self) -> str:
        return f"a{self.attempt}/step-{self.step}"


class Checkpoints:
    """The checkpoints of one trial, as attempt ``attempt`` sees them.

    ``passed_over`` holds a line on each damaged one that a reader met. A filesystem that cannot be asked raises its
    own error: to begin anew because a server does not answer would throw away what was trained.
    """

    def __init__(self, url: str, attempt: int, keep: int) -> None:
        self.filesystem, self.root = fsspec.core.url_to_fs(url)
        self.url, self.attempt, self.keep = url.rstrip("/"), attempt, keep
        self.passed_over: list[str] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running: Future[int] | None = None
        self._written: int | None = None

    def save(self, step: int, state: State, dev_nll: float | None = None) -> None:
        """Copy a plain state to host memory and have it written in the background; then the oldest are let go.

        The newest ``keep`` of this attempt stay, and the one of the lowest ``dev_nll`` (nats a target piece; None if
        not judged). One copy is held at a time: the write before this one is waited for. Raises what ``wait`` raises.
        """
        self._settle()
        self._running = self._writer.submit(self._write, step, files.on_host(state), dev_nll)

    def wait(self) -> int | None:
        """Until nothing is being written; the newest step written since the last call, None if there is none.

        Raises CheckpointError if it could not be written; what was written of it is gone.
        """
        self._settle()
        written, self._written = self._written, None
        return written

    def newest(self) -> State | None:
        """The state of the newest whole checkpoint of an earlier attempt."""
        return self._first_whole(self._finished(range(self.attempt)))

    def last(self, n: int, up_to: int = sys.maxsize) -> Iterator[State]:
        """The states of the newest ``n`` whole checkpoints, this attempt's included, each step once, newest first.

        Read one by one, since ``n`` of them may be more than memory holds. Those after step ``up_to`` are not read.
        """
        self._settle()
        steps: set[int] = set()
        for place, manifest in self._finished(range(self.attempt + 1), up_to):
            state = self._read(place, manifest) if place.step not in steps else None
            if state is not None:
                yield state
                steps.add(place.step)
            if len(steps) == n:
                return

    def best(self) -> State | None:
        """The state of the whole checkpoint of the lowest dev_nll, the newest of equals; None if none was judged."""
        self._settle()
        return self._first_whole(_best_first(self._finished(range(self.attempt + 1))))

    def _settle(self) -> None:
        running, self._running = self._running, None
        if running:
            self._written = running.result()

    def _write(self, step: int, state: State, dev_nll: float | None) -> int:
        """In the background. Nothing that is half written stays."""
        place = Place(step, self.attempt)
        try:
            files.write(self.filesystem, self._path(place), step, state, dev_nll)
            self._prune()
        except Exception as error:
            cause = f"cannot write checkpoint {self.url}/{place}: {_in_words(error)}"
            raise CheckpointError(f"{cause}; {self._standing(place)}") from error
        return step

    def _prune(self) -> None:
        own = list(self._finished(range(self.attempt, self.attempt + 1)))
        kept = {place for place, _ in own[: self.keep] + _best_first(own)[:1]}
        for place, _ in own:
            if place not in kept:
                files.remove(self.filesystem, self._path(place))

    def _standing(self, failed: Place) -> str:
        """Clear away what is half written, and say what a next attempt will find."""
        try:
            if files.read_manifest(self.filesystem, self._path(failed)) is None:
                self._discard(failed)
            for place, manifest in self._finished(range(self.attempt + 1)):
                if self._is_whole(place, manifest):
                    return f"the newest whole checkpoint is {self.url}/{place}"
        except Exception as error:
            return f"what stands there cannot be looked up: {_in_words(error)}"
        return "there is no whole checkpoint"

    def _discard(self, place: Place) -> None:
        if self.filesystem.exists(self._path(place)):
            self.filesystem.rm(self._path(place), recursive=True)

    def _finished(self, attempts: range, up_to: int = sys.maxsize) -> Iterator[tuple[Place, Manifest]]:
        """Those with a manifest, newest first."""
        for place in sorted((place for place in self._places(attempts) if place.step <= up_to), reverse=True):
            try:
                manifest = files.read_manifest(self.filesystem, self._path(place))
            except DamagedError as damage:
                self._pass_over(place, damage)
                continue
            if manifest:
                yield place, manifest

    def _places(self, attempts: range) -> Iterator[Place]:
        self.filesystem.invalidate_cache()  # other processes write here, too
        for attempt in self._numbers(self.root, "a"):
            if attempt in attempts:
                for step in self._numbers(f"{self.root}/a{attempt}", "step-"):
                    yield Place(step, attempt)

    def _numbers(self, folder: str, prefix: str) -> list[int]:
        """The numbers of the entries ``<prefix><number>``; [] without a folder."""
        try:
            paths = self.filesystem.ls(folder, detail=False)
        except FileNotFoundError:
            return []
        found = [re.fullmatch(rf"{prefix}(\d+)", path.rstrip("/").rsplit("/", 1)[-1]) for path in paths]
        return [int(match[1]) for match in found if match]

    def _first_whole(self, finished: Iterable[tuple[Place, Manifest]]) -> State | None:
        states = (self._read(place, manifest) for place, manifest in finished)
        return next((state for state in states if state is not None), None)

    def _read(self, place: Place, manifest: Manifest) -> State | None:
        """None if it is damaged."""
        try:
            files.check(self.filesystem, self._path(place), manifest)
            return files.load(self.filesystem, self._path(place))
        except DamagedError as damage:
            self._pass_over(place, damage)
            return None

    def _is_whole(self, place: Place, manifest: Manifest) -> bool:
        try:
            files.check(self.filesystem, self._path(place), manifest)
        except DamagedError as damage:
            self._pass_over(place, damage)
            return False
        return True

    def _pass_over(self, place: Place, damage: DamagedError) -> None:
        line = f"{self.url}/{place}: {damage}"
        if line not in self.passed_over:
            self.passed_over.append(line)

    def _path(self, place: Place) -> str:
        return f"{self.root}/{place}"


def _best_first(finished: Iterable[tuple[Place, Manifest]]) -> list[tuple[Place, Manifest]]:
    """The judged ones by their dev_nll; of equals the newest first."""
    judged = [(manifest.dev_nll, place, manifest) for place, manifest in finished if manifest.dev_nll is not None]
    ranked = sorted(judged, key=lambda each: (each[0], -each[1].step, -each[1].attempt))
    return [(place, manifest) for _, place, manifest in ranked]


def _in_words(error: Any) -> str:
    """One line: the operating system's words where it has any."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(words).splitlines()[0]
