"""The places that a study writes to: folders and filesystems, each tried with a file, and the tracking store."""

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from rich.filesize import decimal

from sweeps.config.settings import Paths
from sweeps.planning.plan import Plan
from sweeps.processes.ray_private import (
    COPIED_FOR_A_JOB,
    FOLDER,
    LONGEST_SOCKET,
    TEMPORARY,
    longest_socket,
    temporary_folder,
)
from sweeps.processes.times import PLACE_ANSWER_S, STORE_CONNECTS_S
from sweeps.schema import Problem, nearest
from tracking.uri import without_password
from tracking.words import cause_of

LOCAL = ("file://", "local://")
LONGEST_FILE_NAME = 255  # bytes, on the common filesystems


def place_problems(paths: Paths) -> list[Problem]:
    """The places that cannot be written to. They need not exist."""
    problems = [*_folder_problems("paths.runs", paths.runs), *_folder_problems("paths.data", paths.data)]
    if paths.checkpoints is not None:
        problems += checkpoint_problems("paths.checkpoints", paths.checkpoints)
    return problems


def disk_problems(plan: Plan) -> Iterator[Problem]:
    """Checkpoints that will not fit on the disk. Trials that have begun already have most of theirs."""
    place = plan.composition.shared.paths.checkpoints
    folder = plan.folder if place is None else local(place)
    new = [planned for planned in plan.pending if planned.state == "missing"]
    if folder is None or not new:
        return
    needed = sum(planned.costs.checkpoint_bytes or 0 for planned in new)
    free = shutil.disk_usage(nearest_existing(folder)).free
    if needed > free:
        found = f"has {decimal(free)} free, but the checkpoints of {len(new)} trials need {decimal(int(needed))}"
        allowed = "choose a larger disk, fewer rows, or fewer checkpoints"
        yield Problem("paths.runs" if place is None else "paths.checkpoints", found, allowed, None, str(folder))


def name_problems(plan: Plan) -> Iterator[Problem]:
    """Trials whose folder would have too long a name."""
    for planned in plan.pending:
        if (length := len(planned.trial.name.encode())) > LONGEST_FILE_NAME:
            found = f"gives a trial folder whose name takes {length} bytes"
            allowed = f"must have at most {LONGEST_FILE_NAME}; rename the row's file"
            yield Problem(f"row {planned.trial.row}", found, allowed, None, str(plan.folder))


def _folder_problems(key: str, folder: str) -> Iterator[Problem]:
    """A problem if no file can be written in the folder, or in the one in which it would be created."""
    path = Path(folder)
    existing = nearest_existing(path)
    if COPIED_FOR_A_JOB in folder:
        found = f"is {folder}, in this job's copy of --working-dir, which Ray may remove"
        yield Problem(key, found, f"type an absolute path elsewhere, such as {key}=/shared/{path.name}")
    elif not existing.is_dir():
        what = "which" if existing == path else f"but {existing}"
        yield Problem(key, f"is {folder}, {what} is not a folder", "must be a folder, or a new name in one")
    elif error := _name_error(path) or write_error(existing):
        found = f"is {folder}, but no file can be written in {existing}: {error.strerror or error}"
        yield Problem(key, found, "must be a folder with write permission")


def _name_error(path: Path) -> OSError | None:
    """Why the system takes no such path, such as one that is too long."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return error
    return None


def write_error(folder: Path) -> OSError | None:
    """Why no file can be written in the folder. The trial file has no name, so nothing is left even after a crash."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error


def nearest_existing(path: Path) -> Path:
    """The path itself, or the closest folder above it that exists. A broken link exists, too."""
    there = (candidate for candidate in (path, *path.parents) if os.path.lexists(candidate))
    return next(there, Path(path.anchor or "."))


def ray_folder_problems() -> Iterator[Problem]:
    """Why Ray cannot start here: its folder takes no file, or its path is too long for a Unix socket."""
    variable, folder = temporary_folder()
    size = len(longest_socket().encode(errors="surrogateescape"))
    if size > LONGEST_SOCKET:
        fault = f"is {folder}, in which the path of Ray's socket has {size} bytes"
        limit = f"a socket's path has at most {LONGEST_SOCKET} bytes"
        yield Problem(variable, fault, f"set {TEMPORARY} to a shorter path, such as /tmp: {limit}")
    elif error := write_error(nearest_existing(folder / FOLDER)):
        fault = f"is {folder}, in which Ray cannot write: {error.strerror or error}"
        allowed = f"set {TEMPORARY} to a folder with write permission, such as /tmp"
        yield Problem(variable, fault, allowed)


def checkpoint_problems(key: str, place: str) -> list[Problem]:
    """A problem if the place cannot be written to, with the missing package, credentials or bucket."""
    folder = local(place)
    return list(_folder_problems(key, str(folder)) if folder is not None else _remote_problems(key, place))


