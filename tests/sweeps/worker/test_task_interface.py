"""All of the interface of tasks, by a toy outside the tree: real sweeps on one worker and on two."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from same_bits import differing, state_after
from saved_state import saved_state
from studies import Running, allelse, lines
from toy_task import write_toy

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ROW = ["task=toy", "sweep.rows=[base]", "sweep.name=s"]
ALONE = ["task=toy", "row=base", "sweep.name=s"]
WORKERS = ["one", "two"]
STEPS = 60


@pytest.fixture(scope="module", params=WORKERS)
def words(request: pytest.FixtureRequest) -> list[str]:
    return [*ROW, f"cluster.workers={WORKERS.index(request.param) + 1}"]


@pytest.fixture(scope="module")
def undisturbed(words: list[str], furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trial's folder."""
    folder = write_toy(furnish(tmp_path_factory.mktemp("undisturbed") / "study"))
    done = allelse("sweep", *words, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs" / "s" / "base-s1"


def result(trial: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((trial / "result.json").read_text())
    return found


def saved_steps(trial: Path) -> list[int]:
    return sorted(int(path.parent.name[5:]) for path in trial.glob("checkpoints/*/a*/step-*/manifest.json"))


def test_what_it_leaves(words: list[str], undisturbed: Path) -> None:
    found, steps = result(undisturbed), [line["step"] for line in lines(undisturbed / "journal.jsonl")]
    assert steps == [*range(7, STEPS, 7), STEPS]
    assert lines(undisturbed / "journal.jsonl")[-1]["checkpoint"] == STEPS
    assert (found["params"], found["flops"]) == (8, 2.0 * STEPS)
    errors = [float(line) for line in (undisturbed / "errors" / "test.txt").read_text().split()]
    assert len(errors) == 64
    assert found["scores"]["test"]["mse"] == pytest.approx(sum(errors) / 64)
    _, *samples = lines(undisturbed / "statistics" / "test.jsonl")
    assert [each["error"] for each in samples] == errors
    about = json.loads((undisturbed / "provenance.json").read_text())
    assert about["points"] == 64
    assert about["torch"] is (words[-1] == "cluster.workers=2"), "a task that trains on NumPy needs no torch"
    assert about["data_identity"]


def test_the_newest_and_the_best_stay(undisturbed: Path) -> None:
    losses = {line["step"]: line["metrics"]["train/loss"] for line in lines(undisturbed / "journal.jsonl")}
    assert saved_steps(undisturbed) == sorted({min(losses, key=lambda step: (losses[step], -step)), STEPS})


def test_a_stop_that_all_workers_agree_on_and_a_resume_to_the_bit(
    words: list[str], undisturbed: Path, furnish: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = write_toy(furnish(tmp_path / "study"))
    (folder / "leave").write_text("23")
    trial = folder / "runs" / "s" / "base-s1"
    running = Running.start("sweep", *words, cwd=folder, trial=trial)
    running.wait_for_step(14)
    os.kill(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 130, output
    stopped = lines(trial / "journal.jsonl")[-1]
    assert stopped["step"] == stopped["checkpoint"] == max(saved_steps(trial)) >= 23
    (folder / "leave").unlink()
    done = allelse("sweep", *words, cwd=folder)
    assert f"resumed at step {stopped['step']}" in done.stdout, done.stdout + done.stderr
    assert not differing(state_after(trial, STEPS), state_after(undisturbed, STEPS))
    assert result(trial)["scores"] == result(undisturbed)["scores"]
    (own,) = trial.glob("checkpoints/*/files/runs")
    assert own.read_text() == "oneone", "the trial's own files outlive its attempts"


def test_named_steps_are_saved_kept_averaged_and_scored_again_without_training(
    furnish: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = write_toy(furnish(tmp_path / "study"))
    trial = folder / "runs" / "s" / "base-s1"
    done = allelse("train", *ALONE, "score.average=3", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "scored over the steps [40, 50, 60]" in done.stdout
    assert {40, 50, 60} <= set(saved_steps(trial))
    before, journal = result(trial), lines(trial / "journal.jsonl")
    again = allelse("train", *ALONE, "score.average=2", cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert lines(trial / "journal.jsonl") == journal, "nothing is trained again"
    assert result(trial)["scores"]["test"]["mse"] != before["scores"]["test"]["mse"]
    refused = allelse("train", *ALONE, "score.average=2", "score.spacing=15", cwd=folder)
    assert refused.returncode == 2
    assert "base-s1 would be scored over the steps 45, which were not kept" in refused.stderr
    assert "Nothing was started." in refused.stderr


def test_a_scale_and_words_of_its_own(furnish: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = write_toy(furnish(tmp_path / "study"))
    planned = allelse("plan", "task=toy", "scale=half", cwd=folder)
    assert "width is 2" in planned.stdout, planned.stdout + planned.stderr


def test_the_state_is_written_as_arrays(undisturbed: Path) -> None:
    (folder,) = undisturbed.glob(f"checkpoints/*/a1/step-{STEPS}")
    assert {path.name for path in folder.iterdir()} == {"arrays.safetensors", "manifest.json"}
    assert saved_state(folder)["weights"].shape == (8,)
