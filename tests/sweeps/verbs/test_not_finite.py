"""A model whose output is not a number: one line names the sentence, and no score is written."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typed import typed

from sweeps.checkpoints.reader import CheckpointReader
from sweeps.checkpoints.store import CheckpointStore
from sweeps.task import Keep
from tracking.card import Card
from tracking.trial import TrialFolder

SAID = "the model's output is not a finite number. Use an earlier checkpoint,"


@pytest.fixture(scope="module")
def exported(trained: Path) -> Path:
    """The trained model, exported, and then damaged."""
    words = ("base-s1", "sweep.name=copies", "--to", "safetensors", "--output", "nan")
    assert typed(trained, "export", *words).exit_code == 0
    path = trained / "nan" / "model.safetensors"
    weights = load_file(path)
    weights["decoder.0.cross.kv.weight"][0, 0] = torch.nan
    save_file(weights, path)
    return path.parent


@pytest.mark.parametrize(
    ("text", "line"), [("a b\n", 1), ("\n\nb a\n\n", 3), ("\n" * 1000 + "a\n", 1001)]
)
def test_a_line_that_cannot_be_translated_is_named(
    trained: Path, exported: Path, text: str, line: int
) -> None:
    (trained / "source.txt").write_text(text, "utf-8")
    outcome = typed(trained, "translate", str(exported), "--input", "source.txt")
    assert (outcome.exit_code, outcome.stdout.strip()) == (1, "")
    assert outcome.stderr.startswith(f"Failed: source.txt, line {line}: {SAID}")
    assert outcome.stderr.count("\n") == 1


@pytest.fixture
def damaged(trained: Path, trial: Path) -> Path:
    """A copy of the trained trial in another study; the weights of its last checkpoint are
    damaged."""
    study = trained / "runs" / "damaged"
    shutil.copytree(trial.parent, study)
    (study / "mlflow-ledger.json").unlink(missing_ok=True)
    text = (study / "study.json").read_text("utf-8")
    (study / "study.json").write_text(
        text.replace('"name": "copies"', '"name": "damaged"'), "utf-8"
    )
    folder = study / trial.name
    result = json.loads((folder / "result.json").read_text("utf-8"))
    lineage = TrialFolder(folder, Card("any", 1, ())).lineage()
    reader = CheckpointReader(
        str(folder / "checkpoints"), result["key"], lineage, result["attempt"]
    )
    checkpoints = CheckpointStore(reader, Keep())
    (saved,) = checkpoints.states([result["step"]])
    saved.state["model"]["encoder.0.attention.qkv.weight"][0, 0] = torch.nan
    checkpoints.save(saved.step, saved.state, seconds=0.0, score=None, reports=())
    checkpoints.settle()
    return folder


def test_a_trial_that_cannot_be_evaluated_names_set_and_sentence_and_keeps_its_result(
    trained: Path, damaged: Path
) -> None:
    result_before = (damaged / "result.json").read_bytes()
    outcome = typed(trained, "evaluate", "damaged/base-s1", "decode.beam=2")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith(f"Failed: damaged/base-s1, dev, sentence 1: {SAID}")
    assert (damaged / "result.json").read_bytes() == result_before
    assert not list((damaged / "hypotheses").glob("*beam2*"))


def test_a_trial_whose_last_step_ruins_its_weights_has_diverged(trained: Path) -> None:
    """The loss of that step was still finite: the evaluation after it finds the fault."""
    files = [f"data.{name}=[{name}.txt,{name}.txt]" for name in ("train", "dev", "test")]
    words = ["data=files", *files, "data.vocab_size=276", "model.n_layers=1", "model.d_model=32"]
    outcome = typed(
        trained, "train", *words, "sweep.name=ruined", "train.steps=1", "train.lr_factor=1e38"
    )
    assert outcome.exit_code == 0, "it is no fault, and trains no better again"
    assert "diverged at step 1: dev, sentence 1: " in outcome.stdout + outcome.stderr
    folder = trained / "runs" / "ruined" / "base-s1"
    result = json.loads((folder / "result.json").read_text("utf-8"))
    assert (result["diverged"], result["scores"]) == (1, {})
    assert not (folder / "error.txt").exists()
    (line,) = json.loads(typed(trained, "status", "sweep.name=ruined", "--json").stdout)
    assert (line["state"], line["note"]) == ("finished", "diverged at step 1")
    table = " ".join(typed(trained, "table", "sweep.name=ruined").stdout.split())
    assert "1 of 1 diverged (s1 at step 1)" in table
