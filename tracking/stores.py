"""What kind of store an address names, where its artifacts are kept, and whether it can be reached.

MLflow connects to a database ten times in a row, for 100 seconds, and keeps the artifacts of an experiment in the
current folder unless it is given another place. It takes SQLite's own form of address for a path, and makes its folder.
"""

from pathlib import Path

from tracking.uri import artifact_folder

NETWORKED = ("postgresql", "mysql", "mssql")  # databases that MLflow writes to directly


def kind(uri: str) -> str:
    """The scheme without its driver: `postgresql+psycopg://…` is `postgresql`."""
    return uri.split(":", 1)[0].split("+", 1)[0].lower()


def artifacts_of(uri: str, runs: Path) -> str | None:
    """Where a new experiment keeps its artifacts: below ``runs`` for a database. None: a server decides itself."""
    return artifact_folder(runs).as_uri() if kind(uri) in ("sqlite", *NETWORKED) else None


def without_new_folder(uri: str) -> str:
    """The address by which MLflow makes no folder `file:` in the current one: it makes none if a driver is named."""
    own_form = "sqlite:///file:"  # of SQLite, which makes no folder either
    return uri.replace(own_form, "sqlite+pysqlite:///file:", 1) if uri.startswith(own_form) else uri


def connect_once(uri: str) -> None:
    """Raise the driver's error at once if a networked database is out of reach. MLflow would repeat it silently."""
    if kind(uri) not in NETWORKED:
        return
    from mlflow.store.db.utils import create_sqlalchemy_engine

    engine = create_sqlalchemy_engine(uri)
    try:
        engine.connect().close()
    finally:
        engine.dispose()
