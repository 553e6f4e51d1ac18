"""Finds the checkpoints of a trial and reads them."""

import errno
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.checkpoints.files import CheckpointFiles
from sweeps.checkpoints.folders import root_name
from sweeps.checkpoints.manifest import CheckpointId, DamagedCheckpointError, Manifest
from sweeps.checkpoints.own_format import OwnFormat
from sweeps.checkpoints.plain_state import Parts
from sweeps.processes.storage import patiently
from sweeps.task import MissingStepError, Saved
from tracking.attempts import Lineage

T = TypeVar("T")
Tell = Callable[[str], None]


def saved_steps(url: str, key: str, lineage: Lineage | None) -> set[int]:
    """The steps of the trial ``key`` with a finished checkpoint, of any attempt of this lineage."""
    return CheckpointReader(url, key, lineage).steps() if lineage else set()


@dataclass(frozen=True)
class Start:
    """The checkpoint that an attempt starts from, and the digest of its manifest."""

    checkpoint: CheckpointId
    digest: str


@dataclass(frozen=True)
class Restored:
    """A whole checkpoint that was read."""

    start: Start
    manifest: Manifest
    saved: Saved


@dataclass(frozen=True)
class Summary:
    """What the manifest of a checkpoint says, if it can be read. ``score`` decides the best one,
    the lowest."""

    is_finished: bool = False
    is_foreign: bool = False  # another study wrote it, or code that this study does not know
    score: float | None = None


class ForeignCheckpointError(DamagedCheckpointError):
    """A checkpoint that is not this study's. It is neither opened nor removed."""


class CheckpointReader:
    """The checkpoints of the trial ``key`` by its attempts up to ``attempt``.

    ``tell`` takes lines for the user.
    """

    def __init__(
        self,
        url: str,
        key: str,
        lineage: Lineage | None = None,
        attempt: int = sys.maxsize,
        own_format: OwnFormat | None = None,
        tell: Tell = lambda line: None,
    ) -> None:
        filesystem, home = fsspec.core.url_to_fs(url)
        self.lineage = lineage or Lineage()
        name = root_name(key, self.lineage.name)
        self.url = f"{url.rstrip('/')}/{name}"
        self.root = f"{home.rstrip('/')}/{name}"
        self.key = key
        self.attempt = attempt
        self.own_format = own_format
        self.tell = tell
        self.files = CheckpointFiles(filesystem)
        self._passed_over: dict[CheckpointId, str] = {}
        self._summaries: dict[CheckpointId, Summary] = {}  # that no longer change

    @property
    def is_local(self) -> bool:
        """Whether the checkpoints are files of this machine."""
        return isinstance(self.files.filesystem, LocalFileSystem)

    def folder(self, checkpoint: CheckpointId) -> str:
        """Its path in the filesystem."""
        return f"{self.root}/{checkpoint}"

    def newest(self) -> Restored | None:
        """The newest whole checkpoint. Raises StorageError: starting over would lose training."""
        return self._patiently(lambda: next(self._whole(self.checkpoints()), None))

    def at(self, start: Start) -> Restored:
        """The checkpoint of rank zero. Raises OSError while this process cannot see it."""
        return self._patiently(partial(self._at, start))

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        """The states of these steps, one by one, since several may not fit into memory. Raises
        MissingStepError."""
        for step in steps:
            yield self._patiently(partial(self._of_step, step))

    def steps(self) -> set[int]:
        """The steps with a finished checkpoint."""
        return {checkpoint.step for checkpoint in self.finished()}

    def finished(self) -> list[CheckpointId]:
        """Every finished checkpoint of the trial, the newest first."""
        return [
            checkpoint for checkpoint in self.checkpoints() if self.summary(checkpoint).is_finished
        ]

    def checkpoints(self) -> list[CheckpointId]:
        """Every checkpoint, finished or not, the newest first."""
        self.files.filesystem.invalidate_cache()  # other processes write here, too
        checkpoints: list[CheckpointId] = []
        for attempt in self.attempts():
            steps = self.files.numbers(f"{self.root}/a{attempt}", "step-")
            checkpoints += [CheckpointId(step, attempt) for step in steps]
        return sorted(checkpoints, reverse=True)

    def attempts(self) -> list[int]:
        """The attempts that have a folder."""
        return [number for number in self.files.numbers(self.root, "a") if number <= self.attempt]

    def summary(self, checkpoint: CheckpointId) -> Summary:
        """What its manifest says. It is read once, unless it is damaged or not there yet."""
        if checkpoint in self._summaries:
            return self._summaries[checkpoint]
        try:
            manifest = self._manifest(checkpoint)
        except ForeignCheckpointError:
            summary = Summary(is_foreign=True)
        except DamagedCheckpointError:
            return Summary()
        else:
            if manifest is None:
                return Summary()
            summary = Summary(is_finished=True, score=manifest.score)
        self._summaries[checkpoint] = summary
        return summary

    def _at(self, start: Start) -> Restored:
        self.files.filesystem.invalidate_cache()
        with suppress(DamagedCheckpointError):
            restored = self._read(start.checkpoint)
            if restored is not None and restored.start == start:
                return restored
        raise OSError(
            errno.ESTALE,
            "rank zero starts from it, but this worker does not see it",
            self.folder(start.checkpoint),
        )

    def _of_step(self, step: int) -> Saved:
        checkpoints = self.checkpoints()
        of_step = [checkpoint for checkpoint in checkpoints if checkpoint.step == step]
        for restored in self._whole(of_step):
            return restored.saved
        lines = [line for checkpoint, line in self._passed_over.items() if checkpoint.step == step]
        damage = "".join(f"; {line}" for line in lines)
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
        manifest = self._manifest(checkpoint)
        if manifest is None:
            return None
        saved = Saved(checkpoint.step, self._state(self.folder(checkpoint), manifest))
        return Restored(Start(checkpoint, manifest.digest), manifest, saved)

    def _manifest(self, checkpoint: CheckpointId) -> Manifest | None:
        """None if the checkpoint was never finished. Raises DamagedCheckpointError, and
        ForeignCheckpointError."""
        manifest = self.files.manifest(self.folder(checkpoint))
        if manifest is None:
            return None
        if (manifest.key, manifest.step) != (self.key, checkpoint.step):
            raise DamagedCheckpointError("manifest.json belongs to another checkpoint")
        if manifest.lineage != self.lineage.name or not self.lineage.has(
            checkpoint.attempt, manifest.run
        ):
            raise ForeignCheckpointError("another study wrote it")
        if self.lineage.codes and manifest.code not in ("", *self.lineage.codes):
            # the record may be what is wrong
            raise ForeignCheckpointError(
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

    def _patiently(self, act: Callable[[], T]) -> T:
        """What ``act`` returns, called again while storage fails. Raises StorageError."""
        return patiently(act, self.url, self.tell)
