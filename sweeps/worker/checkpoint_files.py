"""The files of checkpoints at any fsspec URL: parts, the manifest, which is written last, and the
owner's claim.

A state is an outline in the manifest, and files next to it (`plain_state`, or what the task's own
``save`` wrote).
"""

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sweeps.processes.storage import answer_in_time, give_sign_of_life, own_temporary, unless_in_use
from sweeps.random_states import RandomStates
from sweeps.task import Keep, Saved, Task
from sweeps.worker.events import Report
from tracking.files import sync_folder

MANIFEST = "manifest.json"
TEMPORARY = ".part"  # suffix of a file that is being written
WORK_FILES = "files"  # the folder of a trial's own files, next to its checkpoints
SUM = "sha256"  # of the manifest's other fields


class DamagedCheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


@dataclass(frozen=True)
class Manifest:
    """``files``: bytes and SHA-256 by name. ``reports``: those up to the step that the journal may
    lack on disk.

    ``score`` decides the best, the lowest one. ``outline`` is the state's; None with the task's own
    ``save``. ``lineage`` and ``run`` are those of the attempt that wrote it, and ``code`` the hash
    of the user's code that it trained with: "" where they are not known. ``random``: the random
    states, if the work asked to keep them.
    """

    key: str
    step: int
    seconds: float  # of training so far
    score: float | None = None
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    outline: Any = None
    reports: tuple[Report, ...] = ()
    lineage: str = ""
    run: str = ""
    code: str = ""
    cpu_seconds: float | None = None  # of training so far; None if an earlier version counted none
    random: RandomStates | None = None

    def content(self) -> bytes:
        fields = {**vars(self), "reports": [asdict(report) for report in self.reports]}
        if self.random is None:
            del fields["random"]  # as versions without it write it
        return _compact(fields | {SUM: hashlib.sha256(_compact(fields)).hexdigest()})

    @property
    def digest(self) -> str:
        """A hash that identifies this checkpoint."""
        return hashlib.sha256(self.content()).hexdigest()

    @staticmethod
    def of(content: bytes) -> "Manifest":
        """Raises DamagedCheckpointError."""
        try:
            fields = json.loads(content)
            expected = fields.pop(SUM)
            if hashlib.sha256(_compact(fields)).hexdigest() != expected:
                raise DamagedCheckpointError(f"{MANIFEST} does not match its checksum")
            files = {
                name: (int(size), str(digest)) for name, (size, digest) in fields["files"].items()
            }
            reports = tuple(Report(**report) for report in fields["reports"])
            return Manifest(**fields | {"files": files, "reports": reports})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, DamagedCheckpointError):
                raise
            raise DamagedCheckpointError(f"{MANIFEST} cannot be read") from None


@dataclass(frozen=True, order=True)
class CheckpointId:
    """The step and attempt of one checkpoint. The newest has the latest step, and among equals the
    latest attempt."""

    step: int
    attempt: int

    def __str__(self) -> str:
        return f"a{self.attempt}/step-{self.step}"


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
class OwnFormat:
    """How a task writes states that are not plain, and reads them."""

    save: Callable[[Any, Path], None]
    load: Callable[[Path], Any]

    @staticmethod
    def of(task: Task[Any]) -> "OwnFormat | None":
        """None for a task whose states are plain."""
        return OwnFormat(task.save, task.load) if task.save and task.load else None

    def files(self, state: Any) -> dict[str, bytes]:
        """What ``save`` writes, by path. Raises what ``save`` raises."""
        with own_temporary() as temporary:
            self.save(state, temporary)
            paths = sorted(path for path in temporary.rglob("*") if path.is_file())
            return {path.relative_to(temporary).as_posix(): path.read_bytes() for path in paths}

    def state(self, content: Mapping[str, bytes]) -> Any:
        """What ``load`` reads from these files. Raises what ``load`` raises."""
        with own_temporary() as temporary:
            for name, part in content.items():
                path = temporary / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(part)
            return self.load(temporary)


def _compact(fields: Mapping[str, Any]) -> bytes:
    """JSON in the order of the fields: the order of a state's dicts is part of the state."""
    return json.dumps(fields, separators=(",", ":")).encode()


def finite(score: float | None) -> float | None:
    """None for a score that decides nothing."""
    return score if score is not None and math.isfinite(score) else None


def folders_at(url: str) -> set[str]:
    """The names of the folders at this address; none where nothing is, or where nothing answers in
    time."""

    def names() -> set[str]:
        filesystem, home = fsspec.core.url_to_fs(url)
        paths = filesystem.ls(home, detail=False)
        return {path.rstrip("/").rpartition("/")[2] for path in paths}

    with suppress(Exception):  # each filesystem has its own errors, and preflight reports them
        return answer_in_time(names)
    return set()


def copy_work_files(source: Path, target: Path) -> None:
    """Make ``target`` hold what ``source`` holds, and nothing else. They share no file: work may
    change its own."""

    def copy(path: str, copy_path: str) -> None:
        shutil.copyfile(path, copy_path)
        give_sign_of_life()

    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target, copy_function=copy)


