"""The checkpoints of a trial as one attempt uses them, written while training continues.

An attempt writes only into its folder and starts from the folders of earlier attempts, so a worker believed dead
cannot disturb its successor. Incomplete and damaged checkpoints are skipped.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby, islice
from threading import Event
from typing import Any, TypeVar

from sweeps.processes.owner import Owner, SupersededError
from sweeps.processes.storage import StorageError, patiently, telling
from transformer.training import checkpoint_files as files
from transformer.training.checkpoint_files import SavedState
from transformer.training.checkpoint_folder import CheckpointFolder, Found, Place, StateCheck, any_state

T = TypeVar("T")
LOOK_S = 1.0
"""How often to look for notices of a write that is waited for."""


class CheckpointError(Exception):
    """In one line: a checkpoint could not be written (where, why, what remains), or a required one is missing."""


class Checkpoints:
    """The checkpoints of the trial ``key``, as seen by attempt ``attempt`` (see ``CheckpointFolder``)."""

    def __init__(self, url: str, key: str, attempt: int, keep: int) -> None:
        self.folder = CheckpointFolder(url, key)
        self.attempt, self.keep = attempt, keep
        self._so_far = range(attempt + 1)
        self._own: set[Place] = set()  # written by this process; an older trial may have used the same attempt
        self._noticed = 0  # lines
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running: Future[int] | None = None
        self._written: int | None = None
        self._owner: Owner | None = None
        self._left = Event()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *error: object) -> None:
        """A write that waits for storage gives up: nobody would learn of it."""
        self._left.set()

    def claim(self, run: str) -> None:
        """Own the trial's checkpoints from now on: earlier attempts that still live stop writing and removing.

        ``run`` is that of the assignment. Raises SupersededError, CheckpointError.
        """
        owner = Owner(self.folder.filesystem, self.folder.root, self.attempt, run)
        try:
            self._patiently(owner.claim, owner.path)
        except SupersededError:
            raise
        except Exception as error:
            raise CheckpointError(f"cannot write checkpoints to {self.folder.url}: {_in_words(error)}") from error
        self._owner = owner

    @property
    def passed_over(self) -> list[str]:
        """One line per checkpoint that was found and skipped, and per fault of storage that was waited for."""
        return self.folder.passed_over

    def notices(self) -> list[str]:
        """The lines added to ``passed_over`` since the last call."""
        lines, self._noticed = self.passed_over[self._noticed :], len(self.passed_over)
        return lines

    def save(self, step: int, state: SavedState, dev_nll: float | None = None, stop: bool = False) -> None:
        """Copy a plain state to host memory and write it in the background; then remove the oldest.

        The newest ``keep`` of this attempt stay, and the one with the lowest ``dev_nll`` (nats per target piece, None
        if not evaluated). A checkpoint saved only for a ``stop`` does not count, and stays until training is over.
        Memory holds one copy at a time, so an earlier write is waited for. Raises the errors of ``wait``.
        """
        self._settle()
        self._running = self._writer.submit(self._write, step, files.on_host(state), dev_nll, stop)

    def wait(self) -> int | None:
        """Wait for the write. Returns the newest step written, or found by ``newest``, since the last call.

        Raises CheckpointError if the write failed; a partial checkpoint is removed.
        """
        self._settle()
        written, self._written = self._written, None
        return written

    def until_written(self) -> Iterator[str]:
        """Wait for the write, and yield the new ``notices`` as they come."""
        while self._running and not self._running.done():
            futures.wait([self._running], LOOK_S)
            yield from self.notices()
        yield from self.notices()

    def newest(self, check: StateCheck = any_state) -> SavedState | None:
        """The state of the newest complete checkpoint of an earlier attempt that fits.

        Raises StorageError, which is no CheckpointError: nothing is known to be wrong with the checkpoints.
        """
        self._patiently(self.folder.pass_over_others, self.folder.url)
        earlier = range(self.attempt)
        state = self._patiently(lambda: self._first_whole(self.folder.finished(earlier), check), self.folder.url)
        self._written = None if state is None else state["step"]
        return state

    def last(self, n: int, up_to: int = sys.maxsize, check: StateCheck = any_state) -> Iterator[SavedState]:
        """The states of the newest ``n`` complete checkpoints, this attempt's included, each step once, newest first.

        They are read one by one, since ``n`` of them may not fit into memory. Checkpoints after step ``up_to`` and
        those of a stop are not read.
        """
        self._settle()
        finished = _regular(self.folder.finished(self._so_far, up_to))
        states = (self._first_whole(same, check) for _, same in groupby(finished, key=_step))
        yield from islice((state for state in states if state is not None), n)

    def at(self, steps: Sequence[int], check: StateCheck = any_state) -> Iterator[SavedState]:
        """The states of these steps in their order, one by one. It ends before the first missing or damaged one."""
        self._settle()
        finished = list(self.folder.finished(self._so_far, max(steps, default=0)))
        for step in steps:
            state = self._first_whole((found for found in finished if _step(found) == step), check)
            if state is None:
                return
            yield state

    def tidy(self) -> None:
        """Training is over: from all attempts so far, keep the newest ``keep`` steps and the best, each step once.

        Checkpoints of a stop are removed, since nothing resumes from them now. If a removal fails, ``passed_over``
        gets a line about it.
        """
        self._settle()
        try:
            self._tidy()
        except Exception as error:
            self.folder.pass_over(f"{self.folder.url}: cannot remove older checkpoints: {_in_words(error)}")

    def _check_owner(self) -> None:
        if self._owner:
            self._owner.check()

    def _tidy(self) -> None:
        self._check_owner()
        there, finished = set(self.folder.places(self._so_far)), list(self.folder.finished(self._so_far))
        kept = _kept(finished, self.keep, lambda *found: True)
        if there != kept:  # before a removal, check that the kept ones are complete
            kept = _kept(finished, self.keep, self.folder.is_whole)
        for place in sorted(there - kept if kept else ()):
            if not self.folder.belongs_to_another(place):
                self.folder.remove(place)
        self.folder.remove_leftovers(self._so_far, kept)

    def _settle(self) -> None:
        running, self._running = self._running, None
        if running:
            self._written = running.result()

    def _write(self, step: int, state: SavedState, dev_nll: float | None, stop: bool) -> int:
        """Runs in the background; removes a partial checkpoint after an error."""
        folder, place = self.folder, Place(step, self.attempt)
        try:
            write = partial(files.write, folder.filesystem, folder.path(place), step, folder.key, state, dev_nll, stop)
            self._patiently(partial(self._as_owner, write), folder.path(place))
            self._own.add(place)
            self._patiently(partial(self._as_owner, self._prune), folder.path(place))  # a successor may have begun
        except SupersededError as error:
            raise CheckpointError(str(error)) from error
        except Exception as error:
            cause = f"cannot write checkpoint {folder.url}/{place}: {_in_words(error)}"
            raise CheckpointError(f"{cause}; {self._standing(place)}") from error
        return step

    def _patiently(self, act: Callable[[], T], place: str) -> T:
        """What ``act`` returns; what it waits for is told in ``notices``. Raises StorageError."""
        return telling(patiently(act, place, self._left), self.folder.pass_over)

    def _as_owner(self, act: Callable[[], None]) -> None:
        """Raises SupersededError."""
        self._check_owner()
        act()

    def _prune(self) -> None:
        finished = _regular(self.folder.finished(range(self.attempt, self.attempt + 1)))
        own = [found for found in finished if found[0] in self._own]
        for place in {place for place, _ in own} - _kept(own, self.keep, lambda *found: True):
            self.folder.remove(place)

    def _standing(self, failed: Place) -> str:
        """Remove the partial checkpoint, and describe what the next attempt will find."""
        try:
            if files.read_manifest(self.folder.filesystem, self.folder.path(failed)) is None:
                self.folder.remove(failed)
            for place, manifest in self.folder.finished(self._so_far):
                if self.folder.is_whole(place, manifest):
                    return f"the newest complete checkpoint is {self.folder.url}/{place}"
        except Exception as error:
            return f"the remaining checkpoints cannot be listed: {_in_words(error)}"
        return "there is no complete checkpoint"

    def _first_whole(self, finished: Iterable[Found], check: StateCheck) -> SavedState | None:
        states = (self.folder.read(place, manifest, check) for place, manifest in finished)
        return next((state for state in states if state is not None), None)


def _kept(finished: list[Found], keep: int, is_whole: Callable[..., bool]) -> set[Place]:
    """The newest ``keep`` regular steps and the best; if several attempts have a step, the latest complete one."""
    steps: dict[int, Found] = {}
    for place, manifest in _regular(finished):
        if place.step not in steps and is_whole(place, manifest):
            steps[place.step] = (place, manifest)
    once = list(steps.values())
    return {place for place, _ in once[:keep] + _best_first(once)[:1]}


def _regular(finished: Iterable[Found]) -> Iterator[Found]:
    """The checkpoints that an uninterrupted run has, too."""
    return (found for found in finished if not found[1].stop)


def _step(found: Found) -> int:
    return found[0].step


def _best_first(finished: Iterable[Found]) -> list[Found]:
    """The evaluated checkpoints by dev_nll; among equals, the newest first."""
    evaluated = [(manifest.dev_nll, place, manifest) for place, manifest in finished if manifest.dev_nll is not None]
    ranked = sorted(evaluated, key=lambda each: (each[0], -each[1].step, -each[1].attempt))
    return [(place, manifest) for _, place, manifest in ranked]


def _in_words(error: Any) -> str:
    """The error in one line: what to do about storage, or the operating system's message if it has one."""
    if isinstance(error, StorageError):
        return error.with_fix
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(words).splitlines()[0]
