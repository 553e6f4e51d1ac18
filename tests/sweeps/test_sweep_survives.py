"""Sweeps that are really killed, interrupted, and typed again."""

import json
import os
import signal
from pathlib import Path

import pytest
from studies import SMALL, Running, ablate, lines, mlflow_runs, mlflow_steps, newest_checkpoint

pytestmark = [pytest.mark.ray, pytest.mark.slow]
LONG = [*SMALL, "train.steps=1200", "train.checkpoint_every=100", "sweep.rows=[base]"]


@pytest.fixture
def running(tmp_path: Path) -> Running:
    trial = tmp_path / "runs" / "synthetic-tiny" / "base-s1"
    return Running.start("sweep", *LONG, cwd=tmp_path, trial=trial)


def check_whole(trial: Path, resumed_from: int) -> None:
    """The trial finished in its second attempt, which started from a checkpoint, and nothing stands twice."""
    journal, attempts = lines(trial / "journal.jsonl"), lines(trial / "attempts.jsonl")
    steps = [line["step"] for line in journal]
    assert steps == sorted(set(steps))
    assert steps[-1] == 1200
    assert [line["attempt"] for line in attempts] == [1, 1, 2, 2]
    assert attempts[-1]["reason"] == "finished"
    first_step_again = min(line["step"] for line in journal if line["attempt"] == 2)
    assert first_step_again > resumed_from > 0
    kept = sorted(int(path.name.removeprefix("step-")) for path in trial.glob("checkpoints/*/a*/*"))
    assert kept == list(range(800, 1300, 100))
    runs = trial.parent.parent
    assert mlflow_runs(runs) == [("base s1", "FINISHED")]
    assert mlflow_steps(runs, "train/loss") == steps


def test_a_killed_worker_goes_on_from_its_last_checkpoint(running: Running) -> None:
    running.wait_for_step(300)
    (worker,) = running.workers()
    worker.kill()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    assert "worker lost" in lines(running.trial / "attempts.jsonl")[1]["reason"]
    check_whole(running.trial, resumed_from=300)


def test_a_killed_sweep_goes_on_when_it_is_typed_again(running: Running, tmp_path: Path) -> None:
    running.wait_for_step(300)
    running.kill()
    safe = newest_checkpoint(running.trial)
    again = ablate("sweep", *LONG, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert lines(running.trial / "attempts.jsonl")[1]["reason"] == "lost"
    check_whole(running.trial, resumed_from=safe - 1)


def test_an_interrupted_sweep_says_how_to_go_on_and_does(running: Running, tmp_path: Path) -> None:
    running.wait_for_step(200)
    os.kill(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 130, output
    assert "type again" in output
    assert "sweep" in output.rsplit("type again", 1)[1]
    assert lines(running.trial / "attempts.jsonl")[-1]["reason"] == "interrupted"
    again = ablate("sweep", *LONG, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    check_whole(running.trial, resumed_from=199)

    result = json.loads((running.trial / "result.json").read_text())
    assert result["step"] == 1200
    assert result["attempt"] == 2


def test_a_trial_that_another_process_runs_is_refused(running: Running, tmp_path: Path) -> None:
    running.wait_for_step(100)
    second = ablate("sweep", *LONG, cwd=tmp_path)
    assert second.returncode == 2
    assert "base-s1 is being run by another process" in second.stderr
    running.kill()
