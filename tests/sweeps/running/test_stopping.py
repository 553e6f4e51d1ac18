"""What stops a sweep or a trial: signals at awkward moments, `allelse stop`, a closed terminal, a
removed folder."""

import os
import pty
import re
import shutil
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from faulty_task import reasons, train_to, write_paced_task
from joined_ray import JoinedRay
from small_task import write_task
from small_text import TEXT
from studies import SMALL, Running, allelse, command, lines, newest_checkpoint, wait_until
from typed import typed

EVALUATES_UNTIL_TOLD = """    import pathlib, time
    here = pathlib.Path(__file__)
    here.with_name("evaluates").touch()
    while not here.with_name("go-on").exists():
        trial.stopping(alone=True)
        time.sleep(0.1)
"""
UNTRACKED = "tracking=off"
ONE_ROW = [
    *SMALL,
    *TEXT,
    "train.steps=4000",
    "train.checkpoint_every=50",
    "sweep.rows=[base]",
    UNTRACKED,
]


def test_a_stop_while_the_last_trial_is_evaluated_leaves_nothing_to_continue(
    workplace: Path,
) -> None:
    """The trial finishes, so the sweep is over."""
    write_task(workplace, {"    trial.evaluated(": f"{EVALUATES_UNTIL_TOLD}    trial.evaluated("})
    running = Running.start("train", "task=small", UNTRACKED, cwd=workplace, trial=workplace)
    wait_until(lambda: evaluates(workplace) or running.ended(), "the evaluation")
    assert not running.ended(), running.finish()[1]
    os.kill(running.process.pid, signal.SIGINT)
    running.wait_for_line("Stopping after the current step")
    (workplace / "go-on").touch()
    code, output = running.finish()
    assert code == 0, output
    assert "1 of 1 finished" in output
    assert "run again" not in output


def evaluates(workplace: Path) -> bool:
    """Whether a trial has begun its evaluation: it writes a file beside its code."""
    with suppress(FileNotFoundError):  # the folder of the code gets its name while it is searched
        return any(workplace.glob("runs/*/code/*/**/evaluates"))
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGUSR1", 138), ("SIGUSR2", 140)])
def test_the_signals_of_slurm_stop_with_a_checkpoint_and_exit_codes_of_their_own(
    workplace: Path, name: str, code: int
) -> None:
    """Slurm signals all processes of a step."""
    write_paced_task(workplace)
    trial = workplace / "runs" / "s" / "base-s1"
    words = ["task=small", "sweep.name=s", "train.steps=20", UNTRACKED]
    train_to(6, workplace)
    running = Running.start("train", *words, cwd=workplace, trial=trial)
    running.wait_for_step(4)
    os.killpg(running.process.pid, getattr(signal, name))
    exit_code, output = running.finish()
    assert exit_code == code, output
    assert re.search(r"base-s1 resumes from step [567]\n", output), output
    assert reasons(trial) == ["interrupted"]
    (workplace / "leave").unlink()
    outcome = typed(workplace, "train", *words)
    assert re.search(r"base-s1: resumed at step [567]\n", outcome.output), outcome.output


@pytest.mark.ray
@pytest.mark.slow
def test_a_sweep_with_all_its_processes_stops_by_the_signal_of_slurm(workplace: Path) -> None:
    write_paced_task(workplace)
    trial = workplace / "runs" / "s" / "base-s1"
    words = ["task=small", "sweep.name=s", "train.steps=20", UNTRACKED]
    train_to(6, workplace)
    running = Running.start("sweep", *words, "sweep.rows=[base]", cwd=workplace, trial=trial)
    running.wait_for_step(4)
    os.killpg(running.process.pid, signal.SIGUSR1)
    exit_code, output = running.finish()
    assert exit_code == 138, output
    assert re.search(r"base-s1 resumes from step [567]\n", output), output
    assert reasons(trial) == ["interrupted"]


HANDLES_SIGNALS = "    import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"


@pytest.mark.ray
@pytest.mark.slow
def test_a_work_that_handles_signals_learns_that_a_sweep_cannot(
    workplace: Path, joined_ray: JoinedRay
) -> None:
    write_task(workplace, {"    total = trial.saved": f"{HANDLES_SIGNALS}    total = trial.saved"})
    words = ["sweep", "task=small", "sweep.name=s", "sweep.rows=[base]", UNTRACKED]
    environment = os.environ | joined_ray.environment
    process = allelse(*words, *joined_ray.one_by_one, cwd=workplace, env=environment)
    assert process.returncode == 1
    assert (
        "a sweep calls work outside of the main thread; use trial.stopping() instead"
        in process.stdout
    )
    trained = typed(workplace, "train", "task=small", "sweep.name=t", UNTRACKED)
    assert trained.exit_code == 0, trained.output


