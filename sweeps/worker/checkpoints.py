"""The checkpoints of a trial at any fsspec URL: ``<key[:16]>-<lineage>/a<attempt>/step-<n>/``, written by a thread.

An attempt writes only into its own folder, and starts from the newest whole checkpoint of earlier attempts. So a worker
that was believed dead cannot disturb its successor. What another study wrote at the same URL, or a trial that was
removed, is neither opened nor removed.
"""

import errno
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.processes.storage import StorageError, own_temporary, patiently
from sweeps.task import Keep, MissingStepError, Saved, Task
from sweeps.worker.checkpoint_files import (
    WORK_FILES,
    CheckpointFiles,
    DamagedCheckpointError,
    Manifest,
    Owner,
    described,
    finite,
)
from sweeps.worker.plain_state import Parts
from tracking.attempts import Lineage

KEY_DIGITS = 16  # of a key, in a path; the manifest holds the whole key
T = TypeVar("T")
Tell = Callable[[str], None]


class CheckpointError(Exception):
    """A checkpoint that cannot be written, where, and why: in one line. Storage that may come back is tried again."""


@dataclass(frozen=True, order=True)
class Place:
    """One checkpoint; the newest has the latest step, and among equals the latest attempt."""

    step: int
    attempt: int

    def __str__(self) -> str:
        return f"a{self.attempt}/step-{self.step}"


@dataclass(frozen=True)
class Start:
    """The checkpoint that an attempt starts from: its place, and the digest of what lies there."""

    place: Place
    digest: str


@dataclass(frozen=True)
class Restored:
    """A whole checkpoint that was read."""

    start: Start
    manifest: Manifest
    saved: Saved


@dataclass(frozen=True)
class OwnFormat:
    """How a task writes states that are not plain, and reads them."""

    save: Callable[[Any, Path], None]
    load: Callable[[Path], Any]

    @staticmethod
    def of(task: Task[Any]) -> "OwnFormat | None":
        """None for a task whose states are plain."""
        return OwnFormat(task.save, task.load) if task.save and task.load else None


def saved_steps(url: str, key: str, lineage: Lineage | None) -> set[int]:
    """The steps of the trial ``key`` with a finished checkpoint, of any attempt of this lineage."""
    return Checkpoints(url, key, sys.maxsize, Keep(), lineage=lineage).steps() if lineage else set()


def root_name(key: str, lineage: str) -> str:
    """The folder of the attempts of this lineage at the trial ``key``."""
    return f"{key[:KEY_DIGITS]}-{lineage}" if lineage else key[:KEY_DIGITS]


