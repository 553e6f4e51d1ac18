"""The prepared data of a task: where it lies, which copy it is.

A folder is made once per fingerprint and version of the user's code, and is whole: what other code has made is kept for
the trials that were trained with it, and trains no others.
"""

import hashlib
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sweeps.processes.storage import alive, at_place
from sweeps.processes.times import LOOK_AT_LOCK_S
from sweeps.schema import Problem, RefusedError
from sweeps.task import Task, Told
from tracking.provenance import prepared_place
from tracking.trial import TrialFolder

PREPARED_MANIFEST = "prepared.json"
PREPARED_NOTES = "notes.json"
"""What the task may write about its data, such as counts: it is no part of the data's identity."""


def data_place(task: Task[Any], folder: Path, fingerprint: str, code: str = "") -> Path:
    """Below ``paths.data``, prepared or not. A task that prepares nothing reads that folder itself.

    ``code`` is the hash of the user's code that prepares it; "" for our own task.
    """
    if task.prepare is None:
        return folder
    return prepared_place(folder, task.name, fingerprint, code)


def identity(task: Task[Any], folder: Path, fingerprint: str, code: str = "") -> str:
    """What tells the prepared data from another copy of it; "" if nothing is prepared. Raises RefusedError."""
    place = data_place(task, folder, fingerprint, code)
    return "" if task.prepare is None or not place.is_dir() else str(_manifest(place)["digest"])


def earlier_copy(task: Task[Any], folder: Path, fingerprint: str, code: str) -> Path | None:
    """Data of the same fingerprint that other code has prepared; None without."""
    for manifest in sorted((folder / task.name).glob(f"*/{PREPARED_MANIFEST}")):
        with suppress(RefusedError):  # damaged data is no copy
            content = _manifest(manifest.parent)
            if content["fingerprint"] == fingerprint and content.get("code", "") != code:
                return manifest.parent
    return None


