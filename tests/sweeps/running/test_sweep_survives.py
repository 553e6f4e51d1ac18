"""Trials whose processes are really killed, stopped and quit: they finish whole, in MLflow, too.

Each trial waits at a step until the test has seen what it waits for, so no load of the machine
changes what is struck.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faulty_stores import mlflow_server, serving
from faulty_task import check_as_undisturbed, newest_state, reasons, train_to, write_paced_task
from joined_ray import JoinedRay
from leftovers import check_no_locks, wait_for_end
from same_bits import differing, state_after
from studies import Running, allelse, lines, mlflow_runs, mlflow_steps, printed, wait_until
from toy_task import write_toy
from typed import refusal, typed

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS = 60
TRIAL = ["task=small", "sweep.name=s", f"train.steps={STEPS}"]


def start_to(step: int, folder: Path, *options: str, verb: str = "sweep") -> Running:
    """A trial that waits after this step, which is in the journal, with the checkpoint before
    it."""
    train_to(step, folder)
    words = [verb, *TRIAL, *(["sweep.rows=[base]"] if verb == "sweep" else []), *options]
    running = Running.start(*words, cwd=folder, trial=folder / "runs" / "s" / "base-s1")
    running.wait_for_step(step - 2)
    wait_until(lambda: last_report(running.trial) == step or running.ended(), f"step {step}")
    return running


def last_report(trial: Path) -> int:
    return int(lines(trial / "journal.jsonl")[-1]["step"])


def first_step(trial: Path, attempt: int) -> int:
    """The first report that the journal has of this attempt."""
    return min(
        int(line["step"]) for line in lines(trial / "journal.jsonl") if line["attempt"] == attempt
    )


def check_whole(trial: Path, *ends: str) -> None:
    """The attempts ended so, and every step is there, once, in MLflow, too."""
    steps = [line["step"] for line in lines(trial / "journal.jsonl")]
    assert steps == list(range(2, STEPS + 1, 2))
    causes = reasons(trial)
    assert all(cause.startswith(end) for cause, end in zip(causes, ends, strict=True)), causes
    assert {path.name for path in trial.glob("checkpoints/*/a*/*")} == {
        f"step-{STEPS - 2}",
        f"step-{STEPS}",
    }
    runs = trial.parent.parent
    assert mlflow_runs(runs) == [("base s1", "FINISHED")]
    assert mlflow_steps(runs, "train/loss") == steps


@pytest.mark.everyday
def test_two_workers_that_are_killed_in_turn_and_stopped_end_with_the_bits_of_undisturbed_ones(
    furnish: Callable[[Path], Path], tmp_path: Path, joined_ray: JoinedRay
) -> None:
    """First the syncer and a worker, then the trial's process; at last both workers agree on a
    stop. The second sweep joins another Ray."""
    folder = write_toy(furnish(tmp_path / "study"))
    trial, twin = (folder / "runs" / "s" / name for name in ("base-s1", "twin-s1"))
    words = ["sweep", "task=toy", "sweep.rows=[base,twin]", "sweep.name=s", "cluster.workers=2"]
    train_to(16, folder)
    running = Running.start(*words, cwd=folder, trial=trial)
    running.wait_for_step(7)
    (syncer,) = running.processes("tracking.mlflow.sync")
    worker = running.workers(2)[1]
    for process in (syncer, worker):
        process.kill()
    wait_until(lambda: len(reasons(trial)) == 1 or running.ended(), "the loss")
    train_to(30, folder)
    running.wait_for_step(21)
    for process in running.processes("ray::TrialProcess"):
        process.kill()
    wait_until(lambda: len(reasons(trial)) == 2 or running.ended(), "the second loss")
    train_to(44, folder)
    running.wait_for_step(35)
    os.kill(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 130, output
    assert "ended with SIGKILL; it starts again in 1 s" in output
    for text in (reasons(trial)[0], output):
        assert re.search(rf"worker \d \(pid {worker.pid} on \S+\) was killed \(SIGKILL", text)
    last_line = lines(trial / "journal.jsonl")[-1]
    assert last_line["step"] == last_line["checkpoint"] >= 44
    (folder / "leave").unlink()
    environment = os.environ | joined_ray.environment
    resumed = allelse(*words, joined_ray.word, cwd=folder, env=environment)
    assert f"resumed at step {last_line['step']}" in resumed.stdout, resumed.stdout + resumed.stderr
    ends = ("worker lost: worker ", "worker lost: the trial's process", "interrupted", "finished")
    assert all(cause.startswith(end) for cause, end in zip(reasons(trial), ends, strict=True))
    undisturbed = [line["step"] for line in lines(twin / "journal.jsonl")]
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == sorted(
        {*undisturbed, last_line["step"]}
    )
    assert first_step(trial, 1) == 7 < first_step(trial, 2) < first_step(trial, 3)
    assert not differing(state_after(trial, 60), state_after(twin, 60))
    assert lines(trial / "result.json")[0]["scores"] == lines(twin / "result.json")[0]["scores"]
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"] * 2
    (trial_file,) = trial.glob("checkpoints/*/files/runs")
    assert trial_file.read_text() == "one" * 4, "the trial's own files outlive its attempts"
    wait_for_end(folder)
    check_no_locks(trial.parent)


def test_a_stopped_syncer_does_not_outlive_its_sweep(workplace: Path) -> None:
    write_paced_task(workplace, "\nfrom sweeps.running import syncer\nsyncer.CARRYING_S = 3.0\n")
    running = start_to(10, workplace, verb="train")
    (syncer,) = running.processes("tracking.mlflow.sync")
    syncer.suspend()
    train_to(STEPS, workplace)
    code, output = running.finish()
    assert code == 0, output
    assert "MLflow is not up to date; run `allelse sync sweep.name=s`" in output
    assert not syncer.is_running()
    assert typed(workplace, "sync", "sweep.name=s").exit_code == 0
    check_whole(running.trial, "finished")


def test_a_trial_whose_mlflow_server_is_killed_is_as_undisturbed_and_its_run_is_completed(
    workplace: Path, tmp_path: Path
) -> None:
    """Its state is a dict, whose order decides what it draws."""
    write_paced_task(workplace)
    with serving(mlflow_server) as server:
        store = f"tracking.uri={server.uri}"
        running = start_to(10, workplace, store, verb="train")
        server.kill()
        running.kill()
        train_to(STEPS, workplace)
        outcome = typed(workplace, "train", *TRIAL, store)
        assert outcome.exit_code == 0, outcome.output
        assert "base-s1: resumed at step " in outcome.output
        check_as_undisturbed(workplace, TRIAL, STEPS, tmp_path / "alone")
        server.start()
        assert typed(workplace, "sync", "sweep.name=s", store).exit_code == 0


@dataclass
class Life:
    """What was seen of one trial from outside."""

    trial: Path
    stopped: tuple[int, str]  # exit code and output of the first command, which SIGTERM ended
    ahead: int  # the newest checkpoint on disk when the first sweep was killed, which took no reports for a while
    refused: str  # what another process was told during the second sweep
    interrupted: tuple[
        int, str
    ]  # exit code and output of the second sweep, which two signals ended
    stuck: psutil.Process  # its worker, which could not stop


@pytest.fixture(scope="module")
def life(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Life:
    """One trial in `allelse train`, two sweeps and a last `allelse train`."""
    folder = write_paced_task(furnish(tmp_path_factory.mktemp("life")))
    stopped = terminate(start_to(10, folder, verb="train"))
    running = start_to(20, folder)
    running.suspend()
    train_to(30, folder)
    wait_until(
        lambda: newest_state(running.trial / "checkpoints")[0] == 30,
        "checkpoints whose reports it never receives",
    )
    (orphan,) = running.workers()
    running.kill()
    wait_until(lambda: not orphan.is_running(), "the end of the worker, which would train on")
    running = start_to(40, folder)
    (stuck,) = running.workers()
    stuck.suspend()  # it cannot finish its step
    refused = refusal(folder, "train", *TRIAL)
    interrupted = interrupt_twice(running)
    train_to(STEPS, folder)
    outcome = typed(folder, "train", *TRIAL)
    assert outcome.exit_code == 0, outcome.output
    return Life(running.trial, stopped, 30, refused, interrupted, stuck)


def terminate(running: Running) -> tuple[int, str]:
    """As timeout(1) does: it sends SIGTERM to the process and to its group."""
    os.kill(running.process.pid, signal.SIGTERM)
    os.killpg(running.process.pid, signal.SIGTERM)
    return running.finish()


def interrupt_twice(running: Running) -> tuple[int, str]:
    os.kill(running.process.pid, signal.SIGINT)
    text = ""
    with printed(running.process) as output:
        while "Press Ctrl-C again to quit at once" not in text:
            line = output.readline()
            assert line, text
            text += line
    time.sleep(1)  # sooner, it would be the echo of the first
    os.kill(running.process.pid, signal.SIGINT)
    code, tail = running.finish()
    return code, text + tail


def test_the_trial_finished_and_nothing_is_missing_or_there_twice(life: Life) -> None:
    check_whole(life.trial, "interrupted", "lost", "interrupted", "finished")
    (result,) = lines(life.trial / "result.json")
    assert (result["step"], result["attempt"]) == (STEPS, 4)


def test_a_stopped_command_prints_the_step_that_it_resumes_from_and_does(life: Life) -> None:
    code, output = life.stopped
    assert code == 143, output
    assert "Traceback" not in output
    assert resumes_from(output) == [11]
    assert "allelse train" in output.rsplit("run again: ", 1)[1]
    assert first_step(life.trial, 2) == 12


def test_a_sweep_that_took_no_reports_for_a_while_and_was_killed_resumes_without_a_gap(
    life: Life,
) -> None:
    assert f"base-s1: resumed at step {life.ahead}" in life.interrupted[1]
    assert first_step(life.trial, 3) == 22, "the checkpoint filled the journal in"


def test_while_a_sweep_runs_its_trial_is_refused_to_others(life: Life) -> None:
    assert re.search(
        r"base-s1 is being run by pid \d+ on \S+ since .* ago\): allelse sweep ", life.refused
    )


def test_a_second_signal_quits_at_once_and_prints_the_lost_steps(life: Life) -> None:
    code, output = life.interrupted
    assert code == 130, output
    assert re.search(
        r"base-s1 resumes from step \d+(; steps \d+ to \d+ are lost)?$", output, re.MULTILINE
    ), output
    assert not life.stuck.is_running()
    assert first_step(life.trial, 4) > resumes_from(output)[0] >= 36, (
        "the report of step 40 tells at least of this one"
    )


def resumes_from(output: str) -> list[int]:
    """The steps that a stopped sweep printed."""
    return [int(step) for step in re.findall(r"base-s1 resumes from step (\d+)", output)]
