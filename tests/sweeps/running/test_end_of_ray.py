"""Ray's own processes are killed: the sweep ends with one line, and goes on to the same bits once
it is typed again."""

import re
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest
from faulty_task import check_as_undisturbed, train_to, write_paced_task
from leftovers import check_no_locks
from studies import Running, allelse, mlflow_runs, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS = 60
RAW = re.compile(
    r"Traceback|\.cc:\d+|\*\*\* SIG|^\((raylet|gcs_server|pid=)|^\[\d{4}-\d\d-\d\d", re.MULTILINE
)
"""Of what Ray itself prints."""
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]"]


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_the_end_of_ray_is_one_line_and_the_same_command_finishes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a socket's path must be short
    folder = write_paced_task(tmp_path / "study")
    sessions = Path(tempfile.mkdtemp())
    monkeypatch.setenv("RAY_TMPDIR", str(sessions))
    train_to(8, folder)
    running = Running.start("sweep", *WORDS, cwd=folder, trial=folder / "runs" / "s" / "base-s1")
    running.wait_for_step(6)
    family = psutil.Process(running.process.pid).children(recursive=True)
    (victim,) = [process for process in family if process.name() == name]
    victim.kill()
    code, output = running.finish()
    assert code == 1, output
    assert not RAW.search(output), output
    (line,) = [line for line in output.splitlines() if "ended; the trials resume" in line]
    assert (
        f"({name}) ended; the trials resume from their last checkpoints. To continue, run again: "
        "allelse" in line
    )
    (logs,) = re.findall(r"^Ray's logs: (.*)$", output, re.MULTILINE)
    assert (Path(logs) / "gcs_server.out").exists()
    check_no_locks(running.trial.parent)
    wait_until(
        lambda: not any(map(_lives, family)), "the end of Ray's processes, and of the syncer"
    )
    assert mlflow_runs(folder / "runs") == [("base s1", "KILLED")]
    train_to(STEPS, folder)
    second_sweep = allelse("sweep", *WORDS, cwd=folder)
    assert second_sweep.returncode == 0, second_sweep.stdout + second_sweep.stderr
    assert [*sessions.glob("ray/session_2*")] == [Path(logs).parent], (
        "the second one has removed its own"
    )
    shutil.rmtree(sessions)
    check_as_undisturbed(folder, WORDS, STEPS, tmp_path / "alone")
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
