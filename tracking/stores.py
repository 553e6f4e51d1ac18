"""What kind of store an address names, where its artifacts are kept, and how long it may take to connect.

MLflow connects to a database ten times in a row, for 100 seconds, and keeps the artifacts of an experiment in the
current folder unless it is given another place. It takes SQLite's own form of address for a path, and makes its folder.
"""

from pathlib import Path

from tracking.uri import artifact_folder

CONNECT_S = 5  # until a database has accepted a connection
NETWORKED = ("postgresql", "mysql", "mssql")  # databases that MLflow writes to directly


def kind(uri: str) -> str:
    """The scheme without its driver: `postgresql+psycopg://…` is `postgresql`."""
    return uri.split(":", 1)[0].split("+", 1)[0].lower()


def is_networked_database(uri: str) -> bool:
    return kind(uri) in NETWORKED


def artifacts_of(uri: str, runs: Path) -> str | None:
    """Where a new experiment keeps its artifacts: below ``runs`` for a database. None: a server decides itself."""
    return artifact_folder(runs).as_uri() if kind(uri) in ("sqlite", *NETWORKED) else None


def without_new_folder(uri: str) -> str:
    """The address by which MLflow makes no folder `file:` in the current one: it makes none if a driver is named."""
    own_form = "sqlite:///file:"  # of SQLite, which makes no folder either
    return uri.replace(own_form, "sqlite+pysqlite:///file:", 1) if uri.startswith(own_form) else uri


def with_connect_timeout(uri: str) -> str:
    """The address with a limit for connecting, unless it has one or its driver takes none."""
    if kind(uri) not in ("postgresql", "mysql"):
        return uri
    from sqlalchemy.engine import make_url

    url = make_url(uri)
    if "connect_timeout" in url.query:
        return uri
    return url.update_query_dict({"connect_timeout": str(CONNECT_S)}).render_as_string(hide_password=False)


def connect_once(uri: str) -> None:
    """Raise the driver's error at once if a networked database is out of reach. MLflow would repeat it silently."""
    if not is_networked_database(uri):
        return
    from mlflow.store.db.utils import create_sqlalchemy_engine

    engine = create_sqlalchemy_engine(uri)
    try:
        engine.connect().close()
    finally:
        engine.dispose()
