"""Every error that stops a registration becomes one line, whatever its source."""

import shutil
from pathlib import Path

import pytest
from studies_on_disk import Store

from tracking.mlflow_tracker import open_tracker
from tracking.registry import RegistryError, register
from tracking.tracker import RunSpec
from tracking.uri import artifact_folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "MLmodel").write_text("flavors: {}\n")
    return tmp_path / "model"


def run_with_artifacts_at(place: str, store: Store, name: str) -> str:
    client = store[0].client
    return str(client.create_run(client.create_experiment(name, place)).info.run_id)


def refusal(model: Path, run_id: str, uri: str) -> str:
    with pytest.raises(RegistryError) as refused:
        register(model, "model", None, run_id, uri, "")
    (line,) = str(refused.value).splitlines()
    return line


def test_a_store_whose_driver_is_not_installed(model: Path) -> None:
    line = refusal(model, "0" * 32, "postgresql+pg8000://me:secret@127.0.0.1:9/mlflow")
    assert line == "ModuleNotFoundError: No module named 'pg8000'"


def test_artifacts_in_an_unwritable_place(model: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    run_id = run_with_artifacts_at((tmp_path / "file" / "artifacts").as_uri(), store, "blocked")
    assert refusal(model, run_id, store[1]).startswith("NotADirectoryError: ")


def test_a_bucket_without_credentials(model: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    for name, value in (nowhere | {"AWS_EC2_METADATA_DISABLED": "true"}).items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    run_id = run_with_artifacts_at("s3://nobodys-bucket/artifacts", store, "bucket")
    assert "credentials" in refusal(model, run_id, store[1])


def test_a_run_that_the_store_does_not_have(model: Path, store: Store) -> None:
    assert refusal(model, "0" * 32, store[1]).startswith("MlflowException: ")


def test_a_registered_model_and_artifacts_open_after_the_runs_are_moved(
    model: Path, runs: Path, store: Store, tmp_path: Path
) -> None:
    """Also for MLflow alone, once `ablate sync` or `ablate ui` has seen the folder at its new place."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    shutil.copy(runs / "mlflow.db", first)  # its tables take seconds to make
    tracker, uri = open_tracker(None, first, "moved")
    run_id = tracker.create_run(RunSpec("base s1", 0, {"trial.key": "key", "sweep.id": "study"}))
    tracker.log_files(run_id, {"curve.csv": b"step\n1\n"})
    register(model, "moved", "best", run_id, uri, "", first)
    first.rename(second)
    _, uri = open_tracker(None, second, "moved")
    alone = type(store[0].client)(tracking_uri=uri, registry_uri=uri)
    version = alone.get_model_version_by_alias("moved", "best")
    place = alone.get_model_version_download_uri("moved", version.version)
    assert place.startswith(artifact_folder(second).as_uri())
    assert (Path(place.removeprefix("file://")) / "MLmodel").read_text() == "flavors: {}\n"
    assert Path(alone.download_artifacts(run_id, "curve.csv")).read_bytes() == b"step\n1\n"
