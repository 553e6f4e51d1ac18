"""The checkpoints of a trial as one of its attempts uses them:
``<key[:16]>-<lineage>/a<attempt>/step-<n>/``, written by a thread.

An attempt writes only into its own folder, and starts from the newest whole checkpoint of earlier
attempts. So a worker that was believed dead cannot disturb its successor. What another study wrote
at the same URL, or a trial that was removed, is neither opened nor removed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

from sweeps.checkpoints.files import described
from sweeps.checkpoints.manifest import CheckpointId, Manifest, finite
from sweeps.checkpoints.owner import Owner
from sweeps.checkpoints.plain_state import Parts
from sweeps.checkpoints.reader import CheckpointReader, Restored, Summary
from sweeps.checkpoints.retention import to_keep
from sweeps.processes.storage import StorageError, patiently
from sweeps.random_states import RandomStates
from sweeps.task import Keep, Saved


class CheckpointError(Exception):
    """A checkpoint that cannot be written, where, and why: in one line. Storage that may come back
    is tried again."""


class CheckpointStore:
    """Reads the checkpoints through ``reader``, and writes those of its attempt.

    ``keep``: which ones stay. ``code``: the hash of the user's code that trains. Lines for the user
    go to the reader's ``tell``, also from the writing thread.
    """

    def __init__(self, reader: CheckpointReader, keep: Keep, code: str = "") -> None:
        self.reader = reader
        self.keep = keep
        self.code = code
        self._own_checkpoints: dict[CheckpointId, Summary] = {}  # written by this process
        self._start: CheckpointId | None = None
        self._owner = Owner(reader.files.filesystem, reader.root, reader.attempt)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running: Future[int] | None = None
        self._written: int | None = None
        self._closed = Event()

    def close(self) -> None:
        """Let a write that waits for storage give up: nobody would notice its success."""
        self._closed.set()
        self._writer.shutdown(wait=False)

    def claim(self, run: str) -> None:
        """Own the checkpoints: earlier attempts that still live stop writing and removing.

        Raises SupersededError, StorageError, CheckpointError.
        """
        self._as_owner(partial(self._owner.claim, run), self.reader.url)

    def newest(self) -> Restored | None:
        """The checkpoint that the attempt starts from: the newest whole one. Raises
        StorageError."""
        restored = self.reader.newest()
        if restored is not None:
            self._start = restored.start.checkpoint
            self._written = restored.saved.step
        return restored

    def save(
        self,
        step: int,
        state: Any,
        seconds: float,
        score: float | None,
        reports: Iterable[Any],
        cpu_seconds: float | None = None,
        random: RandomStates | None = None,
    ) -> None:
        """Copy the state and write it while training continues, after any earlier write.

        Raises StateError, and what ``settle`` raises.
        """
        self.settle()
        lineage = self.reader.lineage
        outline, files = self._copy_of(state)
        manifest = Manifest(
            self.reader.key,
            step,
            seconds,
            finite(score),
            outline=outline,
            reports=tuple(reports),
            lineage=lineage.name,
            run=lineage.runs.get(self.reader.attempt, ""),
            code=self.code,
            cpu_seconds=cpu_seconds,
            random=random,
        )
        self._running = self._writer.submit(lambda: self._write(manifest, files()))

    def settle(self) -> None:
        """Wait for the write, which gives signs of life unless its storage hangs.

        Raises its error: SupersededError, StorageError, CheckpointError.
        """
        running = self._running
        self._running = None
        if running:
            self._written = running.result()

    def written(self) -> int | None:
        """The newest step that is on disk since the last call. Raises the error of the write."""
        if self._running and self._running.done():
            self.settle()
        written = self._written
        self._written = None
        return written

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        """The states of these steps, after any earlier write. Raises MissingStepError."""
        self.settle()
        yield from self.reader.states(steps)

    def tidy(self) -> None:
        """Remove the checkpoints that ``keep`` does not ask for. Raises SupersededError."""
        self.settle()
        self._as_owner(self._prune, self.reader.url)

    def _copy_of(self, state: Any) -> tuple[Any, Callable[[], dict[str, bytes]]]:
        """The outline of a state, and a function that gives its files, for the writing thread.

        The outline is None for a task that writes its own files. Raises StateError, StorageError.
        """
        own_format = self.reader.own_format
        if own_format is None:
            parts = Parts.of(state)
            return parts.outline, parts.files
        write = partial(own_format.files, state)
        files = patiently(write, self.reader.url, self.reader.tell, self._closed)
        return None, lambda: files

    def _write(self, manifest: Manifest, parts: dict[str, bytes]) -> int:
        """Write the checkpoint, then remove what does not stay."""
        manifest = replace(manifest, files=described(parts))
        checkpoint = CheckpointId(manifest.step, self.reader.attempt)
        folder = self.reader.folder(checkpoint)
        self._as_owner(partial(self.reader.files.write, folder, manifest, parts), folder)
        self._own_checkpoints[checkpoint] = Summary(is_finished=True, score=manifest.score)
        self._as_owner(self._prune, folder)  # a successor may have begun meanwhile
        return manifest.step

    def _as_owner(self, act: Callable[[], None], path: str) -> None:
        """Call ``act``, which writes or removes at ``path``, while this attempt owns the
        checkpoints.

        Raises SupersededError, StorageError and CheckpointError.
        """

        def unless_superseded() -> None:
            self._owner.check()
            act()

        try:
            patiently(unless_superseded, path, self.reader.tell, self._closed)
        except StorageError:
            raise
        except OSError as error:
            words = error.strerror or str(error)
            raise CheckpointError(
                f"cannot write checkpoints to {self.reader.url}: {words}"
            ) from error

    def _prune(self) -> None:
        """Remove all checkpoints but those that stay, and the folders of attempts that are empty
        then."""
        checkpoints = self.reader.checkpoints()
        staying = self._staying(checkpoints)
        for checkpoint in checkpoints:
            if checkpoint not in staying:
                self.reader.files.remove(self.reader.folder(checkpoint))
        needed_attempts = {self.reader.attempt, *(checkpoint.attempt for checkpoint in staying)}
        for attempt in set(self.reader.attempts()) - needed_attempts:
            self.reader.files.remove(f"{self.reader.root}/a{attempt}")

    def _staying(self, checkpoints: Sequence[CheckpointId]) -> set[CheckpointId]:
        """The newest, the best and the named steps, each step once, and what is not ours to remove.

        ``checkpoints``: the newest first.
        """
        foreign: set[CheckpointId] = set()
        steps: dict[int, CheckpointId] = {}
        scores: dict[CheckpointId, float | None] = {}
        for checkpoint in checkpoints:
            summary = self._own_checkpoints.get(checkpoint) or self.reader.summary(checkpoint)
            if summary.is_foreign:
                foreign.add(checkpoint)
            elif summary.is_finished and self._continues(checkpoint):
                steps.setdefault(checkpoint.step, checkpoint)
                scores[checkpoint] = summary.score
        return foreign | to_keep(list(steps.values()), self.keep, scores)

    def _continues(self, checkpoint: CheckpointId) -> bool:
        """Whether this attempt wrote it, or could have started from it. Any other one belongs to a
        past that was given up."""
        return checkpoint in self._own_checkpoints or (
            self._start is not None and checkpoint.step <= self._start.step
        )
