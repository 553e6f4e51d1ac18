"""Whether a study can write to its folders, its filesystem for checkpoints, and its tracking
store."""

import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from rich.filesize import decimal

from sweeps.config.settings import Paths
from sweeps.planning.plan import Plan
from sweeps.problems import Problem, nearest
from sweeps.processes.ray_private import (
    COPIED_FOR_A_JOB,
    FOLDER,
    LONGEST_SOCKET,
    TEMPORARY,
    longest_socket,
    temporary_folder,
)
from sweeps.processes.storage import answer_in_time
from sweeps.processes.times import STORE_CONNECTS_S
from tracking.error_causes import cause_of
from tracking.uri import without_password

LOCAL = ("file://", "local://")
LONGEST_FILE_NAME = 255  # bytes, on the common filesystems


def place_problems(paths: Paths) -> list[Problem]:
    """The paths that cannot be written to. Folders that don't exist yet are fine."""
    problems = [
        *_folder_problems("paths.runs", paths.runs),
        *_folder_problems("paths.data", paths.data),
    ]
    if paths.checkpoints is not None:
        problems += checkpoint_problems("paths.checkpoints", paths.checkpoints)
    return problems


def disk_problems(plan: Plan) -> Iterator[Problem]:
    """A problem if the checkpoints of new trials do not fit on the disk. Trials that began saved
    most already."""
    checkpoints = plan.shared.paths.checkpoints
    folder = plan.folder if checkpoints is None else local(checkpoints)
    new_trials = [planned for planned in plan.pending if planned.state == "missing"]
    if folder is None or not new_trials:
        return
    needed = sum(planned.costs.checkpoint_bytes or 0 for planned in new_trials)
    free = shutil.disk_usage(nearest_existing(folder)).free
    if needed > free:
        key = "paths.runs" if checkpoints is None else "paths.checkpoints"
        need = f"the checkpoints of {len(new_trials)} trials need {decimal(int(needed))}"
        fault = f"has {decimal(free)} free, but {need}"
        allowed = "choose a larger disk, fewer rows, or fewer checkpoints"
        yield Problem(key, fault, allowed, place=str(folder))


def name_problems(plan: Plan) -> Iterator[Problem]:
    """The trials whose folder names would be too long."""
    for planned in plan.pending:
        length = len(planned.name.encode())
        if length > LONGEST_FILE_NAME:
            fault = f"gives a trial folder a name of {length} bytes"
            allowed = f"must have at most {LONGEST_FILE_NAME}; rename the row's file"
            yield Problem(f"row {planned.trial.row}", fault, allowed, place=str(plan.folder))


def _folder_problems(key: str, folder: str) -> Iterator[Problem]:
    """A problem if no file can be written in the folder, or in the folder in which it would be
    created."""
    path = Path(folder)
    existing = nearest_existing(path)
    if COPIED_FOR_A_JOB in folder:
        fault = f"is {folder}, in this job's copy of --working-dir, which Ray may remove"
        fix = f"type an absolute path elsewhere, such as {key}=/shared/{path.name}"
        yield Problem(key, fault, fix)
    elif not existing.is_dir():
        subject = "which" if existing == path else f"but {existing}"
        fault = f"is {folder}, {subject} is not a folder"
        yield Problem(key, fault, "must be a folder, or a new name in one")
    elif error := _name_error(path) or write_error(existing):
        cause = error.strerror or error
        fault = f"is {folder}, but no file can be written in {existing}: {cause}"
        yield Problem(key, fault, "must be a folder with write permission")


def _name_error(path: Path) -> OSError | None:
    """Why the system rejects the path, such as one that is too long; None if it is valid."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return error
    return None


def write_error(folder: Path) -> OSError | None:
    """Why no file can be written in the folder; None if one can. The test file has no name, so no
    crash leaves it."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error


def nearest_existing(path: Path) -> Path:
    """The path itself, or the closest folder above it that exists. Broken links count as
    existing."""
    for candidate in (path, *path.parents):
        if os.path.lexists(candidate):
            return candidate
    return Path(path.anchor or ".")


def ray_folder_problems() -> Iterator[Problem]:
    """Why Ray cannot start here: its folder is not writable, or its path is too long for a Unix
    socket."""
    variable, folder = temporary_folder()
    size = len(longest_socket().encode(errors="surrogateescape"))
    if size > LONGEST_SOCKET:
        fault = f"is {folder}, where the path of Ray's socket has {size} bytes"
        limit = f"a socket's path has at most {LONGEST_SOCKET} bytes"
        yield Problem(variable, fault, f"set {TEMPORARY} to a shorter path, such as /tmp: {limit}")
    elif error := write_error(nearest_existing(folder / FOLDER)):
        fault = f"is {folder}, but Ray can't write to it: {error.strerror or error}"
        allowed = f"set {TEMPORARY} to a folder with write permission, such as /tmp"
        yield Problem(variable, fault, allowed)


def checkpoint_problems(key: str, location: str) -> list[Problem]:
    """A problem if the folder or URL cannot be written to, for example without a package,
    credentials or bucket."""
    folder = local(location)
    if folder is None:
        return list(_remote_problems(key, location))
    return list(_folder_problems(key, str(folder)))


