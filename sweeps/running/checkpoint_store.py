"""The checkpoints of a task's trial at any fsspec URL: ``<key[:16]>/a<attempt>/step-<n>/``, the manifest last.

An attempt writes only into its own folder and starts from the newest whole checkpoint of all attempts up to it.
"""

import errno
import hashlib
import json
import os
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.events import Report
from sweeps.processes.owner import Owner
from sweeps.processes.storage import at_place, unless_in_use
from sweeps.running.chosen_start import Start
from sweeps.running.own_temporary import own_temporary

KEPT = 2
"""How many checkpoints stay: the newest, and one in case it is damaged."""
MANIFEST = "manifest.json"
STATE = "state.pickle"


class DamagedCheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


class UnfinishedCheckpointError(Exception):
    """A folder without a manifest. No error of a task's own ``load`` may count as this."""


@dataclass(frozen=True)
class Restored:
    """A checkpoint as read: the state, and the reports and the training time up to its step."""

    start: Start
    step: int
    state: Any
    reports: tuple[Report, ...]
    seconds: float


@dataclass(frozen=True)
class _Manifest:
    """What a checkpoint holds: SHA-256 by file, the training time, and the reports up to its step."""

    key: str
    step: int
    files: dict[str, str]
    seconds: float
    reports: tuple[Report, ...]

    @staticmethod
    def of(content: dict[str, Any]) -> "_Manifest":
        """From JSON. Raises ValueError, KeyError, TypeError or AttributeError if it has another form."""
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        reports = tuple(Report(**report) for report in content["reports"])
        return _Manifest(str(content["key"]), int(content["step"]), files, float(content["seconds"]), reports)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def pickled(state: Any, folder: Path) -> None:
    (folder / STATE).write_bytes(pickle.dumps(state))


def unpickled(folder: Path) -> Any:
    return pickle.loads((folder / STATE).read_bytes())


