"""Rank zero sees an older state of the shared folder, as on NFS: all start from the checkpoint that it sees.

Its process has a mount of its own, which hides the newest checkpoint until it trains.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, train_to, undisturbed, write_faulty_task
from leftovers import check_no_locks, wait_for_end
from machines import needs_namespaces
from studies import Running, lines, mlflow_runs

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.faults,
    needs_namespaces,
]
STEPS = 30
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]", "cluster.workers=2"]
HIDING = """
import ctypes, inspect
libc = ctypes.CDLL(None, use_errno=True)
NEW_NAMESPACE, PRIVATE, BIND, DETACH = 0x20000, 0x44000, 0x1000, 2

def called(result):
    assert result == 0, ctypes.get_errno()

def hide(step):
    called(libc.unshare(NEW_NAMESPACE))
    called(libc.mount(b"none", b"/", None, PRIVATE, None))
    called(libc.mount(str(HERE / "empty").encode(), str(step).encode(), None, BIND, None))
    (HERE / "hidden").write_text(step.name.removeprefix("step-"))

def reveal(step):
    called(libc.umount2(str(step).encode(), DETACH))

names_the_start = any(frame.function == "newest" for frame in inspect.stack())
hidden = None
if names_the_start and (HERE / "empty").is_dir():
    steps = [whole.parent for whole in HERE.glob("runs/s/base-s1/checkpoints/*/a1/step-*/manifest.json")]
    hidden = max(steps, key=lambda step: int(step.name.removeprefix("step-")))
    hide(hidden)

def begin(trial, step):
    if trial.saved and step == trial.saved.step + 1:
        (HERE / f"saw-{trial.rank}").write_text(str(trial.saved.step))
        if hidden:
            reveal(hidden)
        while len(list(HERE.glob("saw-*"))) < trial.world:  # workers that train together wait for each other
            trial.stopping()
            time.sleep(0.1)
    wait_for_leave(trial, step)
"""


def test_all_workers_start_from_the_checkpoint_that_rank_zero_sees(
    tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_faulty_task(furnish(tmp_path / "study"), "begin(trial, step)", HIDING)
    train_to(8, folder)
    trial = folder / "runs" / "s" / "base-s1"
    running = Running.start("sweep", *WORDS, cwd=folder, trial=trial)
    running.wait_for_step(6)
    (folder / "empty").mkdir()
    for worker in running.workers():
        worker.kill()
    train_to(STEPS, folder)
    code, output = running.finish()
    assert code == 0, output
    assert reasons(trial)[-1] == "finished"
    starts = [int((folder / f"saw-{rank}").read_text()) for rank in (0, 1)]
    hidden = int((folder / "hidden").read_text())
    assert starts == [hidden - 2] * 2, output
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    wait_for_end(folder)
    check_no_locks(trial.parent)
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]
    monkeypatch.chdir(folder)
    finished = undisturbed(folder, WORDS, "base", tmp_path / "alone")
    assert json.loads((trial / "result.json").read_text())["scores"] == finished.scores
    assert newest_state(trial / "checkpoints") == newest_state(tmp_path / "alone")
