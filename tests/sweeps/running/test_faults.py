"""Workers that hang, stop, exit or run out of memory, in one real sweep: each trial ends like an undisturbed one."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, rows_of_sizes, undisturbed, write_faulty_task
from leftovers import check_no_locks, wait_for_end
from studies import allelse, lines, mlflow_runs

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, EVERY, FAULTY = 12, 2, 7  # the fault comes after the checkpoint of step 6
WORDS = ["task=small", "sweep.name=faults", f"train.steps={STEPS}", f"train.every={EVERY}"]
FAULTS = ["hangs", "is_stopped", "exits", "exits_twice", "lacks_memory", "lacks_memory_twice", "breaks"]
PLANTED = """
import ctypes
FAULTS = {faults!r}

def fault(trial):
    name = dict(enumerate(FAULTS, 100)).get(trial.config.model.size)
    if name is None or os.environ.get("UNDISTURBED"):
        return
    while not any(HERE.glob(f"runs/faults/{{name}}-s1/checkpoints/*/a*/step-6/manifest.json")):
        time.sleep(0.01)  # a thread writes it
    if name == "hangs" and first(name):
        ctypes.PyDLL(None).sleep(10**6)  # in C code, with Python's lock
    if name == "is_stopped" and first(name):
        os.kill(os.getpid(), signal.SIGSTOP)
    if name == "exits" and first(name):
        os._exit(0)
    if name == "exits_twice" and (first("exits_once") or first(name)):
        sys.exit(0)
    if name == "lacks_memory" and first(name):
        bytearray(10**18)
    if name == "lacks_memory_twice":
        raise MemoryError("no room")
    if name == "breaks":
        raise ValueError("broken")
"""


@dataclass
class Faulty:
    """The sweep's folder, its exit code and what it printed."""

    cwd: Path
    code: int
    output: str

    def trial(self, row: str) -> Path:
        return self.cwd / "runs" / "faults" / f"{row}-s1"

    def reasons(self, row: str) -> list[str]:
        return reasons(self.trial(row))


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]) -> Faulty:
    folder = furnish(tmp_path_factory.mktemp("faulty").resolve())
    sizes = {name: size for size, name in enumerate(FAULTS, 100)}
    write_faulty_task(folder, f"if step == {FAULTY}: fault(trial)", PLANTED.format(faults=FAULTS), rows_of_sizes(sizes))
    rows = ",".join(["base", *FAULTS])
    done = allelse("sweep", *WORDS, f"sweep.rows=[{rows}]", "sweep.stall_minutes=0.4", cwd=folder)
    return Faulty(folder, done.returncode, done.stdout + done.stderr)


@pytest.mark.parametrize("row", ["base", "hangs", "is_stopped", "exits", "exits_twice", "lacks_memory"])
def test_a_trial_ends_with_the_bits_of_an_undisturbed_one(
    faulty: Faulty, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDISTURBED", "1")
    monkeypatch.chdir(faulty.cwd)
    finished = undisturbed(faulty.cwd, WORDS, row, tmp_path)
    result = json.loads((faulty.trial(row) / "result.json").read_text())
    assert result["scores"] == finished.scores, faulty.output
    assert newest_state(faulty.trial(row) / "checkpoints") == newest_state(tmp_path)
    journal = lines(faulty.trial(row) / "journal.jsonl")
    assert [line["step"] for line in journal] == list(range(EVERY, STEPS + 1, EVERY))


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ("hangs", r"worker lost: no worker gave a sign of life for 0.4 min \(sweep.stall_minutes\)"),
        ("is_stopped", r"worker lost: no worker gave a sign of life for 0.4 min \(sweep.stall_minutes\)"),
        ("exits", r"worker lost: worker 0 \(pid \d+ on \S+\) was killed \(SIGKILL\), perhaps because memory ran out"),
        ("exits_twice", r"worker lost: the trial's code ended its process: SystemExit: 0"),
        ("lacks_memory", r"worker lost: out of memory: MemoryError"),
    ],
)
def test_the_cause_of_a_retry_is_recorded_and_it_goes_on_from_the_checkpoint(
    faulty: Faulty, row: str, cause: str
) -> None:
    *lost, end = faulty.reasons(row)
    assert len(lost) == (2 if row == "exits_twice" else 1), faulty.output
    assert all(re.match(cause, reason) for reason in lost), lost
    assert end == "finished"
    assert f"{row}-s1: resumed at step 6" in faulty.output


def test_stacks_show_where_a_worker_hung_that_could_not_even_answer(faulty: Faulty) -> None:
    assert re.search(r"File .*small\.py.* in fault", (faulty.trial("hangs") / "lost-a1.txt").read_text())


def test_memory_that_is_exhausted_twice_fails_the_trial_with_its_cause(faulty: Faulty) -> None:
    lost, end = faulty.reasons("lacks_memory_twice")
    assert lost.startswith("worker lost: out of memory: MemoryError: no room")
    assert end == "failed: out of memory: MemoryError: no room, for the second time"
    assert "for the second time" in (faulty.trial("lacks_memory_twice") / "error.txt").read_text()


def test_the_sweep_ends_with_one_line_per_fault_and_nothing_is_left(faulty: Faulty) -> None:
    assert faulty.code == 1
    assert "Traceback" not in faulty.output
    assert "breaks-s1: FAILED: ValueError: broken" in faulty.output
    statuses = dict(mlflow_runs(faulty.cwd / "runs"))
    assert sorted(statuses.values()) == ["FAILED", "FAILED", *["FINISHED"] * (len(FAULTS) - 1)]
    wait_for_end(faulty.cwd)
    check_no_locks(faulty.cwd / "runs" / "faults")
