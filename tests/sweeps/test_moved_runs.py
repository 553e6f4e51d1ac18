"""A project folder that was moved, and a copy of it, serve every verb, and so do the models registered there."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import mlflow
import pytest
from mlflow import MlflowClient
from small_text import TEXT
from typed import refusal, typed

from sweeps.serving import store_to_serve
from tracking.ledger import RUNS_FILE
from tracking.local_store import HERE
from tracking.uri import default_uri

NAME, STUDY = "sweep.name=small", "runs/small"
MODEL = ("model.n_layers=1", "model.d_model=32", "model.d_ff=64", "model.max_positions=40")
TRAIN = ("train.steps=40", "train.warmup_steps=20", "train.tokens_per_batch=200", "train.checkpoint_every=20")
REGISTER = ("export", "base-s1", NAME, "--to", "mlflow", "--register")


def done(folder: Path, *words: str) -> str:
    result = typed(folder, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]) -> dict[str, Path]:
    """A project as it was moved, and as it was copied before that; its first place is gone.

    Checkpoints lie in a folder of their own.
    """
    first = furnish(tmp_path_factory.mktemp("100% first") / "a place")
    words = ("train", NAME, *TEXT, *MODEL, *TRAIN, "decode.beam=2", "paths.checkpoints=kept")
    done(first, *words, "row=base")
    done(first, *words, "row=d_smoothing_0", "--add")
    (first / STUDY / "d_smoothing_0-s1/result.json").unlink()
    done(first, "sync", NAME)
    done(first, *REGISTER, "small@champion", "--output", "model")
    assert HERE in (first / STUDY / RUNS_FILE).read_text("utf-8")
    copy = Path(shutil.copytree(first, first.parent / "a copy"))
    return {"moved": first.rename(first.parent / "another place"), "copied": copy}


@pytest.mark.parametrize("place", ["moved", "copied"])
def test_every_verb_reads_it_in_its_new_place(places: dict[str, Path], place: str) -> None:
    folder = places[place]
    assert [line["state"] for line in json.loads(done(folder, "status", "--json"))] == ["finished", "interrupted"]
    assert "MLflow: up to date" in done(folder, "status")
    assert done(folder, "table", "--format", "csv").splitlines()[1].startswith("base,")
    assert len(done(folder, "translate", "base-s1", NAME, "--input", "test.txt").splitlines()) == 6
    assert "1 of 2 trials" in done(folder, "plan", NAME, f"paths.checkpoints={folder}/kept")


def test_a_moved_trial_is_evaluated_and_exported(places: dict[str, Path]) -> None:
    folder = places["moved"]
    assert len(json.loads(done(folder, "evaluate", "base-s1", NAME, "decode.beam=1", "--json"))) == 2
    done(folder, "export", "base-s1", NAME, "--to", "safetensors", "--output", "weights")
    assert (folder / "weights/model.safetensors").exists()


@pytest.mark.parametrize("place", ["moved", "copied"])
def test_registered_models_move_along(places: dict[str, Path], place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = places[place]
    monkeypatch.chdir(folder)
    uri = default_uri(folder / "runs")
    if place == "moved":
        assert store_to_serve([]).uri == uri  # what `ablate ui` does before it starts the server
    else:
        done(folder, *REGISTER, "small@second", "--output", "another")  # needs no sync before
    client = MlflowClient(uri, registry_uri=uri)
    model = client.get_model_version_by_alias("small", "champion")
    assert Path(unquote(model.source.removeprefix("file://"))).is_relative_to(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    served = mlflow.pyfunc.load_model("models:/small@champion").predict({"text": ["a line"]})
    assert list(served) == list(mlflow.pyfunc.load_model("model").predict({"text": ["a line"]}))
    run = client.get_run(model.run_id).info
    assert unquote(run.artifact_uri).startswith(f"file://{folder}/")


def test_checkpoints_may_be_named_where_they_are_now(places: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(places["copied"], tmp_path / "third"))
    (folder / "kept").rename(tmp_path / "elsewhere")
    words = ("translate", "base-s1", NAME, "--input", "test.txt")
    assert len(done(folder, *words, f"paths.checkpoints={tmp_path}/elsewhere").splitlines()) == 6
    assert "the checkpoint of step 40 is missing" in refusal(folder, *words)


def test_a_study_copied_without_its_store_is_carried_to_the_new_one(places: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(places["copied"], tmp_path / "alone", ignore=shutil.ignore_patterns("mlflow.db"))
    assert "behind, " in done(tmp_path / "alone", "status")
    words = (*REGISTER, "small@third", "--output", "third")
    assert "run `ablate sync` to create it" in refusal(tmp_path / "alone", *words)
