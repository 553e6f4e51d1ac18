"""The store's address, and the default store, `<paths.runs>/mlflow.db`, which may be moved or copied with its folder.

MLflow connects to a database ten times in a row, for 100 seconds, and keeps the artifacts of an experiment in the
current folder unless it is given another place. It takes SQLite's own form of address for a path, and makes its folder.
Its database holds absolute addresses of artifacts. A study's own files name the default store by ``HERE``.
"""

import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import unquote, urlsplit

from tracking.uri import artifact_folder, default_uri, without_password

HERE = "<paths.runs>/mlflow.db"
NEW = ".mlflow-new-"
NETWORKED = ("postgresql", "mysql", "mssql")  # databases that MLflow writes to directly
ARTIFACTS = "/mlflow-artifacts"  # how their addresses end
ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
"""Tables and columns with addresses of artifacts."""


def kind(uri: str) -> str:
    """The scheme without its driver: `postgresql+psycopg://…` is `postgresql`."""
    return uri.split(":", 1)[0].split("+", 1)[0].lower()


def artifacts_of(uri: str, runs: Path) -> str | None:
    """Where a new experiment keeps its artifacts: below ``runs`` for a database. None: a server decides itself."""
    return artifact_folder(runs).as_uri() if kind(uri) in ("sqlite", *NETWORKED) else None


def without_new_folder(uri: str) -> str:
    """The address by which MLflow makes no folder `file:` in the current one: it makes none if a driver is named."""
    return uri.replace("sqlite:///file:", "sqlite+pysqlite:///file:", 1)


def connected(uri: str) -> Any:
    """A client. Raises the driver's error at once if a networked database is out of reach; MLflow would repeat it
    silently. A database that hangs is waited for."""
    from mlflow.tracking import MlflowClient

    address = without_new_folder(uri)
    if kind(address) in NETWORKED:
        from mlflow.store.db.utils import create_sqlalchemy_engine

        engine = create_sqlalchemy_engine(address)
        engine.connect().close()
        engine.dispose()
    return MlflowClient(tracking_uri=address, registry_uri=address)


def create(runs: Path) -> None:
    """Create the default store whole or not at all: MLflow cannot resume migrations that were cut short.

    Each try has a folder of its own, since MLflow keeps its connection to an address open.
    """
    if (runs / "mlflow.db").exists():
        return
    for cut in runs.glob(f"{NEW}*"):
        shutil.rmtree(cut, ignore_errors=True)
    new = Path(mkdtemp(prefix=NEW, dir=runs))
    connected(default_uri(new)).search_experiments(max_results=1)
    (new / "mlflow.db").replace(runs / "mlflow.db")
    shutil.rmtree(new)


def store_name(uri: str, runs: Path) -> str:
    """How the files of a study below ``runs`` name the store at this address: without a password."""
    return HERE if uri == default_uri(runs) else without_password(uri, mark="")


def known_runs(runs: Path) -> set[str] | None:
    """The runs of the default store; None if that cannot be known."""
    path = runs / "mlflow.db"
    if not path.exists():
        return set()
    with suppress(sqlite3.Error), closing(_open(path, "ro")) as database:
        return {str(run) for (run,) in database.execute("SELECT run_uuid FROM runs")}
    return None


def follow_move(runs: Path) -> None:
    """Correct the addresses of artifacts in the default store after its folder was moved or copied.

    Raises sqlite3.Error if the database cannot be read or written.
    """
    path = runs / "mlflow.db"
    if not path.exists():
        return
    with closing(_open(path, "rw")) as database, database:
        now, present = artifact_folder(runs), [each for each in ADDRESSES if _has(database, *each)]
        for former in _former_artifacts(database, now) if ADDRESSES[0] in present else ():
            for table, column in present:
                _replace_start(database, table, column, former, now.as_uri())


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)


def _has(database: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether this version of MLflow's schema has the column."""
    return column in [fields[1] for fields in database.execute(f"PRAGMA table_info({table})")]


def _former_artifacts(database: sqlite3.Connection, now: Path) -> list[str]:
    """The addresses of earlier artifact folders. One that was left behind, and still exists, stays in use."""
    found = database.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
    places = [place for (place,) in found if place and place.startswith("file://") and place.endswith(ARTIFACTS)]
    there = {place for place in places if Path(unquote(urlsplit(place).path)).exists()}
    return [place for place in places if place != now.as_uri() and (now.exists() or place not in there)]


def _replace_start(database: sqlite3.Connection, table: str, column: str, former: str, now: str) -> None:
    """Replace the folder ``former`` at the start of each address in the column."""
    database.execute(
        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"  # names from ADDRESSES
        f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
        (now, len(former) + 1, former, len(former) + 1, f"{former}/"),
    )
