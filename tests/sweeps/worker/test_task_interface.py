"""All of the interface of tasks, by a toy outside the tree, in this process. Its two workers are
killed elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from saved_state import saved_state
from studies import lines
from toy_task import write_toy
from typed import refusal, typed

pytestmark = pytest.mark.slow
ALONE = ("train", "task=toy", "row=base", "sweep.name=s")
STEPS = 60


@pytest.fixture(scope="module")
def alone(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trial's folder. Its result is the mean over three named steps."""
    folder = write_toy(furnish(tmp_path_factory.mktemp("alone") / "study"))
    outcome = typed(folder, *ALONE, "score.average=3")
    assert outcome.exit_code == 0, outcome.output
    assert "scored over the steps [40, 50, 60]" in outcome.output
    return folder / "runs" / "s" / "base-s1"


def result(trial: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((trial / "result.json").read_text())
    return content


def saved_steps(trial: Path) -> list[int]:
    return sorted(
        int(path.parent.name[5:]) for path in trial.glob("checkpoints/*/a*/step-*/manifest.json")
    )


def test_what_it_leaves(alone: Path) -> None:
    summary = result(alone)
    journal = lines(alone / "journal.jsonl")
    assert [line["step"] for line in journal] == sorted({*range(7, STEPS, 7), 40, 50, STEPS})
    assert journal[-1]["checkpoint"] == STEPS
    assert (summary["params"], summary["flops"]) == (8, 2.0 * STEPS)
    errors = [float(line) for line in (alone / "errors" / "test.txt").read_text().split()]
    assert len(errors) == 64
    assert summary["scores"]["test"]["mse"] == pytest.approx(sum(errors) / 64)
    _, *samples = lines(alone / "statistics" / "test.jsonl")
    assert [sample["error"] for sample in samples] == errors
    provenance = json.loads((alone / "provenance.json").read_text())
    assert provenance["points"] == 64
    assert provenance["data_identity"]


def test_the_newest_the_best_and_the_named_steps_stay_as_arrays(alone: Path) -> None:
    losses = {
        line["step"]: line["metrics"]["train/loss"] for line in lines(alone / "journal.jsonl")
    }
    best = min(losses, key=lambda step: (losses[step], -step))
    assert saved_steps(alone) == sorted({best, 40, 50, STEPS})
    (folder,) = alone.glob(f"checkpoints/*/a1/step-{STEPS}")
    assert {path.name for path in folder.iterdir()} == {"arrays.safetensors", "manifest.json"}
    assert saved_state(folder)["weights"].shape == (8,)


def test_named_steps_are_averaged_and_scored_again_without_training(alone: Path) -> None:
    folder = alone.parents[2]
    result_before = result(alone)
    journal = lines(alone / "journal.jsonl")
    outcome = typed(folder, *ALONE, "score.average=2")
    assert outcome.exit_code == 0, outcome.output
    assert lines(alone / "journal.jsonl") == journal, "nothing is trained again"
    assert result(alone)["scores"]["test"]["mse"] != result_before["scores"]["test"]["mse"]
    message = refusal(folder, *ALONE, "score.average=2", "score.spacing=15")
    assert "base-s1 would be scored over the steps 45, which have no checkpoint" in message
    assert "Nothing was started." in message


def test_a_scale_and_words_of_its_own(alone: Path) -> None:
    assert (
        "width is 2"
        in typed(alone.parents[2], "plan", "task=toy", "scale=half", "sweep.name=t").stdout
    )