def work_folder(url: str, key: str, lineage: Lineage) -> Path:
    """Of the work's own files, beside the checkpoints; for those of a URL in this machine's temporary folder."""
    filesystem, home = fsspec.core.url_to_fs(url)
    place = home if isinstance(filesystem, LocalFileSystem) else tempfile.gettempdir()
    return Path(place, root_name(key, lineage.name), WORK_FILES)


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
        own: OwnFormat | None = None,
        tell: Tell = lambda line: None,
        lineage: Lineage | None = None,
        code: str = "",
    ) -> None:
        filesystem, home = fsspec.core.url_to_fs(url)
        self.lineage = lineage or Lineage()
        self.code = code
        name = root_name(key, self.lineage.name)
        self.url, self.root = (f"{place.rstrip('/')}/{name}" for place in (url, home))
        self.key = key
        self.attempt = attempt
        self.keep = keep
        self.own = own
        self.tell = tell
        self.files = CheckpointFiles(filesystem)
        self._passed_over: dict[Place, str] = {}
        self._own_places: set[Place] = set()  # written by this process
        self._scores: dict[Place, float | None] = {}  # of finished checkpoints
        self._foreign: set[Place] = set()  # that another study wrote
        self._start: Place | None = None
        self._owner = Owner(filesystem, self.root, attempt)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._running: Future[int] | None = None
        self._written: int | None = None
        self._left = Event()

    @property
    def is_local(self) -> bool:
        """Whether the checkpoints are files of this machine."""
        return isinstance(self.files.filesystem, LocalFileSystem)

    def close(self) -> None:
        """A write that waits for storage gives up: nobody would learn of it."""
        self._left.set()
        self._writer.shutdown(wait=False)

    def claim(self, run: str) -> None:
        """Own the checkpoints: earlier attempts that still live stop writing and removing.

        Raises SupersededError, StorageError, CheckpointError.
        """
        self._as_owner(partial(self._owner.claim, run), self.url)

    def newest(self) -> Restored | None:
        """The newest whole checkpoint. Raises StorageError: to start over would throw away finished training."""
        return self._patiently(self._newest)

    def at(self, start: Start) -> Restored:
        """The checkpoint from which rank zero starts. Raises OSError while this process does not see that one."""
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
        """Copy the state, and write it while training goes on; an earlier write is waited for.

        Raises StateError, and what ``settle`` raises.
        """
        self.settle()
        outline, files = self._copied(state)
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
        """The states of these steps, one by one, since several may not fit into memory. Raises MissingStepError."""
        self.settle()
        for step in steps:
            yield self._patiently(partial(self._of_step, step))

    def steps(self) -> set[int]:
        return {place.step for place in self.finished()}

    def finished(self) -> list[Place]:
        """Every finished checkpoint of the trial, the newest first."""
        return [place for place in self._places() if self._is_finished(place)]

    def tidy(self) -> None:
        """Remove what does not stay. Raises SupersededError."""
        self.settle()
        self._as_owner(self._prune, self.url)

    def _newest(self) -> Restored | None:
        found = next(self._whole(self._places()), None)
        if found is not None:
            self._start = found.start.place
            self._written = found.saved.step
        return found

    def _at(self, start: Start) -> Restored:
        self.files.filesystem.invalidate_cache()
        with suppress(DamagedCheckpointError):
            found = self._read(start.place)
            if found is not None and found.start == start:
                return found
        raise OSError(
            errno.ESTALE, "rank zero starts from it, but this worker does not see it", self._folder(start.place)
        )

    def _of_step(self, step: int) -> Saved:
        places = self._places()
        for found in self._whole(place for place in places if place.step == step):
            return found.saved
        damage = "".join(f"; {line}" for place, line in self._passed_over.items() if place.step == step)
        there = ", ".join(str(each) for each in sorted({place.step for place in places} - {step})) or "none"
        raise MissingStepError(f"{self.url} holds no whole checkpoint of step {step}; of other steps: {there}{damage}")

    def _whole(self, places: Iterable[Place]) -> Iterator[Restored]:
        """Those that can be read; a damaged one is passed over with a notice."""
        for place in places:
            try:
                found = self._read(place)
            except DamagedCheckpointError as damage:
                self._pass_over(place, str(damage))
                continue
            if found is not None:
                yield found

    def _pass_over(self, place: Place, damage: str) -> None:
        if place not in self._passed_over:
            self._passed_over[place] = damage
            self.tell(f"{self.url}/{place}: {damage}; skipped")

    def _read(self, place: Place) -> Restored | None:
        """None if it was never finished. Raises DamagedCheckpointError."""
        folder = self._folder(place)
        manifest = self._manifest(place)
        if manifest is None:
            return None
        return Restored(Start(place, manifest.digest), manifest, Saved(place.step, self._state(folder, manifest)))

    def _manifest(self, place: Place) -> Manifest | None:
        """None if the checkpoint was never finished. Raises DamagedCheckpointError, also if it is not this trial's."""
        manifest = self.files.manifest(self._folder(place))
        if manifest is None:
            return None
        if (manifest.key, manifest.step) != (self.key, place.step):
            raise DamagedCheckpointError("manifest.json belongs to another checkpoint")
        if manifest.lineage != self.lineage.name or not self.lineage.has(place.attempt, manifest.run):
            self._foreign.add(place)
            raise DamagedCheckpointError("another study wrote it")
        if self.lineage.codes and manifest.code not in ("", *self.lineage.codes):
            self._foreign.add(place)  # it stays: the record may be what is wrong
            raise DamagedCheckpointError(f"code that the study does not know trained it ({manifest.code[:12]})")
        return manifest

    def _state(self, folder: str, manifest: Manifest) -> Any:
        """The files are whole: an error of the task's ``load`` means that today's code cannot read them."""
        content = self.files.parts(folder, manifest)
        if self.own is None:
            try:
                return Parts.read(manifest.outline, content).state()
            except (KeyError, TypeError, ValueError, ImportError) as error:
                raise DamagedCheckpointError(f"its outline does not fit: {error}") from None
        with own_temporary() as temporary:
            for name, part in content.items():
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                (temporary / name).write_bytes(part)
            try:
                return self.own.load(temporary)
            except Exception as error:
                error.add_note(f"while loading {folder}")
                raise

    def _copied(self, state: Any) -> tuple[Any, Callable[[], dict[str, bytes]]]:
        """The outline of a state, and its files, for the writing thread. Raises StateError, StorageError."""
        if self.own is None:
            parts = Parts.of(state)
            return parts.outline, parts.files
        files = self._patiently(partial(self._own_files, state))
        return None, lambda: files

    def _own_files(self, state: Any) -> dict[str, bytes]:
        assert self.own is not None
        with own_temporary() as temporary:
            self.own.save(state, temporary)
            paths = sorted(path for path in temporary.rglob("*") if path.is_file())
            return {path.relative_to(temporary).as_posix(): path.read_bytes() for path in paths}

    def _write(self, manifest: Manifest, parts: dict[str, bytes]) -> int:
        """Write the checkpoint, then remove what does not stay."""
        manifest = replace(manifest, files=described(parts))
        place = Place(manifest.step, self.attempt)
        folder = self._folder(place)
        self._as_owner(partial(self.files.write, folder, manifest, parts), folder)
        self._own_places.add(place)
        self._scores[place] = manifest.score
        self._as_owner(self._prune, folder)  # a successor may have begun meanwhile
        return manifest.step

    def _as_owner(self, act: Callable[[], None], place: str) -> None:
        """Write or remove. Raises SupersededError, StorageError, and CheckpointError with where checkpoints belong."""

        def unless_superseded() -> None:
            self._owner.check()
            act()

        try:
            patiently(unless_superseded, place, self.tell, self._left)
        except StorageError:
            raise
        except OSError as error:
            words = error.strerror or str(error)
            raise CheckpointError(f"cannot write checkpoints to {self.url}: {words}") from error

    def _prune(self) -> None:
        """Keep, each step once, the newest, the best and the named steps; a checkpoint that this attempt neither wrote
        nor could have started from belongs to a past that was given up."""
        places = self._places()
        finished: dict[int, Place] = {}
        for place in places:
            if place.step not in finished and self._is_ours(place) and self._is_finished(place):
                finished[place.step] = place
        once = list(finished.values())
        kept = {*once[: self.keep.newest], *(place for place in once if place.step in self.keep.steps)}
        if self.keep.best:
            scored = [(score, -place.step, place) for place in once if (score := self._scores[place]) is not None]
            kept |= {min(scored)[2]} if scored else set()
        left = kept | {place for place in places if place not in kept and self._is_foreign(place)}
        for place in places:
            if place not in left:
                self.files.remove(self._folder(place))
        for attempt in set(self._attempts()) - {place.attempt for place in left} - {self.attempt}:
            self.files.remove(f"{self.root}/a{attempt}")

    def _is_ours(self, place: Place) -> bool:
        return place in self._own_places or (self._start is not None and place.step <= self._start.step)

    def _is_finished(self, place: Place) -> bool:
        """Whether it has a manifest of this trial, whose score is then known."""
        if place not in self._scores and place not in self._foreign:
            with suppress(DamagedCheckpointError):
                manifest = self._manifest(place)
                if manifest is not None:
                    self._scores[place] = manifest.score
        return place in self._scores

    def _is_foreign(self, place: Place) -> bool:
        return not self._is_finished(place) and place in self._foreign

    def _places(self) -> list[Place]:
        """Every checkpoint of attempts up to this one, finished or not, the newest first."""
        self.files.filesystem.invalidate_cache()  # other processes write here, too
        found = [Place(step, a) for a in self._attempts() for step in self.files.numbers(f"{self.root}/a{a}", "step-")]
        return sorted(found, reverse=True)

    def _attempts(self) -> list[int]:
        return [number for number in self.files.numbers(self.root, "a") if number <= self.attempt]

    def _folder(self, place: Place) -> str:
        return f"{self.root}/{place}"

    def _patiently(self, act: Callable[[], T]) -> T:
        """What ``act`` returns; what it waits for is told. Raises StorageError."""
        return patiently(act, self.url, self.tell, self._left)
