"""The checkpoints of a trial at any fsspec URL: ``<key[:16]>-<lineage>/a<attempt>/step-<n>/``,
written by a thread.

An attempt writes only into its own folder, and starts from the newest whole checkpoint of earlier
attempts. So a worker that was believed dead cannot disturb its successor. What another study wrote
at the same URL, or a trial that was removed, is neither opened nor removed.
"""

import errno
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.processes.storage import StorageError, patiently
from sweeps.task import Keep, MissingStepError, Saved
from sweeps.worker.checkpoint_files import (
    WORK_FILES,
    CheckpointFiles,
    CheckpointId,
    DamagedCheckpointError,
    Manifest,
    Owner,
    OwnFormat,
    Restored,
    Start,
    described,
    finite,
    to_keep,
)
from sweeps.worker.plain_state import Parts
from tracking.attempts import Lineage

KEY_DIGITS = 16  # of a key, in a path; the manifest holds the whole key
T = TypeVar("T")
Tell = Callable[[str], None]


class CheckpointError(Exception):
    """A checkpoint that cannot be written, where, and why: in one line. Storage that may come back
    is tried again."""


def saved_steps(url: str, key: str, lineage: Lineage | None) -> set[int]:
    """The steps of the trial ``key`` with a finished checkpoint, of any attempt of this lineage."""
    if not lineage:
        return set()
    return Checkpoints(url, key, sys.maxsize, Keep(), lineage=lineage).steps()


def root_name(key: str, lineage: str) -> str:
    """The folder of the attempts of this lineage at the trial ``key``."""
    return f"{key[:KEY_DIGITS]}-{lineage}" if lineage else key[:KEY_DIGITS]


def work_folder(url: str, key: str, lineage: Lineage) -> Path:
    """The folder for the work's own files: next to local checkpoints, else in this machine's
    temporary folder."""
    filesystem, home = fsspec.core.url_to_fs(url)
    root = home if isinstance(filesystem, LocalFileSystem) else tempfile.gettempdir()
    return Path(root, root_name(key, lineage.name), WORK_FILES)


