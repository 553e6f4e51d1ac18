"""Processes of commands: none outlives its trial, and a killed one goes on from its checkpoint.

Each script waits until the test has seen what it waits for, so no load of the machine changes what
is struck.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from command_script import paced, total_after, write_script
from faulty_task import reasons
from joined_ray import JoinedRay
from leftovers import wait_for_end
from studies import Running, allelse, lines, wait_until
from typed import printed

MARK = "ALLELSE_COMMAND"
RECORD = "checkpoints/*/files/resume.json"
STUBBORN = """\
import os, signal, subprocess, sys, time
from pathlib import Path

def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()

folder = Path(sys.argv[1])
child = subprocess.Popen(["sleep", "100000"], preexec_fn=stubborn)
(folder / "child").write_text(str(child.pid))
(folder / "own").write_text(str(os.getpid()))
"""
WAITS = "while not (folder / 'leave').exists():\n    time.sleep(0.02)\n"
DEFINED = "command: [python, train.py, {folder}]\nmetrics: {{score: up}}\ngrace: {grace}\n"


def stubborn(folder: Path, script: str, grace: str = "600") -> Running:
    """A trial in this machine's `allelse train`, whose command has a grandchild that ignores
    SIGTERM."""
    write_script(folder, DEFINED.format(folder=folder, grace=grace), STUBBORN + script)
    words = ["train", "sweep.name=s", "tracking=off"]
    return Running.start(*words, cwd=folder, trial=folder / "runs" / "s" / "base-s1")


def pids(folder: Path) -> list[int]:
    files = [folder / "child", folder / "own"]
    wait_until(lambda: all(file.exists() and file.read_text() for file in files), "the processes")
    return [int(file.read_text()) for file in files]


def wait_for_none(processes: list[int]) -> None:
    wait_until(lambda: not any(map(lives, processes)), "the end of the processes", timeout=60)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("struck", ["the worker", "the guard", "both"])
def test_a_kill_leaves_no_process(tmp_path: Path, struck: str) -> None:
    running = stubborn(tmp_path, WAITS)
    child, own = pids(tmp_path)
    guard = psutil.Process(own).ppid()
    assert guard != running.process.pid
    if struck != "the worker":
        os.kill(guard, signal.SIGKILL)
    if struck != "the guard":
        running.kill()
        left = [own, guard] if struck == "both" else [own, guard, child]
        wait_for_none(left)
    else:
        code, output = running.finish()
        assert code == 1, output
        wait_for_none([own, guard, child])
        assert "the guard of the command was killed" in output
    if struck == "both":  # the next attempt finds what is left
        (tmp_path / "own").unlink()
        again = Running.start(
            "train", "sweep.name=s", "tracking=off", cwd=tmp_path, trial=running.trial
        )
        _, new = pids(tmp_path)
        assert new != own
        wait_for_none([child])
        again.kill()
        wait_for_none([new])


def test_what_a_command_leaves_ends_with_it(tmp_path: Path) -> None:
    running = stubborn(tmp_path, "print('score: 1')\n")
    code, output = running.finish()
    assert code == 0, output
    assert not any(map(lives, pids(tmp_path)))


@pytest.mark.parametrize("script", ["deaf", "polite"])
def test_a_stop_ends_the_group_gently_and_then_for_good(tmp_path: Path, script: str) -> None:
    answers = {
        "deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
        "polite": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('saved')))\n",
    }
    ready = "(folder / 'ready').touch()\n"
    grace = "0.2" if script == "deaf" else "600"
    running = stubborn(tmp_path, answers[script] + ready + WAITS, grace)
    wait_until((tmp_path / "ready").exists, "the script")
    os.kill(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 130, output
    assert ("saved" in output) == (script == "polite")
    wait_for_none(pids(tmp_path))


def test_a_command_without_checkpoints_begins_again(tmp_path: Path) -> None:
    leave = tmp_path / "leave"
    leave.write_text("5")
    definition = paced(leave).replace("checkpoint: checkpoint-*.json\n", "")
    folder = write_script(tmp_path, definition.replace("  --resume {resume}\n", ""))
    running = Running.start(
        "train", "tracking=off", cwd=folder, trial=folder / "runs" / "mine-full" / "base-s1"
    )
    wait_until(lambda: steps(running.trial) == [2, 4] or running.ended(), "step 4")
    running.kill()
    note = "a lost trial begins again: conf/task/mine.yaml has no checkpoint:"
    assert note in " ".join(printed(folder, "status").split())
    leave.unlink()
    done = allelse("train", "tracking=off", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"After Ctrl-C, the same command goes on; {note}" in done.stdout
    assert "trials save a checkpoint" not in done.stdout
    check_whole(running.trial)


def steps(trial: Path) -> list[int]:
    return [line["step"] for line in lines(trial / "journal.jsonl")]


def check_whole(trial: Path, last: int = 8, seed: int = 1, layers: int = 4) -> None:
    """Each step is there once, with the values of an undisturbed run."""
    journal = lines(trial / "journal.jsonl")
    assert [line["step"] for line in journal] == list(range(2, last + 1, 2))
    for line in journal:
        undisturbed = total_after(line["step"], seed)
        assert line["metrics"]["loss"] == pytest.approx(undisturbed, abs=1e-8)
    accuracy = json.loads((trial / "result.json").read_text())["scores"]["test"]["accuracy"]
    assert accuracy == pytest.approx(total_after(last, seed) / layers, abs=1e-8)


def saved_step(trial: Path) -> int:
    """The last report that belongs to a checkpoint of the command; 0 without one."""
    records = [json.loads(path.read_text()) for path in trial.glob(RECORD)]
    return max((record["step"] for record in records), default=0)


def advance(trial: Path, leave: Path) -> Callable[[], bool]:
    """Lets the script take two steps whenever the journal has all its steps so far."""
    first = int(leave.read_text())

    def has_saved() -> bool:
        allowed = int(leave.read_text())
        if allowed - 1 in steps(trial):
            new = leave.with_suffix(".new")
            new.write_text(str(allowed + 2))
            new.rename(leave)
        return saved_step(trial) > first

    return has_saved


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.everyday
def test_a_study_of_a_command_survives_kills_of_a_worker_and_of_the_sweep(
    furnish: Callable[[Path], Path], tmp_path: Path, joined_ray: JoinedRay
) -> None:
    leave = tmp_path / "leave"
    leave.write_text("5")
    folder = write_script(furnish(tmp_path / "study"), paced(leave))
    study = ["sweep", "sweep.name=s", "sweep.vary={layers: [2]}", "sweep.seeds=[1,2]", "steps=200"]
    words = [*study, joined_ray.word]
    environment = os.environ | joined_ray.environment
    trial = folder / "runs" / "s" / "base-s1"
    running = Running.start(*words, cwd=folder, trial=trial, env=environment)
    wait_until(advance(trial, leave), "a checkpoint")
    worker_of(trial).kill()
    wait_until(lambda: len(reasons(trial)) == 1 or running.ended(), "the loss")
    wait_until(advance(trial, leave), "another checkpoint")
    running.kill()
    wait_for_end(folder)
    leave.unlink()
    done = allelse(*words, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for row, layers in (("base", 4), ("layers_2", 2)):
        for seed in (1, 2):
            check_whole(folder / "runs" / "s" / f"{row}-s{seed}", 200, seed, layers)
    log = (trial / "log.txt").read_text()
    assert "--- goes on from checkpoint-" in log  # a killed attempt may not have said it
    assert len(reasons(trial)) == 3
    wait_for_end(folder)


def worker_of(trial: Path) -> psutil.Process:
    """The process below which the command of this trial runs."""
    workers: list[psutil.Process] = []

    def is_there() -> bool:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if "ray::WorkerActor" in process.cmdline()[:1] and trial_of(process) == str(trial):
                    workers.append(process)
        return bool(workers)

    wait_until(is_there, "the worker")
    return workers[0]


def trial_of(worker: psutil.Process) -> str:
    """The folder of the trial whose command runs below this worker."""
    for process in worker.children(recursive=True):
        mark = process.environ().get(MARK, "")
        if mark:
            return mark.partition("/checkpoints/")[0]
    return ""


RANKED = """\
import os, sys
from pathlib import Path

rank, out = sys.argv[1:]
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
(Path(out) / rank).write_text(" ".join(os.environ[name] for name in names))
print("score:", 1 + int(rank))
"""


@pytest.mark.ray
@pytest.mark.slow
def test_each_worker_runs_the_command_and_the_first_one_reports(
    furnish: Callable[[Path], Path], tmp_path: Path, joined_ray: JoinedRay
) -> None:
    definition = "command: python train.py {rank} {out}\nmetrics: {score: up}\n"
    folder = write_script(furnish(tmp_path / "study"), definition, RANKED)
    words = ["sweep", "sweep.name=s", "cluster.workers=2", "tracking=off", joined_ray.word]
    done = allelse(*words, cwd=folder, env=os.environ | joined_ray.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    trial = folder / "runs" / "s" / "base-s1"
    assert json.loads((trial / "result.json").read_text())["scores"]["dev"]["score"] == 1
    (out,) = trial.glob("checkpoints/*/files/out")
    first, second = ((out / rank).read_text().split() for rank in "01")
    assert (first[:3], second[:3]) == (["0", "2", "0"], ["1", "2", "0"])
    assert first[3] == second[3]
    assert "score: 2" in (trial / "log.txt").read_text()