def write_manifest(folder: Path, fingerprint: str, code: str = "") -> None:
    """Size and SHA-256 of every file but the notes; written last, so that data without it is not whole."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / PREPARED_NOTES)
    files = {path.relative_to(folder).as_posix(): _described(path) for path in paths}
    content = {"fingerprint": fingerprint, "files": files}
    whole = {**content, "digest": _digest(content), "code": code}
    (folder / PREPARED_MANIFEST).write_text(json.dumps(whole, indent=1), "utf-8")


def check_whole(place: Path, fingerprint: str) -> str:
    """The identity of the data, if every file is as it was prepared: that takes a second per gigabyte.

    Raises RefusedError with the first file that is not.
    """
    manifest = _manifest(place)
    if manifest["fingerprint"] != fingerprint:
        raise _damaged(place, f"its fingerprint is {manifest['fingerprint']:.80}")
    for name, described in manifest["files"].items():
        if not (place / name).is_file():
            raise _damaged(place, f"{name} is missing")
        if _described(place / name) != described:
            raise _damaged(place, f"{name} was changed after it was prepared")
    return str(manifest["digest"])


def _manifest(place: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((place / PREPARED_MANIFEST).read_text("utf-8"))
        if _digest({name: manifest[name] for name in ("fingerprint", "files")}) != manifest["digest"]:
            raise ValueError
        return manifest
    except FileNotFoundError:
        raise _damaged(place, f"{PREPARED_MANIFEST} is missing") from None
    except (ValueError, TypeError, KeyError):
        raise _damaged(place, f"{PREPARED_MANIFEST} was changed after it was prepared") from None


def _damaged(place: Path, what: str) -> RefusedError:
    allowed = "remove that folder; the same data is then prepared again"
    return RefusedError([Problem("paths.data", f"prepared data is damaged: {what}", allowed, None, str(place))])


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _described(path: Path) -> list[int | str]:
    """Its size and SHA-256."""
    alive()
    with path.open("rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]


SHARED = "must be on storage that all nodes share, or every node needs the planned data"


def prepared_folder(
    task: Task[Any],
    configs: Sequence[Any],
    data_folder: Path,
    fingerprint: str,
    identity: str = "",
    code: str = "",
) -> Path:
    """The folder of the data, prepared on this node unless it is there; without ``prepare`` it is ``data_folder``.

    Raises RefusedError, with this host's name, if the data differs from the planned one, or from the copy ``identity``;
    "" allows any copy.
    """
    place = data_place(task, data_folder, fingerprint, code)
    if task.prepare is None:
        return place
    try:
        found = prepare_once(task, configs, place, fingerprint, code=code)
    except RefusedError as error:
        if place.is_dir():
            raise
        raise _cannot_prepare(place, error) from error
    if identity not in ("", found):
        other = f"{socket.gethostname()} has another copy of the same data"
        raise RefusedError([Problem("paths.data", other, ONE_COPY, None, str(place))])
    return place


def prepare_once(
    task: Task[Any],
    configs: Sequence[Any],
    place: Path,
    fingerprint: str,
    told: Told = lambda step, done: None,
    code: str = "",
) -> str:
    """The identity of the data in ``place``, prepared now unless it is there: whoever comes second waits.

    Each call of ``told`` is a sign of life. Raises RefusedError for data that is refused, has changed since it was
    planned, or is damaged. A failure leaves nothing behind.
    """

    def tell(step: str, done: float | None) -> None:
        alive()
        told(step, done)

    if not place.is_dir():
        with _alone(place):
            if not place.is_dir():
                _prepare(task, configs, place, (fingerprint, code), tell)
    tell("checking", None)
    return check_whole(place, fingerprint)


def _prepare(task: Task[Any], configs: Sequence[Any], place: Path, made_of: tuple[str, str], told: Told) -> None:
    """Fill a folder next to ``place`` and rename it, so that a folder with the final name is whole.

    ``made_of``: its fingerprint, and the hash of the code.
    """
    fingerprint, code = made_of
    if task.fingerprint(configs[0]) != fingerprint:
        found = f"the data of {task.title(configs[0]) or task.name} changed after it was planned"
        raise RefusedError([Problem("data", found, "must not change before it is prepared; run the command again")])
    place.parent.mkdir(parents=True, exist_ok=True)  # a process that failed may have removed it
    temporary = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    try:
        temporary.chmod(0o755)  # mkdtemp's 0700 would hide the data from colleagues
        with at_place(place):
            assert task.prepare is not None
            task.prepare(configs, temporary, told)
            write_manifest(temporary, fingerprint, code)
        _take_name(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _take_name(temporary: Path, place: Path) -> None:
    try:
        temporary.rename(place)  # atomic, and never replaces a folder with content
    except OSError:
        if not place.is_dir():  # otherwise another process was first: not every filesystem has locks
            raise


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Lock out other processes that prepare the folder. After a failure, remove the lock and new empty folders."""
    new = [parent for parent in place.parents if not parent.exists()]
    lock = place.with_suffix(".lock")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(lock):
            yield
    except BaseException:
        with suppress(OSError):  # never made, or on storage that is read-only
            lock.unlink()
        for each in new:
            with suppress(OSError):  # another process has put something into it
                each.rmdir()
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Who waits for another process gives signs of life: it does not hang."""
    lock = FileLock(path)
    while not lock.is_locked:
        with suppress(Timeout):
            lock.acquire(timeout=LOOK_AT_LOCK_S)
        alive()
    try:
        yield
    finally:
        lock.release()


def _cannot_prepare(place: Path, error: RefusedError) -> RefusedError:
    host = f"{socket.gethostname()} has no prepared data and cannot prepare it"
    reasons = (f"{host}: {problem.key}: {problem.found}" for problem in error.problems)
    return RefusedError(Problem("paths.data", reason, SHARED, None, str(place)) for reason in reasons)


ONE_COPY = "must be the sweep's prepared data; share that folder, or prepare it with the same versions of packages"


def check_data(folder: TrialFolder, identity: str, place: Path, code: str = "") -> list[Problem]:
    """The problem if a trial began with another copy of the same data: its weights belong to that one.

    What other code has prepared is no such copy: a trial with that code is marked in tables.

    Raises DamagedFileError if the trial's provenance.json is damaged.
    """
    provenance = folder.provenance()
    if (provenance.get("code") or "") != code or provenance.get("data_identity") in (None, "", identity):
        return []
    found = f"has another copy of this data than {folder.path.name} was trained with"
    return [Problem("paths.data", found, ONE_COPY, None, str(place))]
