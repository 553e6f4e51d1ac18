"""The default store's database, `<paths.runs>/mlflow.db`: it holds absolute addresses of artifacts, and may be moved.

It is read without MLflow, whose import takes three seconds.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tracking.uri import artifact_folder

ARTIFACTS = "/mlflow-artifacts"  # how their addresses end
ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
"""Tables and columns with addresses of artifacts."""


def follow_move(runs: Path) -> None:
    """Correct the addresses of artifacts in the default store after its folder was moved or copied.

    Raises sqlite3.Error if the database cannot be read or written.
    """
    path, now = runs / "mlflow.db", artifact_folder(runs)
    if not path.exists():
        return
    with closing(_open(path, "rw")) as database, database:
        present = [each for each in ADDRESSES if _has(database, *each)]
        for former in _former_artifacts(database, now) if ADDRESSES[0] in present else ():
            for table, column in present:
                _replace_start(database, table, column, former, now.as_uri())


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)


def _has(database: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether this version of MLflow's schema has the column."""
    return column in [fields[1] for fields in database.execute(f"PRAGMA table_info({table})")]


def has_run(runs: Path, run: str) -> bool:
    """Whether the default store has the run: a study that was copied without its store names one of another store.

    Raises sqlite3.Error if the database cannot be read.
    """
    with closing(_open(runs / "mlflow.db", "ro")) as database:
        wanted = "SELECT 1 FROM runs WHERE run_uuid = ?"
        return _has(database, "runs", "run_uuid") and database.execute(wanted, (run,)).fetchone() is not None


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
