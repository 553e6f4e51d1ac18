"""The kernel kills a worker because memory ran out: each time costs an attempt, up to ``sweep.max_failures``."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, rows_of_sizes
from leftovers import check_no_locks, wait_for_end
from memory_group import MEBIBYTES, memory_group
from studies import allelse, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, RATE, FAULTY = 12, 0.5, 7
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base,twice,always]", "sweep.max_failures=2"]
TAKES = """
GROUP, HOW_OFTEN = Path({group!r}), {{101: 2, 102: 9}}

def take_memory(trial):
    size = trial.config.model.size
    often = HOW_OFTEN.get(size, 0) if trial.rank == trial.world - 1 else 0
    if any(first(f"took-{{size}}-{{number}}") for number in range(often)):
        (GROUP / "cgroup.procs").write_text(str(os.getpid()))
        kept = [bytearray(b"x") * (64 << 20) for _ in range(2 * {mebibytes} // 64)]
        raise AssertionError(len(kept))
"""


@pytest.fixture(scope="module")
def group() -> Iterator[Path]:
    with memory_group(f"allelse-{os.getpid()}") as group:
        yield group


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_the_kernel_kills_costs_an_attempt(
    workers: int, group: Path, tmp_path: Path, furnish: Callable[[Path], Path]
) -> None:
    takes = TAKES.format(group=str(group), mebibytes=MEBIBYTES)
    rows = rows_of_sizes({"twice": 101, "always": 102})
    folder = write_summing_task(furnish(tmp_path / "study"), f"if step == {FAULTY}: take_memory(trial)", takes, rows)
    done = allelse("sweep", *WORDS, f"cluster.workers={workers}", cwd=folder)
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "Traceback" not in output
    base, twice, always = (folder / "runs" / "s" / f"{row}-s1" for row in ("base", "twice", "always"))
    killed = rf"worker {workers - 1} \(pid \d+ on \S+\) was killed \(SIGKILL\), perhaps because memory ran out"
    *lost, end = reasons(twice)
    assert [bool(re.match(f"worker lost: {killed}", each)) for each in lost] == [True] * 2, lost
    assert end == "finished"
    *lost, end = reasons(always)
    assert [bool(re.match(f"worker lost: {killed}", each)) for each in lost] == [True] * 2, lost
    assert re.match(f"failed: {killed}", end)
    assert re.match(killed, (always / "error.txt").read_text())
    assert sorted(status for _, status in mlflow_runs(folder / "runs")) == ["FAILED", "FINISHED", "FINISHED"]
    wait_for_end(folder)
    check_no_locks(base.parent)
    for trial in (base, twice):
        assert newest_state(trial / "checkpoints") == (STEPS, STEPS * RATE * workers)
        assert json.loads((trial / "result.json").read_text())["scores"]["dev"]["score"] == STEPS * RATE * workers
        assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    for number in range(9):
        (folder / f"was-took-102-{number}").touch()  # now there is room
    again = allelse("sweep", *WORDS, f"cluster.workers={workers}", cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert newest_state(always / "checkpoints") == (STEPS, STEPS * RATE * workers)
    assert [line["step"] for line in lines(always / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"] * 3
