"""The tracking store: what can never work is refused; a server that is down now is only said, since journals wait."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from sweeps.preflight.places import write_error
from sweeps.processes.times import STORE_CONNECTS_S
from sweeps.schema import Problem
from tracking.uri import without_password

PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
SQLITE_HEADER = b"SQLite format 3\0"
DRIVERS = {"psycopg2": "psycopg2-binary", "psycopg": "psycopg[binary]", "MySQLdb": "mysqlclient"}


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
    """A problem if the database's Python driver is missing."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    shown = f"is {without_password(uri)}"
    try:
        make_url(uri).get_dialect().import_dbapi()
    except ModuleNotFoundError as error:
        package = DRIVERS.get(str(error.name), str(error.name))
        yield Problem("tracking.uri", f"{shown}, whose driver {error.name} is not installed", f"pip install {package}")
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        yield Problem("tracking.uri", f"{shown}: {error}", "must be an address that SQLAlchemy knows")