def local(location: str) -> Path | None:
    """The folder on this machine; None if the URL is of a different filesystem."""
    for prefix in LOCAL:
        if location.startswith(prefix):
            return Path(location.removeprefix(prefix))
    return None if "://" in location else Path(location)


def _remote_problems(key: str, url: str) -> Iterator[Problem]:
    """Write and remove a small file at the URL, as training does."""
    try:
        answer_in_time(partial(_write_and_remove, url))
    except Exception as error:  # each filesystem has its own errors
        fault = f"is {url}, which cannot be written to: {cause_of(error)}"
        example = "a URL such as s3://BUCKET/FOLDER that can be reached and written to from here"
        yield Problem(key, fault, f"must be a folder, or {example}", _nearest_protocol(url))


def _nearest_protocol(url: str) -> str | None:
    """The protocol that the user most likely meant; None if the URL's protocol is supported."""
    import fsspec

    chain, _, _ = url.partition("://")
    protocol = chain.split("::")[0]
    supported = fsspec.available_protocols()
    if protocol in supported:
        return None
    suggestion = nearest(protocol, supported)
    return suggestion and f"{suggestion}://"


def _write_and_remove(url: str) -> None:
    import fsspec

    filesystem, folder = fsspec.core.url_to_fs(url, skip_instance_cache=True)
    probe = f"{folder.rstrip('/')}/.allelse-{uuid.uuid4().hex}"
    filesystem.pipe_file(probe, b"")
    filesystem.rm_file(probe)


SQL_SERVERS = ("postgresql", "mysql", "mssql")
PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
SQLITE_HEADER = b"SQLite format 3\0"


def store_problems(uri: str | None, runs: Path) -> list[Problem]:
    """A missing folder, file or driver of the tracking store. Without ``uri``, the store is a file
    in ``runs``."""
    if uri is not None and _scheme(uri) != "sqlite":
        return list(_driver_problems(uri)) if _scheme(uri) in SQL_SERVERS else []
    key = "tracking.uri" if uri else "paths.runs"
    path = _sqlite_path(uri) if uri else runs / "mlflow.db"
    if str(path).startswith("file:"):  # SQLite's own form of address, which has options
        return []
    try:
        return list(_database_file_problems(key, path, created_later=uri is None))
    except OSError as error:
        fault = f"has {path}, which cannot be read: {error.strerror}"
        return [Problem(key, fault, "must be a file of your own")]


def _sqlite_path(uri: str) -> Path:
    """The path in ``sqlite:///PATH?OPTIONS``."""
    path_and_options = uri.split("///", 1)[1]
    path, _, _ = path_and_options.partition("?")
    return Path(path)


def store_notices(uri: str | None) -> Iterator[str]:
    """A line if the tracking server does not answer now."""
    if uri is None or _scheme(uri) not in PORTS:
        return
    parts = urlsplit(uri)
    if parts.hostname is None:  # the database driver has its own form of address
        return
    address = (parts.hostname, parts.port or PORTS[_scheme(uri)])
    try:
        socket.create_connection(address, timeout=STORE_CONNECTS_S).close()
    except OSError as error:
        cause = error.strerror or error
        effect = "Reports stay on disk; `allelse sync` sends them later."
        yield f"No answer from {without_password(uri)} now ({cause}). {effect}"


def _scheme(uri: str) -> str:
    """The lowercase scheme without its driver: "postgresql" for "postgresql+psycopg://host"."""
    scheme, _, _ = uri.partition(":")
    return scheme.split("+", 1)[0].lower()


def _database_file_problems(key: str, path: Path, created_later: bool) -> Iterator[Problem]:
    """Why an SQLite file cannot be used. With ``created_later``, a missing file is fine. Raises
    OSError."""
    if path.is_dir():
        yield Problem(key, f"has a folder at {path}", "must have a database file there, or nothing")
    elif path.exists():
        yield from _existing_file_problems(key, path)
    elif created_later:
        return
    elif not path.parent.is_dir():
        fault = f"names a file in {path.parent}, which does not exist"
        yield Problem(key, fault, "create that folder first")
    elif error := write_error(path.parent):
        cause = error.strerror or error
        fault = f"names a file in {path.parent}, which can't be written to: {cause}"
        yield Problem(key, fault, "must be a folder with write permission")


def _existing_file_problems(key: str, path: Path) -> Iterator[Problem]:
    """A problem if the file is not an SQLite database or is read-only. Raises OSError."""
    with path.open("rb") as file:
        header = file.read(len(SQLITE_HEADER))
    if header and header != SQLITE_HEADER:
        fault = f"has {path}, which is not an SQLite database"
        yield Problem(key, fault, "move the file away, or name another")
    elif not os.access(path, os.W_OK):
        fault = f"has {path}, which is read-only"
        yield Problem(key, fault, "must be a writable database")


def _driver_problems(uri: str) -> Iterator[Problem]:
    """A problem if SQLAlchemy does not know the address, or lacks the database's Python driver."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except (ImportError, ArgumentError, NoSuchModuleError, ValueError) as error:
        allowed = "must be an address that SQLAlchemy knows, with its Python driver installed"
        yield Problem("tracking.uri", f"is {without_password(uri)}: {error}", allowed)
