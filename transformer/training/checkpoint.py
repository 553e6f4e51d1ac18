"""The checkpoints of a trial as one attempt uses them, written while training goes on.

An attempt writes only into its own folder and starts from those of earlier attempts, so a worker believed dead
cannot disturb its successor. What is not whole is passed over.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby, islice
from typing import Any

from transformer.training import checkpoint_files as files
from transformer.training.checkpoint_files import SavedState
from transformer.training.checkpoint_folder import CheckpointFolder, Found, Place, StateCheck, any_state


class CheckpointError(Exception):
    """In one line: a checkpoint could not be written (where, why, what still stands), or one that is needed is gone."""


class Checkpoints:
    """The checkpoints of the trial ``key``, as attempt ``attempt`` sees them (see ``CheckpointFolder``)."""

    def __init__(self, url: str, key: str | None, attempt: int, keep: int) -> None:
        self.folder = CheckpointFolder(url, key)
        self.attempt, self.keep = attempt, keep
        self._so_far = range(attempt + 1)
        self._own: set[Place] = set()  # what this process wrote: of the same attempt there may be an older trial's
        self._told = 0  # lines
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running: Future[int] | None = None
        self._written: int | None = None

    @property
    def passed_over(self) -> list[str]:
        """A line on each checkpoint that a reader met and did not use."""
        return self.folder.passed_over

    def notices(self) -> list[str]:
        """The lines of ``passed_over`` that came since the last call."""
        lines, self._told = self.passed_over[self._told :], len(self.passed_over)
        return lines

    def save(self, step: int, state: SavedState, dev_nll: float | None = None, stop: bool = False) -> None:
        """Copy a plain state to host memory and have it written in the background; then remove the oldest.

        The newest ``keep`` of this attempt stay, and the one of the lowest ``dev_nll`` (nats per target piece; None if
        not evaluated). One that only a ``stop`` caused does not count, and stays until training is over. One copy is
        held at a time: a write before it is waited for. Raises what ``wait`` raises.
        """
        self._settle()
        self._running = self._writer.submit(self._write, step, files.on_host(state), dev_nll, stop)

    def wait(self) -> int | None:
        """Until nothing is being written; the newest step written, or found by ``newest``, since the last call.

        Raises CheckpointError if it could not be written; what was written of it is gone.
        """
        self._settle()
        written, self._written = self._written, None
        return written

    def exist(self) -> bool:
        """Whether any attempt up to this one has left something."""
        return any(self.folder.places(self._so_far))

    def newest(self, check: StateCheck = any_state) -> SavedState | None:
        """The state of the newest whole checkpoint of an earlier attempt that fits."""
        self.folder.pass_over_others()
        state = self._first_whole(self.folder.finished(range(self.attempt)), check)
        self._written = None if state is None else state["step"]
        return state

    def last(self, n: int, up_to: int = sys.maxsize, check: StateCheck = any_state) -> Iterator[SavedState]:
        """The states of the newest ``n`` whole checkpoints, this attempt's included, each step once, newest first.

        Read one by one, since ``n`` of them may be more than memory holds. Those after step ``up_to`` are not read,
        nor those of a stop.
        """
        self._settle()
        finished = _regular(self.folder.finished(self._so_far, up_to))
        states = (self._first_whole(same, check) for _, same in groupby(finished, key=_step))
        yield from islice((state for state in states if state is not None), n)

    def at(self, steps: Sequence[int], check: StateCheck = any_state) -> Iterator[SavedState]:
        """The states of these steps in their order, one by one. It ends before the first that is not there whole."""
        self._settle()
        finished = list(self.folder.finished(self._so_far, max(steps, default=0)))
        for step in steps:
            state = self._first_whole((found for found in finished if _step(found) == step), check)
            if state is None:
                return
            yield state

    def best(self, check: StateCheck = any_state) -> SavedState | None:
        """The state of the whole checkpoint of the lowest dev_nll, the newest of equals; None if none was evaluated."""
        self._settle()
        return self._first_whole(_best_first(_regular(self.folder.finished(self._so_far))), check)

    def tidy(self) -> None:
        """Training is over: of all attempts so far, keep the newest ``keep`` steps and the best, each step once.

        Those of a stop are removed: nothing resumes from them any more. What cannot be removed is left there, and a
        line on it added to ``passed_over``.
        """
        self._settle()
        try:
            self._tidy()
        except Exception as error:
            self.folder.pass_over(f"{self.folder.url}: older checkpoints could not be removed: {_in_words(error)}")

    def _tidy(self) -> None:
        there, finished = set(self.folder.places(self._so_far)), list(self.folder.finished(self._so_far))
        kept = _kept(finished, self.keep, lambda *found: True)
        if there != kept:  # something is to be removed: what stays instead of it must be whole
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
        """In the background. Nothing that is half written stays."""
        folder, place = self.folder, Place(step, self.attempt)
        try:
            files.write(folder.filesystem, folder.path(place), step, folder.key, state, dev_nll, stop)
            self._own.add(place)
            self._prune()
        except Exception as error:
            cause = f"cannot write checkpoint {folder.url}/{place}: {_in_words(error)}"
            raise CheckpointError(f"{cause}; {self._standing(place)}") from error
        return step

    def _prune(self) -> None:
        finished = _regular(self.folder.finished(range(self.attempt, self.attempt + 1)))
        own = [found for found in finished if found[0] in self._own]
        for place in {place for place, _ in own} - _kept(own, self.keep, lambda *found: True):
            self.folder.remove(place)

    def _standing(self, failed: Place) -> str:
        """Remove what is half written, and say what the next attempt will find."""
        try:
            if files.read_manifest(self.folder.filesystem, self.folder.path(failed)) is None:
                self.folder.remove(failed)
            for place, manifest in self.folder.finished(self._so_far):
                if self.folder.is_whole(place, manifest):
                    return f"the newest whole checkpoint is {self.folder.url}/{place}"
        except Exception as error:
            return f"what stands there cannot be looked up: {_in_words(error)}"
        return "there is no whole checkpoint"

    def _first_whole(self, finished: Iterable[Found], check: StateCheck) -> SavedState | None:
        states = (self.folder.read(place, manifest, check) for place, manifest in finished)
        return next((state for state in states if state is not None), None)


def _kept(finished: list[Found], keep: int, is_whole: Callable[..., bool]) -> set[Place]:
    """The newest ``keep`` regular steps and the best; of a step that several attempts have, the latest whole one."""
    steps: dict[int, Found] = {}
    for place, manifest in _regular(finished):
        if place.step not in steps and is_whole(place, manifest):
            steps[place.step] = (place, manifest)
    once = list(steps.values())
    return {place for place, _ in once[:keep] + _best_first(once)[:1]}


def _regular(finished: Iterable[Found]) -> Iterator[Found]:
    """Those that an undisturbed run has as well."""
    return (found for found in finished if not found[1].stop)


def _step(found: Found) -> int:
    return found[0].step


def _best_first(finished: Iterable[Found]) -> list[Found]:
    """Those that were evaluated, by their dev_nll; of equals the newest first."""
    evaluated = [(manifest.dev_nll, place, manifest) for place, manifest in finished if manifest.dev_nll is not None]
    ranked = sorted(evaluated, key=lambda each: (each[0], -each[1].step, -each[1].attempt))
    return [(place, manifest) for _, place, manifest in ranked]


def _in_words(error: Any) -> str:
    """One line: the operating system's words where it has any."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(words).splitlines()[0]
