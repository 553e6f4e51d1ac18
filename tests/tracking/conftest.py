"""One MLflow database for all tests, since creating its schema takes seconds; one study per
test."""

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from studies_on_disk import EXPERIMENT, Store, make_study, opened

from tracking.study import Study
from tracking.trial import TrialFolder
from tracking.uri import default_uri


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs").resolve()


@pytest.fixture(scope="session")
def store(runs: Path) -> Store:
    uri = default_uri(runs)
    MlflowClient(uri, uri).create_experiment(EXPERIMENT, (runs / "mlflow-artifacts").as_uri())
    return opened(uri)


@pytest.fixture
def study(runs: Path, request: pytest.FixtureRequest) -> Study:
    """Three rows with one seed each, none begun, in a folder next to the shared database."""
    return make_study(runs / request.node.name, {"base": [1], "a_heads_1": [1], "c_layers_2": [1]})


@pytest.fixture
def folder(study: Study) -> TrialFolder:
    """Base's folder."""
    return study.trial_folder(study.trials[0])