class CheckpointFiles:
    """Reads and writes checkpoints by their folder."""

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem

    def write(self, folder: str, manifest: Manifest, parts: Mapping[str, bytes]) -> None:
        """A folder without a manifest was never finished."""
        self.filesystem.makedirs(folder, exist_ok=True)
        for name, content in parts.items():
            self.filesystem.makedirs(f"{folder}/{name}".rpartition("/")[0], exist_ok=True)
            self._put(f"{folder}/{name}", content)
            give_sign_of_life()  # a worker that waits for this write does not hang
        self._put(f"{folder}/{MANIFEST}", manifest.content())

    def manifest(self, folder: str) -> Manifest | None:
        """None if the checkpoint was never finished. Raises DamagedCheckpointError."""
        try:
            return Manifest.of(self.filesystem.cat_file(f"{folder}/{MANIFEST}"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            raise DamagedCheckpointError(f"{MANIFEST} is a folder") from None

    def parts(self, folder: str, manifest: Manifest) -> dict[str, bytes]:
        """The content of each file, whole. Raises DamagedCheckpointError."""
        contents: dict[str, bytes] = {}
        for name, (size, digest) in manifest.files.items():
            contents[name] = self._whole(folder, name, size, digest)
        return contents

    def remove(self, folder: str) -> None:
        """The manifest first: what a crash or an open file leaves is an unfinished checkpoint, not
        a damaged one."""
        for path in (f"{folder}/{MANIFEST}", folder):
            with unless_in_use():
                self.filesystem.rm(path, recursive=True)

    def numbers(self, folder: str, prefix: str) -> Iterator[int]:
        """The numbers of the entries ``<prefix><number>``."""
        try:
            paths = self.filesystem.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        for path in paths:
            name = path.rstrip("/").rpartition("/")[2]
            if name.startswith(prefix) and name[len(prefix) :].isdecimal():
                yield int(name[len(prefix) :])

    def _whole(self, folder: str, name: str, size: int, digest: str) -> bytes:
        try:
            content: bytes = self.filesystem.cat_file(f"{folder}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            raise DamagedCheckpointError(f"{name} is missing") from None
        if len(content) != size:
            raise DamagedCheckpointError(
                f"{name} has {len(content)} bytes, but {size} were written"
            )
        if hashlib.sha256(content).hexdigest() != digest:
            raise DamagedCheckpointError(f"{name} does not match its checksum")
        return content

    def _put(self, path: str, content: bytes) -> None:
        """On a local disk a file has its name once all of it is on the disk, so that a power cut
        takes no file of which an older one is removed."""
        if not isinstance(self.filesystem, LocalFileSystem):
            self.filesystem.pipe_file(path, content)
            return
        temporary = Path(f"{path}{TEMPORARY}")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(temporary.parent)


def described(parts: Mapping[str, bytes]) -> dict[str, tuple[int, str]]:
    return {
        name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in parts.items()
    }


OWNER = "owner.json"
"""Next to the folders of attempts: the newest one, which owns them."""


def to_keep(
    finished: Sequence[CheckpointId], keep: Keep, scores: Mapping[CheckpointId, float | None]
) -> set[CheckpointId]:
    """The checkpoints that ``keep`` asks for. ``finished`` has one of each step, the newest
    first."""
    regular = [checkpoint for checkpoint in finished if checkpoint.step % keep.every == 0]
    staying = {*finished[:1], *regular[: keep.newest]}
    staying |= {checkpoint for checkpoint in finished if checkpoint.step in keep.steps}
    scored = [checkpoint for checkpoint in finished if scores[checkpoint] is not None]
    if keep.best and scored:
        # of equal ones, the first is the latest
        staying.add(min(scored, key=lambda checkpoint: scores[checkpoint] or 0.0))
    return staying


class SupersededError(Exception):
    """A newer attempt owns the checkpoints, in one line."""


class Owner:
    """Whether an attempt owns the checkpoints. One that never claimed them, such as a verb, checks
    nothing.

    A worker that was cut off may live on and write while its successor trains. Once it sees the
    successor's claim, it neither writes nor removes anything.
    """

    def __init__(self, filesystem: Any, root: str, attempt: int) -> None:
        self.filesystem = filesystem
        self.path = f"{root}/{OWNER}"
        self.root = root
        self.mine = {"attempt": attempt, "run": ""}
        self.claimed = False

    def claim(self, run: str) -> None:
        """Own the checkpoints from now on. ``run`` is the same for all attempts of one sweep, and
        new for the next.

        Raises SupersededError if this attempt starts after its own successor.
        """
        self.mine["run"] = run
        owner = self._newest_claim()
        if owner and owner["run"] == self.mine["run"] and owner["attempt"] > self.mine["attempt"]:
            raise self._superseded(owner)
        self.filesystem.makedirs(self.root, exist_ok=True)
        self.filesystem.pipe_file(f"{self.path}.part", json.dumps(self.mine).encode())
        self.filesystem.mv(f"{self.path}.part", self.path)
        self.claimed = True

    def check(self) -> None:
        """Raises SupersededError once another attempt has claimed the checkpoints.

        The claim of an earlier attempt of this sweep is one from before ours: the storage shows an
        older state. Raises OSError if the claim of this process is gone: the storage is away or was
        emptied.
        """
        if not self.claimed:
            return
        owner = self._newest_claim()
        if owner is None and not self.filesystem.exists(self.path):
            raise OSError(errno.ESTALE, "the claim of this attempt is gone", self.path)
        earlier = (
            owner and owner["run"] == self.mine["run"] and owner["attempt"] < self.mine["attempt"]
        )
        if owner and owner != self.mine and not earlier:
            raise self._superseded(owner)

    def _newest_claim(self) -> dict[str, Any] | None:
        """The newest claim; None without one, or if its file is damaged."""
        try:
            claim = json.loads(self.filesystem.cat_file(self.path))
            return {"attempt": int(claim["attempt"]), "run": str(claim["run"])}
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def _superseded(self, owner: dict[str, Any]) -> SupersededError:
        return SupersededError(
            f"attempt {owner['attempt']} owns {self.root}, so attempt {self.mine['attempt']} ends"
        )
