"""Two trials whose processes are really killed, stopped and quit: both finish whole, in MLflow, too."""

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from same_bits import differing, state_after
from small_text import TEXT
from studies import SMALL, Running, lines, mlflow_runs, mlflow_steps, wait_until
from typed import refusal, typed

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults, pytest.mark.everyday]
STEPS, EVERY = 640, 20
TRIAL = [*SMALL, *TEXT, f"train.steps={STEPS}", f"train.checkpoint_every={EVERY}"]


def start(folder: Path, *more: str) -> Running:
    words = [*TRIAL, "sweep.rows=[base]", *more]
    return Running.start("sweep", *words, cwd=folder, trial=folder / "runs" / "files-tiny" / "base-s1")


def check_whole(trial: Path, *reasons: str, stops: tuple[int, ...] = ()) -> None:
    """The attempts ended for these reasons, no attempt began again at the start, and every step is there, once."""
    journal, attempts = lines(trial / "journal.jsonl"), lines(trial / "attempts.jsonl")
    steps = [line["step"] for line in journal]
    assert steps == sorted({*range(10, STEPS + 1, 10), *stops})
    assert [line["attempt"] for line in attempts] == [1 + i // 2 for i in range(2 * len(reasons))]
    for line, beginning in zip(attempts[1::2], reasons, strict=True):
        assert line["reason"].startswith(beginning)
    kept = sorted(int(path.name.removeprefix("step-")) for path in trial.glob("checkpoints/*/a*/*"))
    assert kept == list(range(STEPS - 4 * EVERY, STEPS + EVERY, EVERY))
    runs = trial.parent.parent
    assert mlflow_runs(runs) == [("base s1", "FINISHED")]
    assert mlflow_steps(runs, "train/loss") == steps


def reason(trial: Path, attempt: int) -> str:
    """Why this attempt ended."""
    return str(lines(trial / "attempts.jsonl")[2 * attempt - 1]["reason"])


def first_step(trial: Path, attempt: int) -> int:
    """The first report that the journal has of this attempt."""
    return min(int(line["step"]) for line in lines(trial / "journal.jsonl") if line["attempt"] == attempt)


def names(lost: psutil.Process, text: str) -> bool:
    """Whether the text tells which worker was killed, and how."""
    return re.search(rf"worker \d \(pid {lost.pid} on \S+\) was killed \(SIGKILL", text) is not None


def test_a_group_whose_processes_are_killed_in_turn_is_restarted_and_its_journal_is_complete(workplace: Path) -> None:
    """First syncer, orders and a worker; then the trial's process."""
    running = start(workplace, "cluster.workers=2")
    running.wait_for_step(60)
    (orders,), (_, worker) = running.processes("ray::Orders"), running.workers()
    for process in (running.processes("tracking.mlflow.sync")[0], orders, worker):
        process.kill()
    running.wait_for_step(last_report(running) + 100)
    for process in running.processes("ray::TrialProcess"):
        process.kill()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    assert "ended with SIGKILL; it starts again in 1 s" in output
    assert first_step(running.trial, 1) == 10
    assert first_step(running.trial, 2) > 60
    assert names(worker, reason(running.trial, 1))
    assert names(worker, output)
    check_whole(running.trial, "worker lost: worker ", "worker lost: the trial's process", "finished")
    undisturbed = start(workplace, "cluster.workers=2", "sweep.name=undisturbed")
    assert undisturbed.finish()[0] == 0
    states = (state_after(trial, STEPS) for trial in (running.trial, workplace / "runs" / "undisturbed" / "base-s1"))
    assert not differing(*states)


@dataclass
class Life:
    """What was seen of one trial from outside."""

    trial: Path
    stopped: tuple[int, str]  # exit code and output of the first sweep, which SIGTERM ended
    reported: int  # the last step in the journal at that time
    received: int  # the same when the second sweep was suspended
    ahead: int  # the newest checkpoint on disk when it was killed
    refused: str  # what another process was told during the third sweep
    left: tuple[int, str]  # exit code and output of the third sweep, which two signals ended
    stuck: psutil.Process  # its worker, which could not stop


@pytest.fixture(scope="module")
def life(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Life:
    """One trial in three sweeps and a last `allelse train`."""
    folder = furnish(tmp_path_factory.mktemp("life"))
    running = start(folder)
    running.wait_for_step(40)
    reported = last_report(running)
    stopped = terminate(running)
    running = start(folder)
    running.wait_for_step(last_report(running) + 40)
    received = last_report(running)
    running.suspend()
    wait_until(lambda: newest_on_disk(running.trial) >= received + 40, "checkpoints whose reports it never receives")
    ahead = newest_on_disk(running.trial)
    running.kill()
    running = start(folder)
    running.wait_for_step(ahead + 40)
    (stuck,) = running.workers()
    stuck.suspend()  # it cannot finish its step
    refused = refusal(folder, "train", *TRIAL)
    left = interrupt_twice(running)
    done = typed(folder, "train", *TRIAL)
    assert done.exit_code == 0, done.output
    return Life(running.trial, stopped, reported, received, ahead, refused, left, stuck)


def last_report(running: Running) -> int:
    return int(lines(running.trial / "journal.jsonl")[-1]["step"])


def newest_on_disk(trial: Path) -> int:
    found = trial.glob("checkpoints/*/a*/step-*/manifest.json")
    return max(int(path.parent.name.removeprefix("step-")) for path in found)


def terminate(running: Running) -> tuple[int, str]:
    """As timeout(1) does: it sends SIGTERM to the process and to its group."""
    os.kill(running.process.pid, signal.SIGTERM)
    os.killpg(running.process.pid, signal.SIGTERM)
    return running.finish()


def interrupt_twice(running: Running) -> tuple[int, str]:
    os.kill(running.process.pid, signal.SIGINT)
    time.sleep(2)
    assert not running.ended()
    os.kill(running.process.pid, signal.SIGINT)
    return running.finish()


def test_the_trial_finished_and_nothing_is_missing_or_there_twice(life: Life) -> None:
    (stop,) = resumes_from(life.stopped[1])
    check_whole(life.trial, "interrupted", "lost", "interrupted", "finished", stops=(stop,))
    (result,) = lines(life.trial / "result.json")
    assert (result["step"], result["attempt"]) == (STEPS, 4)


def test_a_stopped_sweep_prints_the_step_that_it_resumes_from_and_does(life: Life) -> None:
    code, output = life.stopped
    assert code == 143, output
    assert "Traceback" not in output
    (step,) = resumes_from(output)
    assert step >= life.reported
    assert "sweep" in output.rsplit("run again: ", 1)[1]
    assert step < first_step(life.trial, 2) <= step + 10


def test_a_sweep_that_took_no_reports_for_a_while_and_was_killed_resumes_without_a_gap(life: Life) -> None:
    (resumed,) = re.findall(r"base-s1: resumed at step (\d+)", life.left[1])
    assert int(resumed) >= life.ahead >= life.received + 40
    assert life.received < first_step(life.trial, 3), "the checkpoint filled the journal in"


def test_while_a_sweep_runs_its_trial_is_refused_to_others(life: Life) -> None:
    assert re.search(r"base-s1 is being run by pid \d+ on \S+ since .* ago\): allelse sweep ", life.refused)


def test_a_second_signal_quits_at_once_and_prints_the_lost_steps(life: Life) -> None:
    code, output = life.left
    assert code == 130, output
    assert "Press Ctrl-C again to quit at once" in output
    assert re.search(r"base-s1 resumes from step \d+(; steps \d+ to \d+ are lost)?$", output, re.MULTILINE), output
    assert not life.stuck.is_running()
    assert first_step(life.trial, 4) > resumes_from(output)[0] >= 120


def resumes_from(output: str) -> list[int]:
    """The steps that a stopped sweep printed."""
    return [int(step) for step in re.findall(r"base-s1 resumes from step (\d+)", output)]
