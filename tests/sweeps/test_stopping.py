"""Signals and faults at awkward moments: while Ray starts, in a step of Tune, in quick succession, after the end."""

import os
import pty
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from ablate_in_folder import plan
from ray import tune
from rich.console import Console
from small_task import write_task
from small_text import TEXT
from studies import SMALL, Running, command, lines, newest_checkpoint, wait_until
from study_on_disk import wait_for_line

from sweeps.planning.plan import Plan
from sweeps.running import on_ray, stopping
from sweeps.running.open_study import open_study
from sweeps.running.progress import Progress
from sweeps.running.stopping import Interrupted, Stopping

EVALUATES_UNTIL_TOLD = """    import pathlib, time
    here = pathlib.Path(__file__)
    here.with_name("evaluates").touch()
    while not here.with_name("go-on").exists():
        time.sleep(0.1)
"""
ONE_ROW = [*SMALL, *TEXT, "train.steps=4000", "train.checkpoint_every=50", "sweep.rows=[base]"]


def test_the_echo_of_a_signal_is_not_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """timeout(1) sends one to the process and one to its group, and systemd may send SIGHUP after SIGTERM."""
    asked = Stopping()
    monkeypatch.setattr(stopping, "ECHO_S", 600.0)
    with asked.watching(), asked.gentle():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        asked.note(signal.SIGHUP)
        assert asked.requested()
        assert not asked.interrupted(()).at_once
        with pytest.raises(Interrupted) as caught:
            signal.raise_signal(signal.SIGINT)
    assert (caught.value.exit_code, caught.value.at_once) == (130, True)


def test_a_further_signal_keeps_the_lines_of_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Stopping()
    monkeypatch.setattr(stopping, "ECHO_S", 0.0)

    def leave() -> None:
        with asked.watching():
            try:
                with asked.gentle():
                    signal.raise_signal(signal.SIGTERM)
                raise asked.interrupted(("base-s1 resumes from step 400",))
            finally:
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted) as caught:
        leave()
    assert (caught.value.lines, caught.value.exit_code) == (("base-s1 resumes from step 400",), 143)


def places(folder: Path) -> list[str]:
    return [f"paths.runs={folder}/runs", f"paths.data={folder}/data"]


def run_here(planned: Plan, progress: type[Progress]) -> None:
    """Run the plan on Ray, in this process, shown by an object of this class."""
    console, connect = Console(quiet=True), partial(on_ray._connect, planned.composition.shared.cluster)
    with (
        on_ray._disconnected_at_the_end(),
        open_study(planned, ["ablate"], console, connect) as (_, asked),
        progress(planned, console) as shown,
    ):
        on_ray._run_on_ray(planned, shown, asked, ["ablate"])


class Signaling(Progress):
    """Gets SIGTERM in the step of Tune that starts the trial."""

    def start(self, name: str) -> None:
        super().start(name)
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.ray
@pytest.mark.slow
def test_a_trial_that_is_asked_to_stop_before_it_began_is_interrupted(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    planned = plan(workplace, *ONE_ROW, *places(workplace))
    with pytest.raises(Interrupted) as caught:
        run_here(planned, Signaling)
    assert caught.value.exit_code == 143
    saved = newest_checkpoint(planned.trials[0].folder.path)  # a worker may have begun a step before it is asked
    assert caught.value.lines == (f"base-s1 resumes from step {saved}",)
    assert "Trial" not in capfd.readouterr().out, "Tune prints nothing of its own"
    attempts = lines(planned.trials[0].folder.attempts_path)
    assert [line.get("reason") for line in attempts] == [None, "interrupted"]


class Faulty(Progress):
    """Has a fault of its own in the step of Tune that starts the trial."""

    def start(self, name: str) -> None:
        raise ValueError("a fault of ours")


@pytest.mark.ray
def test_a_fault_in_a_step_of_tune_is_not_taken_for_one_of_its_last_files(workplace: Path) -> None:
    write_task(workplace)
    planned = plan(workplace, "task=small", "sweep.rows=[base]", *places(workplace))
    with pytest.raises(ValueError, match="a fault of ours"):
        run_here(planned, Faulty)


@pytest.mark.ray
def test_a_last_file_of_tune_that_does_not_fit_loses_no_result(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune reads its own files at its end, and then raises ValueError."""
    write_task(workplace)
    planned = plan(workplace, "task=small", "sweep.rows=[base]", *places(workplace))
    fit = tune.Tuner.fit

    def fit_then_fail(tuner: tune.Tuner) -> None:
        fit(tuner)
        raise ValueError("a file of Tune is missing")

    monkeypatch.setattr(tune.Tuner, "fit", fit_then_fail)
    run_here(planned, Progress)
    assert planned.trials[0].finished


@pytest.mark.ray
def test_a_stop_while_the_last_trial_is_evaluated_leaves_nothing_to_continue(workplace: Path) -> None:
    """The trial finishes, so the sweep is over."""
    write_task(workplace, {"    yield Evaluation(": f"{EVALUATES_UNTIL_TOLD}    yield Evaluation("})
    running = Running.start("sweep", "task=small", "sweep.rows=[base]", cwd=workplace, trial=workplace)
    wait_until(lambda: (workplace / "evaluates").exists() or running.ended(), "the evaluation")
    assert not running.ended(), running.finish()[1]
    os.kill(running.process.pid, signal.SIGINT)
    wait_for_line(running, "Stopping after the current step")
    (workplace / "go-on").touch()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    assert "run again" not in output


@pytest.mark.ray
@pytest.mark.slow
def test_sigterm_while_ray_starts_ends_with_the_next_command(workplace: Path) -> None:
    trial = workplace / "runs" / "files-tiny" / "base-s1"
    running = Running.start("sweep", *ONE_ROW, cwd=workplace, trial=trial)
    wait_until(lambda: bool(running.processes("gcs_server")), "Ray's first process")
    os.kill(running.process.pid, signal.SIGTERM)
    code, output = running.finish()
    assert code == 143, output
    assert "run again: " in output


@pytest.mark.ray
def test_a_failed_start_of_ray_is_refused_in_one_line(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", "0")  # its patience
    running = Running.start("sweep", *ONE_ROW, cwd=workplace, trial=workplace)
    code, output = running.finish()
    assert code == 2, output
    assert "cluster.address Ray did not start on this machine: " in output
    assert "Traceback" not in output


def in_a_terminal(*words: str, cwd: Path) -> tuple[int, int]:
    """Its process, and the other end of its terminal."""
    process, terminal = pty.fork()
    if not process:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup(1) would have it ignored
        os.chdir(cwd)
        os.execv(sys.executable, command(*words))
    threading.Thread(target=read, args=(terminal,), daemon=True).start()
    return process, terminal


def read(terminal: int) -> None:
    with suppress(OSError):
        while os.read(terminal, 4096):
            pass


@pytest.mark.slow
def test_a_terminal_that_is_closed_stops_a_trial_with_a_checkpoint(workplace: Path) -> None:
    trial = workplace / "runs" / "files-tiny" / "base-s1"
    words = ["train", *SMALL, *TEXT, "train.steps=4000", "train.checkpoint_every=50"]
    process, terminal = in_a_terminal(*words, cwd=workplace)
    wait_until(lambda: newest_checkpoint(trial) >= 50, "a checkpoint")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 128 + signal.SIGHUP
    assert newest_checkpoint(trial) == lines(trial / "journal.jsonl")[-1]["step"]
    assert [line.get("reason") for line in lines(trial / "attempts.jsonl")] == [None, "interrupted"]
