"""A project folder that was moved serves every verb, and so do the models registered there."""

import json
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

import mlflow
import pytest
from mlflow import MlflowClient
from studies import allelse
from typed import typed

from sweeps.verbs import ui
from tracking.mlflow.database import follow_move
from tracking.study import read_study
from tracking.uri import default_uri

TRIAL = ("base-s1", "sweep.name=copies")


def output_of(folder: Path, *words: str) -> str:
    result = typed(folder, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def register(folder: Path, alias: str) -> None:
    """In a process of its own: MLflow remembers where a run's files lie, and a copy has the same
    runs."""
    words = ["export", *TRIAL, "--to", "mlflow", "--register", f"small@{alias}", "--output", alias]
    result = allelse(*words, cwd=folder)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def moved(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a registered model, whose first place is gone."""
    first = Path(shutil.copytree(trained, tmp_path_factory.mktemp("100% at") / "a place"))
    output_of(first, "sync", "sweep.name=copies")
    register(first, "champion")
    return first.rename(first.parent / "another place")


def test_every_verb_reads_it_in_its_new_place(moved: Path) -> None:
    assert [line["state"] for line in json.loads(output_of(moved, "status", "--json"))] == [
        "finished"
    ]
    assert "MLflow: up to date" in output_of(moved, "status")
    assert output_of(moved, "table", "--format", "csv").splitlines()[1].startswith("base,")
    assert len(output_of(moved, "translate", *TRIAL, "--input", "dev.txt").splitlines()) == 40
    assert len(json.loads(output_of(moved, "evaluate", *TRIAL, "decode.beam=1", "--json"))) == 2
    output_of(moved, "export", *TRIAL, "--to", "safetensors", "--output", "weights")
    assert (moved / "weights/model.safetensors").exists()


def test_a_study_copied_without_its_store_opens_no_experiment_of_another(
    moved: Path, tmp_path: Path
) -> None:
    shutil.copytree(moved / "runs" / "copies", tmp_path / "copies")
    (tmp_path / "mlflow.db").touch()
    follow_move(tmp_path)
    pages = [
        ui._pages("http://host", default_uri(runs), read_study(runs / "copies"))
        for runs in (tmp_path, moved / "runs")
    ]
    assert [len(page) for page in pages] == [1, 4]


def test_registered_models_move_along(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(moved, "second")
    monkeypatch.chdir(moved)
    uri = default_uri(moved / "runs")
    client = MlflowClient(uri, registry_uri=uri)
    model = client.get_model_version_by_alias("small", "champion")
    assert Path(unquote(model.source.removeprefix("file://"))).is_relative_to(moved)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    # MLflow puts the model's copy of our code first, for good
    monkeypatch.setattr(sys, "path", [*sys.path])
    served = mlflow.pyfunc.load_model("models:/small@champion").predict({"text": ["a b"]})
    assert list(served) == list(mlflow.pyfunc.load_model("champion").predict({"text": ["a b"]}))
    assert unquote(client.get_run(model.run_id).info.artifact_uri).startswith(f"file://{moved}/")
