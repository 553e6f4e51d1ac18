"""The default store, `<paths.runs>/mlflow.db`, which may be moved or copied with its folder.

MLflow's database holds absolute addresses of artifacts. A study's own files name the store by ``HERE``.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tracking.uri import artifact_folder, default_uri, without_password

HERE = "<paths.runs>/mlflow.db"
ARTIFACTS = "/mlflow-artifacts"  # how their addresses end
ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
"""Tables and columns with addresses of artifacts."""


def store_name(uri: str, runs: Path) -> str:
    """How the files of a study below ``runs`` name the store at this address: without a password."""
    return HERE if uri == default_uri(runs) else without_password(uri, mark="")


def known_runs(runs: Path) -> set[str] | None:
    """The runs of the default store; None if that cannot be known. A study copied alone leaves its runs behind."""
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
        for former in _former_artifacts(database, runs):
            for table, column in _present(database):
                _replace_start(database, table, column, former, artifact_folder(runs).as_uri())


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)


def _former_artifacts(database: sqlite3.Connection, runs: Path) -> list[str]:
    """The addresses of earlier artifact folders. One that was left behind, and still exists, stays in use."""
    now = artifact_folder(runs)
    if ("experiments", "artifact_location") not in _present(database):
        return []
    found = database.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
    places = [place for (place,) in found if place and place.startswith("file://") and place.endswith(ARTIFACTS)]
    return [place for place in places if place != now.as_uri() and (now.exists() or not _folder(place).exists())]


def _folder(address: str) -> Path:
    return Path(unquote(urlsplit(address).path))


def _present(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """Those of ADDRESSES that this version of MLflow's schema has."""
    return [
        (table, column)
        for table, column in ADDRESSES
        if column in [fields[1] for fields in database.execute(f"PRAGMA table_info({table})")]
    ]


def _replace_start(database: sqlite3.Connection, table: str, column: str, former: str, now: str) -> None:
    """Replace the folder ``former`` at the start of each address in the column."""
    database.execute(
        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"  # names from ADDRESSES
        f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
        (now, len(former) + 1, former, len(former) + 1, f"{former}/"),
    )
