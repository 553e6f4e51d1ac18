"""Sweeps that are really killed, interrupted, and run again."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from small_text import TEXT
from studies import SMALL, Running, ablate, lines, mlflow_runs, mlflow_steps, newest_checkpoint, wait_until
from typed import refusal

pytestmark = [pytest.mark.ray, pytest.mark.slow]
STEPS, EVERY = 400, 50
TRIAL = [*SMALL, *TEXT, f"train.steps={STEPS}", f"train.checkpoint_every={EVERY}"]
LONG = [*TRIAL, "sweep.rows=[base]"]


def start(folder: Path, *more: str) -> Running:
    return Running.start("sweep", *LONG, *more, cwd=folder, trial=folder / "runs" / "files-tiny" / "base-s1")


@pytest.fixture
def running(workplace: Path) -> Running:
    return start(workplace)


def check_whole(trial: Path, resumed_from: int, stops: tuple[int, ...] = ()) -> None:
    """The trial finished in its second attempt, which resumed from a checkpoint; every step is there, once."""
    journal, attempts = lines(trial / "journal.jsonl"), lines(trial / "attempts.jsonl")
    steps = [line["step"] for line in journal]
    assert steps == sorted({*range(10, STEPS + 1, 10), *stops})
    assert [line["attempt"] for line in attempts] == [1, 1, 2, 2]
    assert attempts[-1]["reason"] == "finished"
    first_step_again = min(line["step"] for line in journal if line["attempt"] == 2)
    assert first_step_again > 0
    assert resumed_from > 0
    kept = sorted(int(path.name.removeprefix("step-")) for path in trial.glob("checkpoints/*/a*/*"))
    assert kept == list(range(STEPS - 4 * EVERY, STEPS + EVERY, EVERY))
    runs = trial.parent.parent
    assert mlflow_runs(runs) == [("base s1", "FINISHED")]
    assert mlflow_steps(runs, "train/loss") == steps


def reason(trial: Path) -> str:
    """Why the first attempt ended."""
    return str(lines(trial / "attempts.jsonl")[1]["reason"])


def test_a_killed_worker_resumes_from_its_last_checkpoint_and_the_cause_is_reported_even_without_a_bell(
    running: Running,
) -> None:
    running.wait_for_step(100)
    (bell,), (worker,) = running.processes("ray::Bell"), running.workers()
    bell.kill()
    worker.kill()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    assert reason(running.trial).startswith(f"worker lost: worker 0 (pid {worker.pid} on ")
    assert "was killed (SIGKILL" in reason(running.trial)
    assert f"worker 0 (pid {worker.pid} on " in output
    check_whole(running.trial, resumed_from=100)


def test_a_worker_group_that_loses_a_worker_is_restarted_and_its_journal_is_complete(workplace: Path) -> None:
    running = start(workplace, "cluster.workers=2")
    running.wait_for_step(100)
    running.workers()[1].kill()
    code, output = running.finish()
    assert code == 0, output
    assert "was killed (SIGKILL" in reason(running.trial)
    check_whole(running.trial, resumed_from=100)


def test_a_trial_s_process_that_is_killed_while_it_starts_costs_nothing(running: Running) -> None:
    wait_until(lambda: bool(running.processes("ray::ImplicitFunc")), "the trial's process")
    for process in running.processes("ray::ImplicitFunc"):
        process.kill()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    assert [line["step"] for line in lines(running.trial / "journal.jsonl")] == list(range(10, STEPS + 1, 10))
    assert [line["attempt"] for line in lines(running.trial / "attempts.jsonl")] == [1, 1, 2, 2]
    assert mlflow_runs(running.trial.parent.parent) == [("base s1", "FINISHED")]


def test_a_sweep_that_took_no_reports_for_a_while_and_was_killed_resumes_without_a_gap(
    running: Running, workplace: Path
) -> None:
    """Its workers ran ahead: they have checkpoints whose reports the sweep never received."""
    running.wait_for_step(100)
    received = lines(running.trial / "journal.jsonl")[-1]["step"]
    os.kill(running.process.pid, signal.SIGSTOP)
    time.sleep(4)
    running.kill()
    safe = newest_checkpoint(running.trial)
    assert lines(running.trial / "journal.jsonl")[-1]["step"] < received + 100, "the workers waited"
    again = ablate("sweep", *LONG, cwd=workplace)
    assert again.returncode == 0, again.stdout + again.stderr
    assert reason(running.trial) == "lost"
    check_whole(running.trial, resumed_from=safe - 1)


def test_a_stopped_sweep_prints_the_step_that_it_resumes_from_and_does(running: Running, workplace: Path) -> None:
    running.wait_for_step(100)
    reported = lines(running.trial / "journal.jsonl")[-1]["step"]
    os.kill(running.process.pid, signal.SIGTERM)  # timeout(1) sends it twice
    os.killpg(running.process.pid, signal.SIGTERM)
    code, output = running.finish()
    assert code == 143, output
    assert "Traceback" not in output
    (step,) = map(int, re.findall(r"base-s1 resumes from step (\d+)$", output, re.MULTILINE))
    assert step >= reported
    assert "run again: " in output
    assert "sweep" in output.rsplit("run again", 1)[1]
    assert reason(running.trial) == "interrupted"
    again = ablate("sweep", *LONG, cwd=workplace)
    assert again.returncode == 0, again.stdout + again.stderr
    check_whole(running.trial, resumed_from=step, stops=(step,))

    result = json.loads((running.trial / "result.json").read_text())
    assert result["step"] == STEPS
    assert result["attempt"] == 2


def test_while_a_sweep_runs_its_trial_is_refused_and_a_second_signal_quits_at_once_and_prints_the_lost_steps(
    running: Running, workplace: Path
) -> None:
    running.wait_for_step(100)
    (worker,) = running.workers()
    worker.suspend()  # it cannot finish its step
    assert "base-s1 is being run by another process" in refusal(workplace, "train", *TRIAL)
    os.kill(running.process.pid, signal.SIGINT)
    time.sleep(2)
    assert not running.ended()
    os.kill(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 130, output
    assert "Press Ctrl-C again to quit at once" in output
    assert re.search(r"base-s1 resumes from step \d+(; steps \d+ to \d+ are lost)?$", output, re.MULTILINE), output
    assert reason(running.trial) == "interrupted"
    assert not worker.is_running()