@pytest.mark.slow
def test_a_trial_that_is_told_to_stop_from_elsewhere_saves_and_the_next_command_goes_on(
    workplace: Path,
) -> None:
    """By `allelse stop`, of all that runs and of this trial alone."""
    write_paced_task(workplace)
    trial = workplace / "runs" / "s" / "base-s1"
    words = ["task=small", "sweep.name=s", "train.steps=20", UNTRACKED]
    for step, stop in ((6, ["stop"]), (12, ["stop", "base-s1"])):
        train_to(step, workplace)
        running = Running.start("train", *words, cwd=workplace, trial=trial)
        running.wait_for_step(step - 2)
        assert typed(workplace, *stop).exit_code == 0
        code, output = running.finish()
        assert code == 130, output
        assert f"base-s1 resumes from step {step + 1}" in output
    assert "base-s1: resumed at step 7" in output
    train_to(20, workplace)
    outcome = typed(workplace, "train", *words)
    assert outcome.exit_code == 0, outcome.output
    assert reasons(trial) == ["interrupted", "interrupted", "finished"]
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == [*range(2, 21, 2)]


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


SIGTERM_BEHIND_A_FORK = """
import os, signal, sys, threading

def end():
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and "ray._private.node" in sys.modules and not sent:
        sent.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

sent = []
os.register_at_fork(after_in_parent=end)
"""


@pytest.mark.ray
def test_sigterm_is_not_lost_where_python_ignores_exceptions(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "sitecustomize.py").write_text(SIGTERM_BEHIND_A_FORK)
    monkeypatch.setenv("PYTHONPATH", str(workplace), prepend=os.pathsep)
    trial = workplace / "runs" / "files-tiny" / "base-s1"
    code, output = Running.start("sweep", *ONE_ROW, cwd=workplace, trial=trial).finish()
    assert "Exception ignored" in output
    assert code == 143, output
    assert "run again: " in output


@pytest.mark.ray
def test_a_failed_start_of_ray_is_tried_once_more_and_refused_in_one_line(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Path(tempfile.mkdtemp())  # a socket's path must be short
    monkeypatch.setenv("RAY_TMPDIR", str(sessions))
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", "0")  # its patience
    code, output = Running.start("sweep", *ONE_ROW, cwd=workplace, trial=workplace).finish()
    assert code == 2, output
    assert "cluster.address Ray did not start on this machine: " in output
    assert "Traceback" not in output
    assert len([*sessions.glob("ray/session_2*")]) == 2
    wait_until(
        lambda: not any(map(partial(_is_of, sessions), psutil.process_iter())),
        "the end of Ray's processes",
    )
    shutil.rmtree(sessions)


def _is_of(sessions: Path, process: psutil.Process) -> bool:
    try:
        return any(str(sessions) in word for word in process.cmdline())
    except psutil.Error:
        return False


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
    words = ["train", *SMALL, *TEXT, "train.steps=4000", "train.checkpoint_every=50", UNTRACKED]
    process, terminal = in_a_terminal(*words, cwd=workplace)
    wait_until(lambda: newest_checkpoint(trial) >= 50, "a checkpoint")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 128 + signal.SIGHUP
    assert newest_checkpoint(trial) == lines(trial / "journal.jsonl")[-1]["step"] < 4000
    assert [line.get("reason") for line in lines(trial / "attempts.jsonl")] == [None, "interrupted"]


REMOVES = """        if step == 3 and trial.config.model.kind == "round" and not (HERE / "calm").exists():
            while (HERE / "runs" / "s" / "base-s1" / "attempts.jsonl").exists():
                shutil.rmtree(HERE / "runs" / "s" / "base-s1", ignore_errors=True)
        total +="""
REMOVED = "base-s1: FAILED: its folder was removed; the same command trains it again"
WORDS = ["task=small", "sweep.name=s", "train.steps=20", UNTRACKED]


@pytest.fixture
def removing(tmp_path: Path) -> Path:
    """The folder of a task whose row base removes that of its trial."""
    head = "\n\n@dataclass(frozen=True)\nclass Model"
    here = f"\nimport shutil\nfrom pathlib import Path\n\nHERE = Path({str(tmp_path)!r})\n{head}"
    return write_task(tmp_path, {head: here, "        total +=": REMOVES})


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
def test_a_removed_folder_ends_its_trial_alone(removing: Path) -> None:
    process = allelse("sweep", *WORDS, "sweep.rows=[base,square]", cwd=removing)
    assert process.returncode == 1, process.stdout + process.stderr
    assert REMOVED in process.stdout
    assert "square-s1: finished" in process.stdout
    assert lines(removing / "runs" / "s" / "square-s1" / "journal.jsonl")[-1]["step"] == 20


def test_a_lone_trial_whose_folder_is_removed_ends_and_is_trained_again(removing: Path) -> None:
    outcome = typed(removing, "train", *WORDS)
    assert outcome.exit_code == 1, outcome.output
    assert REMOVED in outcome.output
    assert isinstance(outcome.exception, SystemExit), outcome.exception
    (removing / "calm").touch()
    second = typed(removing, "train", *WORDS)
    assert second.exit_code == 0, second.output
