"""The kernel kills a worker because memory ran out: once is worth another attempt, twice fails the trial."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, undisturbed
from memory_group import MEBIBYTES, memory_group
from small_task import write_task
from studies import ablate, lines, mlflow_runs

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, FAULTY = 12, 7
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base,once,twice]"]
BEGINS = "        total +="
HOW_OFTEN = {101: 1, 102: 9}
TAKES = """
import os
from pathlib import Path

GROUP, HOW_OFTEN = Path({group!r}), {how_often!r}

def take_memory(trial):
    size = trial.config.model.size
    last = trial.rank == trial.world - 1
    for number in range(HOW_OFTEN.get(size, 0) if last and "UNDISTURBED" not in os.environ else 0):
        try:
            Path(__file__).with_name(f"took-{{size}}-{{number}}").touch(exist_ok=False)
        except FileExistsError:
            continue
        (GROUP / "cgroup.procs").write_text(str(os.getpid()))
        kept = [bytearray(b"x") * (64 << 20) for _ in range(2 * {mebibytes} // 64)]
        raise AssertionError(len(kept))
"""


@pytest.fixture(scope="module")
def group() -> Iterator[Path]:
    with memory_group(f"ablate-{os.getpid()}") as group:
        yield group


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_the_kernel_kills_is_short_of_memory(
    workers: int,
    group: Path,
    tmp_path: Path,
    furnish: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {
        f"conf/task/small/row/{name}.yaml": f"row: {{group: A, change: {name}}}\nmodel: {{size: {size}}}\n"
        for name, size in (("once", 101), ("twice", 102))
    }
    takes = TAKES.format(group=str(group), how_often=HOW_OFTEN, mebibytes=MEBIBYTES)
    fault = f"        if step == {FAULTY}: take_memory(trial)\n"
    planted = {BEGINS: fault + BEGINS, "\nfrom collections.abc": f"{takes}\nfrom collections.abc"}
    folder = write_task(furnish(tmp_path / "study"), planted, rows)
    done = ablate("sweep", *WORDS, f"cluster.workers={workers}", cwd=folder)
    output, study = done.stdout + done.stderr, folder / "runs" / "s"
    assert done.returncode == 1, output
    assert "Traceback" not in output
    killed = (
        rf"worker {workers - 1} \(pid \d+ on \S+\) was killed \(SIGKILL\), most likely by the kernel: out of memory"
    )
    lost, end = reasons(study / "once-s1")
    assert re.fullmatch(f"worker lost: {killed}", lost)
    assert end == "finished"
    lost, end = reasons(study / "twice-s1")
    assert re.fullmatch(f"worker lost: {killed}", lost)
    assert re.fullmatch(f"failed: {killed}, for the second time", end)
    assert re.match(f"{killed}, for the second time", (study / "twice-s1" / "error.txt").read_text())
    assert sorted(status for _, status in mlflow_runs(folder / "runs")) == ["FAILED", "FINISHED", "FINISHED"]
    monkeypatch.setenv("UNDISTURBED", "1")
    monkeypatch.chdir(folder)
    for row in ("base", "once"):
        finished = undisturbed(folder, WORDS[:3], row, tmp_path / row)
        assert json.loads((study / f"{row}-s1" / "result.json").read_text())["scores"] == finished.scores
        assert newest_state(study / f"{row}-s1" / "checkpoints") == newest_state(tmp_path / row)
        assert [line["step"] for line in lines(study / f"{row}-s1" / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
