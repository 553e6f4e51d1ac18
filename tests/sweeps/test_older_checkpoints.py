"""Finished trials with checkpoints of the format without keys: `a1/step-400` and a manifest of four fields."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typed import refusal, typed

FIELDS = ("step", "sha256", "bytes", "dev_nll")


@pytest.fixture
def older(trained: Path, trial: Path) -> Iterator[Path]:
    """A copy of the trained trial in that format, in another study."""
    copy = trained / "runs" / "older" / "base-s1"
    shutil.copytree(trial, copy)
    (keyed,) = (copy / "checkpoints").iterdir()
    (keyed / "a1").rename(copy / "checkpoints" / "a1")
    (keyed / "owner.json").unlink()
    keyed.rmdir()
    for path in copy.glob("checkpoints/a1/*/manifest.json"):
        content = json.loads(path.read_text())
        path.write_text(json.dumps({name: content[name] for name in FIELDS}))
    yield copy
    shutil.rmtree(copy.parent)


def translated(folder: Path, name: str, *words: str) -> str:
    """The translation of dev."""
    done = typed(folder, "translate", name, *words, "--input", "dev.txt", "--output", "target.txt")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return (folder / "target.txt").read_text("utf-8")


def test_they_translate_as_before(trained: Path, trial: Path, attempt: Path, older: Path) -> None:
    for name in (str(older), str(older / "checkpoints" / "a1" / "step-400")):
        assert translated(trained, name) == (trial / "hypotheses" / "dev.txt").read_text("utf-8")
    earlier = str(older / "checkpoints" / "a1" / "step-200")
    assert translated(trained, earlier) == translated(trained, str(attempt / "step-200"))
    assert translated(trained, str(older), "--average", "2") == translated(trained, str(trial), "--average", "2")


def test_they_are_evaluated_as_before(trained: Path, trial: Path, older: Path) -> None:
    (older / "statistics" / "dev.jsonl").unlink()
    done = typed(trained, "evaluate", str(older), "--set", "dev", "--json")
    assert done.exit_code == 0, done.output
    scores = [json.loads((folder / "result.json").read_text())["scores"]["dev"] for folder in (older, trial)]
    assert scores[0] == scores[1]


def test_those_of_another_training_are_refused(trained: Path, older: Path) -> None:
    """Trials of the same name shared a folder: result.json decides which trial owns a checkpoint."""
    path = older / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 1.5}))
    for name in (str(older), str(older / "checkpoints" / "a1" / "step-400")):
        said = refusal(trained, "translate", name)
        assert "the checkpoint of step 400 is missing" in said
        assert "has no key, and its training time differs from result.json" in said


def test_a_checkpoint_with_a_key_does_not_count(trained: Path, attempt: Path, older: Path) -> None:
    shutil.rmtree(older / "checkpoints" / "a1" / "step-400")
    shutil.copytree(attempt / "step-400", older / "checkpoints" / "a1" / "step-400")
    assert "the checkpoint of step 400 is missing" in refusal(trained, "translate", str(older))


def test_an_unfinished_trial_has_none(trained: Path, older: Path) -> None:
    (older / "result.json").unlink()
    said = refusal(trained, "translate", str(older / "checkpoints" / "a1" / "step-400"))
    assert "base-s1 is not finished" in said


def test_a_checkpoint_of_another_key_is_refused_by_name(trained: Path, trial: Path, attempt: Path) -> None:
    other = trial / "checkpoints" / "0123456789abcdef"
    shutil.copytree(attempt, other / "a1")
    try:
        said = refusal(trained, "translate", str(other / "a1" / "step-400"))
    finally:
        shutil.rmtree(other)
    assert "belongs to trial 0123456789abcdef, but the key of copies/base-s1 is" in said
    assert "must lie in the folder of its own trial" in said