class Checkpoints:
    """The checkpoints of the trial ``key``, as attempt ``attempt`` uses them.

    ``tell`` takes lines for the user, also from the writing thread.
    """

    def __init__(
        self,
        url: str,
        key: str,
        attempt: int,
        keep: Keep,
        own_format: OwnFormat | None = None,
        tell: Tell = lambda line: None,
        lineage: Lineage | None = None,
        code: str = "",
    ) -> None:
        filesystem, home = fsspec.core.url_to_fs(url)
        self.lineage = lineage or Lineage()
        self.code = code
        name = root_name(key, self.lineage.name)
        self.url = f"{url.rstrip('/')}/{name}"
        self.root = f"{home.rstrip('/')}/{name}"
        self.key = key
        self.attempt = attempt
        self.keep = keep
        self.own_format = own_format
        self.tell = tell
        self.files = CheckpointFiles(filesystem)
        self._passed_over: dict[CheckpointId, str] = {}
        self._own_checkpoints: set[CheckpointId] = set()  # written by this process
        self._scores: dict[CheckpointId, float | None] = {}  # of finished checkpoints
        self._foreign: set[CheckpointId] = set()  # that another study wrote
        self._start: CheckpointId | None = None
        self._owner = Owner(filesystem, self.root, attempt)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running: Future[int] | None = None
        self._written: int | None = None
        self._closed = Event()

    @property
    def is_local(self) -> bool:
        """Whether the checkpoints are files of this machine."""
        return isinstance(self.files.filesystem, LocalFileSystem)

    def close(self) -> None:
        """Let a write that waits for storage give up: nobody would notice its success."""
        self._closed.set()
        self._writer.shutdown(wait=False)

    def claim(self, run: str) -> None:
        """Own the checkpoints: earlier attempts that still live stop writing and removing.

        Raises SupersededError, StorageError, CheckpointError.
        """
        self._as_owner(partial(self._owner.claim, run), self.url)

    def newest(self) -> Restored | None:
        """The newest whole checkpoint. Raises StorageError: starting over would lose training."""
        return self._patiently(self._newest)

    def at(self, start: Start) -> Restored:
        """The checkpoint of rank zero. Raises OSError while this process cannot see it."""
        return self._patiently(partial(self._at, start))

    def save(
        self,
        step: int,
        state: Any,
        seconds: float,
        score: float | None,
        reports: Iterable[Any],
        cpu_seconds: float | None = None,
    ) -> None:
        """Copy the state and write it while training continues, after any earlier write.

        Raises StateError, and what ``settle`` raises.
        """
        self.settle()
        outline, files = self._copy_of(state)
        manifest = Manifest(
            self.key,
            step,
            seconds,
            finite(score),
            outline=outline,
            reports=tuple(reports),
            lineage=self.lineage.name,
            run=self.lineage.runs.get(self.attempt, ""),
            code=self.code,
            cpu_seconds=cpu_seconds,
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
        """The states of these steps, one by one, since several may not fit into memory. Raises
        MissingStepError."""
        self.settle()
        for step in steps:
            yield self._patiently(partial(self._of_step, step))

    def steps(self) -> set[int]:
        return {checkpoint.step for checkpoint in self.finished()}

    def finished(self) -> list[CheckpointId]:
        """Every finished checkpoint of the trial, the newest first."""
        return [checkpoint for checkpoint in self._checkpoints() if self._is_finished(checkpoint)]

    def tidy(self) -> None:
        """Remove the checkpoints that ``keep`` does not ask for. Raises SupersededError."""
        self.settle()
        self._as_owner(self._prune, self.url)

    def _newest(self) -> Restored | None:
        restored = next(self._whole(self._checkpoints()), None)
        if restored is not None:
            self._start = restored.start.checkpoint
            self._written = restored.saved.step
        return restored

    def _at(self, start: Start) -> Restored:
        self.files.filesystem.invalidate_cache()
        with suppress(DamagedCheckpointError):
            restored = self._read(start.checkpoint)
            if restored is not None and restored.start == start:
                return restored
        raise OSError(
            errno.ESTALE,
            "rank zero starts from it, but this worker does not see it",
            self._folder(start.checkpoint),
        )

    def _of_step(self, step: int) -> Saved:
        checkpoints = self._checkpoints()
        for restored in self._whole(
            checkpoint for checkpoint in checkpoints if checkpoint.step == step
        ):
            return restored.saved
        damage = "".join(
            f"; {line}" for checkpoint, line in self._passed_over.items() if checkpoint.step == step
        )
        other_steps = {checkpoint.step for checkpoint in checkpoints} - {step}
        steps = ", ".join(map(str, sorted(other_steps))) or "none"
        raise MissingStepError(
            f"{self.url} has no complete checkpoint of step {step}; other steps: {steps}{damage}"
        )

    def _whole(self, checkpoints: Iterable[CheckpointId]) -> Iterator[Restored]:
        """The checkpoints that can be read; a damaged one is skipped with a notice."""
        for checkpoint in checkpoints:
            try:
                restored = self._read(checkpoint)
            except DamagedCheckpointError as damage:
                self._pass_over(checkpoint, str(damage))
                continue
            if restored is not None:
                yield restored

    def _pass_over(self, checkpoint: CheckpointId, damage: str) -> None:
        if checkpoint not in self._passed_over:
            self._passed_over[checkpoint] = damage
            self.tell(f"{self.url}/{checkpoint}: {damage}; skipped")

    def _read(self, checkpoint: CheckpointId) -> Restored | None:
        """None if it was never finished. Raises DamagedCheckpointError."""
        folder = self._folder(checkpoint)
        manifest = self._manifest(checkpoint)
        if manifest is None:
            return None
        saved = Saved(checkpoint.step, self._state(folder, manifest))
        return Restored(Start(checkpoint, manifest.digest), manifest, saved)

    def _manifest(self, checkpoint: CheckpointId) -> Manifest | None:
        """None if the checkpoint was never finished. Raises DamagedCheckpointError, also if it is
        not this trial's."""
        manifest = self.files.manifest(self._folder(checkpoint))
        if manifest is None:
            return None
        if (manifest.key, manifest.step) != (self.key, checkpoint.step):
            raise DamagedCheckpointError("manifest.json belongs to another checkpoint")
        if manifest.lineage != self.lineage.name or not self.lineage.has(
            checkpoint.attempt, manifest.run
        ):
            self._foreign.add(checkpoint)
            raise DamagedCheckpointError("another study wrote it")
        if self.lineage.codes and manifest.code not in ("", *self.lineage.codes):
            self._foreign.add(checkpoint)  # it stays: the record may be what is wrong
            raise DamagedCheckpointError(
                f"code that the study does not know trained it ({manifest.code[:12]})"
            )
        return manifest

    def _state(self, folder: str, manifest: Manifest) -> Any:
        """The files are whole: an error of the task's ``load`` means that today's code cannot read
        them."""
        content = self.files.parts(folder, manifest)
        if self.own_format is None:
            try:
                return Parts.read(manifest.outline, content).state()
            except (KeyError, TypeError, ValueError, ImportError) as error:
                raise DamagedCheckpointError(f"its outline does not fit: {error}") from None
        try:
            return self.own_format.state(content)
        except Exception as error:
            error.add_note(f"while loading {folder}")
            raise

    def _copy_of(self, state: Any) -> tuple[Any, Callable[[], dict[str, bytes]]]:
        """The outline of a state, and a function that gives its files, for the writing thread.

        The outline is None for a task that writes its own files. Raises StateError, StorageError.
        """
        if self.own_format is None:
            parts = Parts.of(state)
            return parts.outline, parts.files
        files = self._patiently(partial(self.own_format.files, state))
        return None, lambda: files

    def _write(self, manifest: Manifest, parts: dict[str, bytes]) -> int:
        """Write the checkpoint, then remove what does not stay."""
        manifest = replace(manifest, files=described(parts))
        checkpoint = CheckpointId(manifest.step, self.attempt)
        folder = self._folder(checkpoint)
        self._as_owner(partial(self.files.write, folder, manifest, parts), folder)
        self._own_checkpoints.add(checkpoint)
        self._scores[checkpoint] = manifest.score
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
            patiently(unless_superseded, path, self.tell, self._closed)
        except StorageError:
            raise
        except OSError as error:
            words = error.strerror or str(error)
            raise CheckpointError(f"cannot write checkpoints to {self.url}: {words}") from error

    def _prune(self) -> None:
        """Remove all checkpoints but the newest, the best and the named steps, each step once.

        A checkpoint that this attempt neither wrote nor could have started from belongs to an
        abandoned past.
        """
        checkpoints = self._checkpoints()
        finished: dict[int, CheckpointId] = {}
        for checkpoint in checkpoints:
            if (
                checkpoint.step not in finished
                and self._is_ours(checkpoint)
                and self._is_finished(checkpoint)
            ):
                finished[checkpoint.step] = checkpoint
        staying = to_keep(list(finished.values()), self.keep, self._scores)
        for checkpoint in checkpoints:
            if checkpoint not in staying and self._is_foreign(checkpoint):
                staying.add(checkpoint)
        for checkpoint in checkpoints:
            if checkpoint not in staying:
                self.files.remove(self._folder(checkpoint))
        needed_attempts = {self.attempt, *(checkpoint.attempt for checkpoint in staying)}
        for attempt in set(self._attempts()) - needed_attempts:
            self.files.remove(f"{self.root}/a{attempt}")

    def _is_ours(self, checkpoint: CheckpointId) -> bool:
        return checkpoint in self._own_checkpoints or (
            self._start is not None and checkpoint.step <= self._start.step
        )

    def _is_finished(self, checkpoint: CheckpointId) -> bool:
        """Whether it has a manifest of this trial, whose score is then known."""
        if checkpoint not in self._scores and checkpoint not in self._foreign:
            with suppress(DamagedCheckpointError):
                manifest = self._manifest(checkpoint)
                if manifest is not None:
                    self._scores[checkpoint] = manifest.score
        return checkpoint in self._scores

    def _is_foreign(self, checkpoint: CheckpointId) -> bool:
        return not self._is_finished(checkpoint) and checkpoint in self._foreign

    def _checkpoints(self) -> list[CheckpointId]:
        """Every checkpoint of attempts up to this one, finished or not, the newest first."""
        self.files.filesystem.invalidate_cache()  # other processes write here, too
        checkpoints: list[CheckpointId] = []
        for attempt in self._attempts():
            steps = self.files.numbers(f"{self.root}/a{attempt}", "step-")
            checkpoints += [CheckpointId(step, attempt) for step in steps]
        return sorted(checkpoints, reverse=True)

    def _attempts(self) -> list[int]:
        return [number for number in self.files.numbers(self.root, "a") if number <= self.attempt]

    def _folder(self, checkpoint: CheckpointId) -> str:
        return f"{self.root}/{checkpoint}"

    def _patiently(self, act: Callable[[], T]) -> T:
        """Call ``act``, again while storage fails, with notices, and return its result. Raises
        StorageError."""
        return patiently(act, self.url, self.tell, self._closed)
