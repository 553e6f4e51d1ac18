"""Where MLflow keeps its runs, as a URI."""

import re
from pathlib import Path


def default_uri(runs: Path) -> str:
    """`sqlite:///<runs>/mlflow.db`, absolute: a relative one would depend on the current directory."""
    return f"sqlite:///{runs.resolve() / 'mlflow.db'}"


def artifact_folder(runs: Path) -> Path:
    """Where the default store keeps artifacts."""
    return runs.resolve() / "mlflow-artifacts"


def without_password(text: str) -> str:
    """`text` with `user:password@` taken out of every URI in it, for files that others may read."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)
