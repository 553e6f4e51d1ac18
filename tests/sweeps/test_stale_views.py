"""A worker that sees an older state of the shared folder, as on NFS: it waits for the checkpoint of rank zero.

Its process has a mount of its own, in which an old copy hides the checkpoints for a while.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import SLOW, newest_state, reasons, undisturbed
from small_task import write_task
from studies import Running, lines, wait_until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.skipif(os.geteuid() != 0, reason="a mount of its own needs root"),
]
STEPS = 30
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]", "cluster.workers=2"]
STALE = """
import ctypes, inspect, threading
from pathlib import Path

HERE = Path(__file__).parent
libc = ctypes.CDLL(None, use_errno=True)
NEW_NAMESPACE, PRIVATE, BIND, DETACH = 0x20000, 0x44000, 0x1000, 2

def called(result):
    assert result == 0, ctypes.get_errno()

def hide():
    seen = str(HERE / "runs/s/base-s1/checkpoints").encode()
    called(libc.unshare(NEW_NAMESPACE))
    called(libc.mount(b"none", b"/", None, PRIVATE, None))
    called(libc.mount(str(HERE / "old").encode(), seen, None, BIND, None))
    threading.Timer(5, lambda: called(libc.umount2(seen, DETACH))).start()

ranks = [frame.frame.f_locals.get("rank") for frame in inspect.stack() if frame.function == "work"]
if ranks == [{stale}] and (HERE / "old").is_dir():
    hide()
"""
SAVED = "    total = trial.saved.state if trial.saved else 0.0\n"
TOLD = '    (HERE / f"start-{trial.rank}").write_text(str(trial.saved.step if trial.saved else 0))\n'


@pytest.mark.parametrize("stale", [0, 1])
def test_all_workers_start_from_the_checkpoint_that_rank_zero_sees(
    stale: int, tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = {"\nfrom collections.abc": STALE.format(stale=stale) + "\nfrom collections.abc"}
    folder = write_task(furnish(tmp_path / "study"), head | {SAVED: TOLD + SAVED} | SLOW)
    trial = folder / "runs" / "s" / "base-s1"
    running = Running.start("sweep", *WORDS, cwd=folder, trial=trial)
    running.wait_for_step(4)
    shutil.copytree(trial / "checkpoints", folder / "being-copied")
    (folder / "being-copied").rename(folder / "old")
    old = newest_state(folder / "old")[0]
    running.wait_for_step(old + 4)
    for worker in running.workers():
        worker.kill()
    wait_until(lambda: len(lines(trial / "attempts.jsonl")) >= 3, "the next attempt")
    code, output = running.finish()
    assert code == 0, output
    assert reasons(trial)[-1] == "finished"
    starts = [int((folder / f"start-{rank}").read_text()) for rank in (0, 1)]
    assert starts[0] == starts[1], output
    assert (starts[0] == old) == (stale == 0), starts
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    monkeypatch.chdir(folder)
    finished = undisturbed(folder, WORDS, "base", tmp_path / "alone")
    assert newest_state(trial / "checkpoints") == newest_state(tmp_path / "alone")
    assert finished.scores["dev"]["score"] > 0
