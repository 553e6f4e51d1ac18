"""The example scripts, which know nothing of allelse: a worker and then the sweep are killed in the
middle, and the table has every trial."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from studies import Running, allelse, lines, wait_until
from typed import printed

from examples import EXAMPLES, copied
from tracking.written.watch import WrittenMetrics

pytestmark = [pytest.mark.ray, pytest.mark.slow]
FOLDERS = {"small_gpt": "gpt", "reviews": "trainer", "moons": "lightning"}
CHECKPOINTS = {
    "small_gpt": "checkpoint-*.pt",
    "reviews": "checkpoint-*/trainer_state.json",
    "moons": "*.ckpt",
}
POINTS = {"small_gpt": "dev_loss", "reviews": "eval_loss", "moons": "train_loss"}
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",  # as Ray sets it for a worker with one CPU
}
"""Of a shell in which this Python's environment is active."""


def words(task: str) -> list[str]:
    return ["sweep", f"task={task}", "sweep.name=s", "sweep.seeds=[1,2,3]", "tracking=off"]


@pytest.mark.parametrize("task", FOLDERS)
def test_an_unchanged_script_survives_the_death_of_a_worker_and_of_the_sweep(
    task: str, tmp_path: Path
) -> None:
    folder = copied(FOLDERS[task], tmp_path)
    study = folder / "runs" / "s"
    running = Running.start(*words(task), cwd=folder, trial=study / "base-s1", env=ENVIRONMENT)
    struck = kill_a_worker(running, study, task)
    wait_until(lambda: len(results(study)) >= 4 or running.ended(), "a third of the trials")
    assert not running.ended(), running.process.communicate()[0]
    running.kill()
    assert len(results(study)) < 12
    done = allelse(*words(task), cwd=folder, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr

    table = json.loads(printed(folder, "table", "--format", "json", "sweep.name=s"))
    assert [row["seeds"] for row in table] == [3] * 4
    assert attempts_of(struck) > 1
    undisturbed = points_of(run_alone(struck, folder, tmp_path / "alone"))
    assert points_of(out_of(struck))[POINTS[task]] == pytest.approx(undisturbed[POINTS[task]])


def kill_a_worker(running: Running, study: Path, task: str) -> Path:
    """Kill the worker of a script that has saved a checkpoint. Returns the trial's folder."""
    script: list[psutil.Process] = []
    trials: list[Path] = []

    def is_stopped() -> bool:
        """Whether a script that has a checkpoint has been stopped, so that it can't end first."""
        for path in study.glob(f"*/checkpoints/*/files/out/{CHECKPOINTS[task]}"):
            trial = path.relative_to(study).parts[0]
            for process in running.processes(f"/{trial}/"):
                if process.cmdline()[1:2] == [f"{task}.py"]:  # not its guard
                    process.suspend()
                    script.append(process)
                    trials.append(study / trial)
                    return True
        return running.ended()

    wait_until(is_stopped, "a script with a checkpoint")
    assert script, running.process.communicate()[0]
    (worker,) = [parent for parent in script[0].parents() if "ray::" in parent.cmdline()[0]]
    worker.kill()
    return trials[0]


def results(study: Path) -> list[Path]:
    return list(study.glob("*/result.json"))


def attempts_of(trial: Path) -> int:
    return max(int(line["attempt"]) for line in lines(trial / "attempts.jsonl"))


def out_of(trial: Path) -> Path:
    (out,) = trial.glob("checkpoints/*/files/out")
    return out


def run_alone(trial: Path, folder: Path, out: Path) -> Path:
    """Run the trial's first command by hand. Returns the folder of what it wrote."""
    attempt: dict[str, Any] = lines(trial / "provenance.json")[0]["attempts"][0]
    command = attempt["about"]["command"]
    command[command.index("--out") + 1] = str(out)
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    return out


def points_of(out: Path) -> dict[str, float]:
    """The last value of each point that a script wrote."""
    return {point.name: point.value for point in WrittenMetrics(out, out / "stdout.txt").earlier}


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_the_scripts_know_nothing_of_allelse(folder: str) -> None:
    (script,) = (EXAMPLES / folder).glob("*.py")
    assert "allelse" not in script.read_text("utf-8")