def local(place: str) -> Path | None:
    """The folder on this machine; None for other filesystems."""
    for start in LOCAL:
        if place.startswith(start):
            return Path(place.removeprefix(start))
    return None if "://" in place else Path(place)


def _remote_problems(key: str, place: str) -> Iterator[Problem]:
    """Write and remove a small file, as a training does. A filesystem that waits is left behind."""
    failures: list[Exception] = []
    thread = Thread(target=_write_and_remove, args=(place, failures), daemon=True)  # never keeps the process alive
    thread.start()
    thread.join(PLACE_ANSWER_S)
    if thread.is_alive():
        failures.append(TimeoutError(f"it did not answer within {PLACE_ANSWER_S:g} s"))
    for error in failures:
        allowed = "must be a folder, or a URL such as s3://BUCKET/FOLDER that can be reached and written to from here"
        yield Problem(
            key, f"is {place}, which cannot be written to: {cause_of(error)}", allowed, _nearest_protocol(place)
        )


def _nearest_protocol(place: str) -> str | None:
    """The known protocol that an unknown one most likely means."""
    import fsspec

    protocol = place.partition("://")[0].split("::")[0]
    known = fsspec.available_protocols()
    near = None if protocol in known else nearest(protocol, known)
    return near and f"{near}://"


def _write_and_remove(place: str, failures: list[Exception]) -> None:
    import fsspec

    try:
        filesystem, home = fsspec.core.url_to_fs(place, skip_instance_cache=True)
        probe = f"{home.rstrip('/')}/.allelse-{uuid.uuid4().hex}"
        filesystem.pipe_file(probe, b"")
        filesystem.rm_file(probe)
    except Exception as error:  # each filesystem has its own errors
        failures.append(error)


PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
SQLITE_HEADER = b"SQLite format 3\0"


def store_problems(uri: str | None, runs: Path) -> list[Problem]:
    """A missing folder, file or driver of the tracking store; ``uri`` None is the default store."""
    if uri is not None and _kind(uri) != "sqlite":
        return list(_driver_problems(uri)) if _kind(uri) in ("postgresql", "mysql", "mssql") else []
    key = "tracking.uri" if uri else "paths.runs"
    path = Path(uri.split("///", 1)[1].split("?", 1)[0]) if uri else runs / "mlflow.db"
    if str(path).startswith("file:"):  # SQLite's own form of address, with options of its own
        return []
    try:
        return list(_database_file_problems(key, path, made_later=uri is None))
    except OSError as error:
        return [Problem(key, f"has {path}, which cannot be read: {error.strerror}", "must be a file of your own")]


def store_notices(uri: str | None) -> Iterator[str]:
    """A line if nothing answers at the server's address now."""
    if uri is None or _kind(uri) not in PORTS:
        return
    parts = urlsplit(uri)
    if parts.hostname is None:  # a driver's own form of address
        return
    port = parts.port or PORTS[_kind(uri)]
    try:
        socket.create_connection((parts.hostname, port), timeout=STORE_CONNECTS_S).close()
    except OSError as error:
        cause = error.strerror or error
        where = without_password(uri)
        yield f"No answer from {where} now ({cause}). Reports stay on disk; `allelse sync` sends them later."


def _kind(uri: str) -> str:
    return uri.split(":", 1)[0].split("+", 1)[0].lower()


def _database_file_problems(key: str, path: Path, made_later: bool) -> Iterator[Problem]:
    if path.is_dir():
        yield Problem(key, f"has a folder at {path}", "must have a database file there, or nothing")
    elif path.exists():
        with path.open("rb") as file:
            start = file.read(len(SQLITE_HEADER))
        if start and start != SQLITE_HEADER:
            yield Problem(key, f"has {path}, which is not an SQLite database", "move the file away, or name another")
        elif not os.access(path, os.W_OK):
            yield Problem(key, f"has {path}, which is read-only", "must be a database that can be written to")
    elif made_later:
        return
    elif not path.parent.is_dir():
        yield Problem(key, f"names a file in {path.parent}, which does not exist", "create that folder first")
    elif error := write_error(path.parent):
        found = f"names a file in {path.parent}, in which none can be written: {error.strerror or error}"
        yield Problem(key, found, "must be a folder with write permission")


def _driver_problems(uri: str) -> Iterator[Problem]:
    """A problem if SQLAlchemy does not know the address, or lacks the database's Python driver."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except (ImportError, ArgumentError, NoSuchModuleError, ValueError) as error:
        allowed = "must be an address that SQLAlchemy knows, with its Python driver installed"
        yield Problem("tracking.uri", f"is {without_password(uri)}: {error}", allowed)
