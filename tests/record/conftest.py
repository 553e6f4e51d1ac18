"""Folders for commands."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from place import Place


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs."""
    path = tmp_path_factory.mktemp("store").resolve() / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def place(tmp_path: Path, database: Path) -> Place:
    return Place(tmp_path / "here", database)


@pytest.fixture
def another(tmp_path: Path, database: Path) -> Callable[[str], Place]:
    """A further folder of this name."""
    return lambda name: Place(tmp_path / name, database)
