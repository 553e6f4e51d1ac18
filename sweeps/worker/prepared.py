"""The prepared data of a task: its folder and its identity.

A folder is prepared once per fingerprint and version of the user's code, and is always complete.
Data that another version of the code prepared stays for the trials that were trained with it, and
serves no other trials.
"""

import hashlib
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sweeps.problems import Problem, RefusedError, refusal
from sweeps.processes.storage import at_place, give_sign_of_life
from sweeps.processes.times import LOOK_AT_LOCK_S
from sweeps.task import Task, Told
from tracking.provenance import prepared_place
from tracking.trial import TrialFolder

PREPARED_MANIFEST = "prepared.json"
PREPARED_NOTES = "notes.json"
"""What the task may write about its data, such as counts: it is no part of the data's identity."""


SHARED = "must be on storage that all nodes share, or every node needs the planned data"
ONE_COPY = (
    "must be the sweep's prepared data; share that folder, "
    "or prepare it with the same versions of packages"
)


@dataclass(frozen=True)
class TaskData:
    """The data of a task with this fingerprint below ``place``, which is ``paths.data``.

    ``code`` is the hash of the user's code that prepares it; "" for our own task.
    """

    task: Task[Any]
    place: Path
    fingerprint: str
    code: str = ""

    @property
    def folder(self) -> Path:
        """Prepared or not. A task that prepares nothing reads ``place`` itself."""
        if self.task.prepare is None:
            return self.place
        return prepared_place(self.place, self.task.name, self.fingerprint, self.code)

    def identity(self) -> str:
        """The hash that identifies this copy; "" if nothing is prepared. Raises RefusedError."""
        if self.task.prepare is None or not self.folder.is_dir():
            return ""
        return str(_manifest(self.folder)["digest"])

    def earlier_copy(self) -> Path | None:
        """The folder of the same data that another version of the code prepared; None without
        one."""
        for manifest in sorted((self.place / self.task.name).glob(f"*/{PREPARED_MANIFEST}")):
            with suppress(RefusedError):  # damaged data is no copy
                content = _manifest(manifest.parent)
                is_same = content["fingerprint"] == self.fingerprint
                if is_same and content.get("code", "") != self.code:
                    return manifest.parent
        return None

    def check_whole(self) -> str:
        """The identity of the data, if every file is as it was prepared: that takes a second per
        gigabyte.

        Raises RefusedError with the first file that is not.
        """
        folder = self.folder
        manifest = _manifest(folder)
        if manifest["fingerprint"] != self.fingerprint:
            raise _damaged(folder, f"its fingerprint is {manifest['fingerprint']:.80}")
        for name, recorded in manifest["files"].items():
            if not (folder / name).is_file():
                raise _damaged(folder, f"{name} is missing")
            if _described(folder / name) != recorded:
                raise _damaged(folder, f"{name} was changed after it was prepared")
        return str(manifest["digest"])

    def open(self, configs: Sequence[Any], identity: str = "") -> Path:
        """The folder of the data, prepared on this node unless it is there.

        Raises RefusedError, with this host's name, if the data differs from the planned one, or
        from the copy ``identity``; "" allows any copy.
        """
        if self.task.prepare is None:
            return self.folder
        try:
            actual_identity = self.prepare_once(configs)
        except RefusedError as error:
            if self.folder.is_dir():
                raise
            raise self._cannot_prepare(error) from error
        if identity not in ("", actual_identity):
            fault = f"{socket.gethostname()} has another copy of the same data"
            raise refusal("paths.data", fault, ONE_COPY, None, str(self.folder))
        return self.folder

    def prepare_once(
        self, configs: Sequence[Any], on_progress: Told = lambda step, share: None
    ) -> str:
        """The identity of the data, which is prepared now unless it is there: a second process
        waits.

        Each call of ``on_progress`` is a sign of life. Raises RefusedError for data that is
        refused, has changed since it was planned, or is damaged. A failure leaves nothing behind.
        """

        def tell(step: str, share: float | None) -> None:
            give_sign_of_life()
            on_progress(step, share)

        if not self.folder.is_dir():
            with _alone(self.folder):
                if not self.folder.is_dir():
                    self._prepare(configs, tell)
        tell("checking", None)
        return self.check_whole()

    def _prepare(self, configs: Sequence[Any], on_progress: Told) -> None:
        """Fill a temporary folder next to the final one and rename it, so that a folder with the
        final name is complete."""
        task = self.task
        if task.fingerprint(configs[0]) != self.fingerprint:
            title = task.title(configs[0]) or task.name
            fault = f"the data of {title} changed after it was planned"
            allowed = "must not change before it is prepared; run the command again"
            raise refusal("data", fault, allowed)
        folder = self.folder
        folder.parent.mkdir(
            parents=True, exist_ok=True
        )  # a process that failed may have removed it
        temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
        try:
            temporary.chmod(0o755)  # mkdtemp's 0700 would hide the data from colleagues
            with at_place(folder):
                assert task.prepare is not None
                task.prepare(configs, temporary, on_progress)
                self._write_manifest(temporary)
            _take_name(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write_manifest(self, folder: Path) -> None:
        """Write size and SHA-256 of every file but the notes. It is written last: data without it
        is incomplete."""
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files = {
            path.relative_to(folder).as_posix(): _described(path)
            for path in paths
            if path != folder / PREPARED_NOTES
        }
        content = {"fingerprint": self.fingerprint, "files": files}
        manifest = {**content, "digest": _digest(content), "code": self.code}
        (folder / PREPARED_MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")

    def _cannot_prepare(self, error: RefusedError) -> RefusedError:
        host = f"{socket.gethostname()} has no prepared data and cannot prepare it"
        reasons = (f"{host}: {problem.key}: {problem.found}" for problem in error.problems)
        return RefusedError(
            Problem("paths.data", reason, SHARED, None, str(self.folder)) for reason in reasons
        )

    def problems_for(self, trial: TrialFolder, identity: str) -> list[Problem]:
        """The problem if a trial began with a different copy of the same data than ``identity``:
        its weights belong to that copy.

        Data that another version of the code prepared is not such a copy: tables mark a trial with
        that code.

        Raises DamagedFileError if the trial's provenance.json is damaged.
        """
        provenance = trial.provenance()
        is_by_this_code = (provenance.get("code") or "") == self.code
        is_this_copy = provenance.get("data_identity") in (None, "", identity)
        if is_this_copy or not is_by_this_code:
            return []
        fault = f"holds a different copy of the data than the one {trial.path.name} was trained on"
        return [Problem("paths.data", fault, ONE_COPY, None, str(self.folder))]


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / PREPARED_MANIFEST).read_text("utf-8"))
        content = {name: manifest[name] for name in ("fingerprint", "files")}
        if _digest(content) != manifest["digest"]:
            raise ValueError
        return manifest
    except FileNotFoundError:
        raise _damaged(folder, f"{PREPARED_MANIFEST} is missing") from None
    except (ValueError, TypeError, KeyError):
        raise _damaged(folder, f"{PREPARED_MANIFEST} was changed after it was prepared") from None


def _damaged(folder: Path, fault: str) -> RefusedError:
    allowed = "remove that folder; the same data is then prepared again"
    return refusal("paths.data", f"prepared data is damaged: {fault}", allowed, None, str(folder))


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _described(path: Path) -> list[int | str]:
    """The size and SHA-256 of the file."""
    give_sign_of_life()
    with path.open("rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]


def _take_name(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)  # atomic, and never replaces a folder with content
    except OSError:
        if not folder.is_dir():
            # otherwise another process was first: not every filesystem has locks
            raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out other processes that prepare the folder. After a failure, remove the lock and new
    empty folders."""
    new_parents = [parent for parent in folder.parents if not parent.exists()]
    lock = folder.with_suffix(".lock")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(lock):
            yield
    except BaseException:
        with suppress(OSError):  # never made, or on storage that is read-only
            lock.unlink()
        for new_parent in new_parents:
            with suppress(OSError):  # another process has put something into it
                new_parent.rmdir()
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock. While waiting for another process, give signs of life."""
    lock = FileLock(path)
    while not lock.is_locked:
        with suppress(Timeout):
            lock.acquire(timeout=LOOK_AT_LOCK_S)
        give_sign_of_life()
    try:
        yield
    finally:
        lock.release()
