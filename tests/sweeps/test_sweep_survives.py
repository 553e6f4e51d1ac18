"""Sweeps that are really killed, interrupted, and run again."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from studies import SMALL, Running, ablate, lines, mlflow_runs, mlflow_steps, newest_checkpoint, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow]
STEPS = 800
LONG = [*SMALL, f"train.steps={STEPS}", "train.checkpoint_every=100", "sweep.rows=[base]"]


@pytest.fixture
def running(tmp_path: Path) -> Running:
    trial = tmp_path / "runs" / "synthetic-tiny" / "base-s1"
    return Running.start("sweep", *LONG, cwd=tmp_path, trial=trial)


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
    assert kept == list(range(STEPS - 400, STEPS + 100, 100))
    runs = trial.parent.parent
    assert mlflow_runs(runs) == [("base s1", "FINISHED")]
    assert mlflow_steps(runs, "train/loss") == steps


def reason(trial: Path) -> str:
    """Why the first attempt ended."""
    return str(lines(trial / "attempts.jsonl")[1]["reason"])


def test_a_killed_worker_resumes_from_its_last_checkpoint_and_the_cause_is_reported(running: Running) -> None:
    running.wait_for_step(300)
    (worker,) = running.workers()
    worker.kill()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    expected = f"worker lost: worker 0 (pid {worker.pid} on "
    assert reason(running.trial).startswith(expected)
    assert "was killed (SIGKILL" in reason(running.trial)
    assert f"worker 0 (pid {worker.pid} on " in output
    check_whole(running.trial, resumed_from=300)


def test_a_sweep_with_a_dead_bell_loses_no_trial(running: Running) -> None:
    running.wait_for_step(300)
    (bell,) = running.processes("ray::Bell")
    bell.kill()
    (worker,) = running.workers()
    worker.kill()
    code, output = running.finish()
    assert code == 0, output
    check_whole(running.trial, resumed_from=300)


def test_a_worker_group_that_loses_a_worker_is_restarted_and_its_journal_is_complete(tmp_path: Path) -> None:
    trial = tmp_path / "runs" / "synthetic-tiny" / "base-s1"
    running = Running.start("sweep", *LONG, "cluster.workers=2", cwd=tmp_path, trial=trial)
    running.wait_for_step(300)
    running.workers()[1].kill()
    code, output = running.finish()
    assert code == 0, output
    assert "was killed (SIGKILL" in reason(trial)
    check_whole(trial, resumed_from=300)


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
    running: Running, tmp_path: Path
) -> None:
    """Its workers ran ahead: they have checkpoints whose reports the sweep never received."""
    running.wait_for_step(300)
    received = lines(running.trial / "journal.jsonl")[-1]["step"]
    os.kill(running.process.pid, signal.SIGSTOP)
    time.sleep(4)
    running.kill()
    safe = newest_checkpoint(running.trial)
    assert lines(running.trial / "journal.jsonl")[-1]["step"] < received + 100, "the workers waited"
    again = ablate("sweep", *LONG, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert reason(running.trial) == "lost"
    check_whole(running.trial, resumed_from=safe - 1)


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_sweep_prints_the_step_that_it_resumes_from_and_does(
    running: Running, tmp_path: Path, number: int, expected: int
) -> None:
    running.wait_for_step(200)
    reported = lines(running.trial / "journal.jsonl")[-1]["step"]
    if number == signal.SIGTERM:
        os.kill(running.process.pid, number)  # timeout(1) sends it twice, a terminal only once
    os.killpg(running.process.pid, number)
    code, output = running.finish()
    assert code == expected, output
    assert "Traceback" not in output
    (step,) = map(int, re.findall(r"base-s1 resumes from step (\d+)$", output, re.MULTILINE))
    assert step >= reported
    assert "run again: " in output
    assert "sweep" in output.rsplit("run again", 1)[1]
    assert reason(running.trial) == "interrupted"
    again = ablate("sweep", *LONG, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    check_whole(running.trial, resumed_from=step, stops=(step,))

    result = json.loads((running.trial / "result.json").read_text())
    assert result["step"] == STEPS
    assert result["attempt"] == 2


def test_a_second_signal_quits_at_once_and_prints_the_lost_steps(running: Running) -> None:
    running.wait_for_step(100)
    (worker,) = running.workers()
    worker.suspend()  # it cannot finish its step
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


def test_a_trial_that_another_process_runs_is_refused(running: Running, tmp_path: Path) -> None:
    running.wait_for_step(100)
    second = ablate("sweep", *LONG, cwd=tmp_path)
    assert second.returncode == 2
    assert "base-s1 is being run by another process" in second.stderr
    running.kill()
