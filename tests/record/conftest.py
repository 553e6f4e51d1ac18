"""Folders for commands."""

import shutil
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
def tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are sent to MLflow while they run."""
    monkeypatch.setattr(Place, "tracked", True)


@pytest.fixture
def another(tmp_path: Path, database: Path) -> Callable[[str], Place]:
    """A further folder of this name."""
    return lambda name: Place(tmp_path / name, database)


@pytest.fixture
def place(another: Callable[[str], Place]) -> Place:
    """Nothing is trained there."""
    return another("here")


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    project = Place(tmp_path_factory.mktemp("trained") / "here", database)
    project.train("base")
    return project.folder


@pytest.fixture
def trained(tmp_path: Path, _trained: Path) -> Place:
    """Base is trained there: a project that was moved."""
    return Place(Path(shutil.copytree(_trained, tmp_path / "here")))