class CheckpointStore:
    """The checkpoints of the trial ``key``. ``notices`` holds a line for each that was passed over."""

    def __init__(
        self,
        url: str,
        key: str,
        attempt: int,
        save: Callable[[Any, Path], None] | None = None,
        load: Callable[[Path], Any] | None = None,
    ) -> None:
        self.filesystem, home = fsspec.core.url_to_fs(url)
        self.root, self.key, self.attempt = f"{home.rstrip('/')}/{key[:16]}", key, attempt
        self.save, self.load = save or pickled, load or unpickled
        self.notices: list[str] = []
        self._started_from: tuple[int, int] | None = None
        self._owner: Owner | None = None

    def claim(self, run: str) -> None:
        """Own the checkpoints: earlier attempts that still live stop writing and removing. Raises SupersededError."""
        self._owner = Owner(self.filesystem, self.root, self.attempt, run)
        self._owner.claim()

    def _check_owner(self) -> None:
        """Raises SupersededError."""
        if self._owner:
            self._owner.check()

    def newest(self) -> Restored | None:
        """The newest whole checkpoint. An unreachable filesystem raises its error: finished training is not lost."""
        self.notices.clear()  # it may be repeated
        for step, attempt in self._places():
            place = self._place(step, attempt)
            try:
                found = self._read(step, attempt)
            except UnfinishedCheckpointError:
                continue
            except DamagedCheckpointError as damage:
                self.notices.append(f"{place}: {damage}; skipped")
                continue
            self._started_from = step, attempt
            return found
        return None

    def at(self, start: Start) -> Restored:
        """The checkpoint from which rank zero starts. Raises OSError while this process does not see that one."""
        self.filesystem.invalidate_cache()
        with suppress(UnfinishedCheckpointError, DamagedCheckpointError):
            found = self._read(start.step, start.attempt)
            if found.start == start:
                return found
        place = self._place(start.step, start.attempt)
        raise OSError(errno.ESTALE, "rank zero starts from it, but this worker does not see it", place)

    def write(self, step: int, state: Any, reports: list[Report], seconds: float) -> None:
        """Save the state, then remove the oldest checkpoints. Raises SupersededError."""
        self._check_owner()
        place = self._place(step, self.attempt)
        with own_temporary() as temporary:
            with at_place(temporary.parent):
                self.save(state, temporary)
            sums = {}
            for file in sorted(path for path in temporary.rglob("*") if path.is_file()):
                name = file.relative_to(temporary).as_posix()
                sums[name] = _digest(file)
                self.filesystem.makedirs(f"{place}/{name}".rpartition("/")[0], exist_ok=True)
                self.filesystem.put_file(str(file), f"{place}/{name}")
                self._keep(f"{place}/{name}")
        self.filesystem.makedirs(place, exist_ok=True)  # a state may have no file
        about = {"key": self.key, "step": step, "files": sums, "seconds": seconds}
        content = {**about, "reports": [asdict(report) for report in reports]}
        self.filesystem.pipe_file(f"{place}/{MANIFEST}.part", json.dumps(content).encode())
        self._keep(f"{place}/{MANIFEST}.part")
        self.filesystem.mv(f"{place}/{MANIFEST}.part", f"{place}/{MANIFEST}")
        self._keep(place)
        self._check_owner()  # writing takes long enough for a successor to begin
        self._prune()

    def _keep(self, path: str) -> None:
        """On a local disk, so that a power cut takes no file of which an older one is removed."""
        if isinstance(self.filesystem, LocalFileSystem):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _place(self, step: int, attempt: int) -> str:
        return f"{self.root}/a{attempt}/step-{step}"

    def _read(self, step: int, attempt: int) -> Restored:
        place = self._place(step, attempt)
        manifest = self._manifest(place)
        with own_temporary() as temporary:
            for name, expected in manifest.files.items():
                file = temporary / name
                file.parent.mkdir(parents=True, exist_ok=True)
                self._fetch(place, name, file)
                if _digest(file) != expected:
                    raise DamagedCheckpointError(f"{name} is damaged")
            state = self._loaded(place, temporary)
        digest = hashlib.sha256(json.dumps(manifest.files, sort_keys=True).encode()).hexdigest()
        return Restored(Start(step, attempt, digest), step, state, manifest.reports, manifest.seconds)

    def _manifest(self, place: str) -> "_Manifest":
        try:
            found = _Manifest.of(json.loads(self.filesystem.cat_file(f"{place}/{MANIFEST}")))
        except (FileNotFoundError, NotADirectoryError):
            raise UnfinishedCheckpointError(place) from None
        except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError) as error:
            raise DamagedCheckpointError(f"{MANIFEST} is damaged: {type(error).__name__}: {error}") from None
        if found.key != self.key or f"step-{found.step}" != place.rpartition("/")[2]:
            raise DamagedCheckpointError(f"{MANIFEST} belongs to another checkpoint")
        return found

    def _fetch(self, place: str, name: str, file: Path) -> None:
        try:
            self.filesystem.get_file(f"{place}/{name}", str(file))
        except FileNotFoundError:
            raise DamagedCheckpointError(f"{name} is missing") from None
        if not file.is_file():
            raise DamagedCheckpointError(f"{name} is not a file")

    def _loaded(self, place: str, folder: Path) -> Any:
        """The files are whole: an error means that today's code cannot read them."""
        try:
            return self.load(folder)
        except Exception as error:
            error.add_note(f"while loading {place}")
            raise

    def _places(self) -> list[tuple[int, int]]:
        """Step and attempt of every checkpoint of attempts up to this one, the newest first."""
        self.filesystem.invalidate_cache()
        attempts = [number for number in self._numbers(self.root, "a") if number <= self.attempt]
        found = [(step, a) for a in attempts for step in self._numbers(f"{self.root}/a{a}", "step-")]
        return sorted(found, reverse=True)

    def _numbers(self, folder: str, prefix: str) -> Iterator[int]:
        try:
            paths = self.filesystem.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        for path in paths:
            if match := re.fullmatch(rf"{prefix}(\d+)", path.rstrip("/").rpartition("/")[2]):
                yield int(match[1])

    def _prune(self) -> None:
        """Keep the newest of this attempt, and until there are enough, the one that it started from."""
        places = self._places()
        own = [place for place in places if place[1] == self.attempt]
        kept = [*own, *([self._started_from] if self._started_from else [])][:KEPT]
        for step, attempt in places:
            if (step, attempt) not in kept:
                self._remove(self._place(step, attempt))

    def _remove(self, place: str) -> None:
        """The manifest first: what a crash or an open file leaves is an unfinished checkpoint, not a damaged one."""
        for path in (f"{place}/{MANIFEST}", place):
            with unless_in_use():
                self.filesystem.rm(path, recursive=True)
