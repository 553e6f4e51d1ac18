"""Two workers joined by torch.distributed, of which one fails or leaves: the trial's record has that one's cause."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, rows_of_sizes
from leftovers import check_no_locks, wait_for_end
from studies import allelse, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, EVERY, FAULTY = 24, 1, 17
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", f"train.every={EVERY}", "cluster.workers=2"]
FAULTS = {
    "first_fails": "if trial.rank == 0: raise RuntimeError('Connection refused: broken')",
    "second_fails": "if trial.rank == 1: print('a last word'); raise ValueError('broken')",
    "first_leaves": "if trial.rank == 0 and first('a'): os._exit(0)",
    "second_leaves": "if trial.rank == 1 and first('b'): os._exit(0)",
    "second_ends": "if trial.rank == 1 and first('c'): sys.exit(0)",
    "both_lose_each_other": "if first(f'd{trial.rank}'): raise RuntimeError('gloo: Connection closed by peer')",
}
LATE = "if trial.rank == 1: leave_after_the_result()"
FUNCTIONS = """
def leave_after_the_result():
    while not (HERE / "runs" / "s" / "late-s1" / "result.json").exists():
        time.sleep(0.1)
    os._exit(0)

def fault(trial, size, step):
{faults}
"""


@dataclass
class FailingPeers:
    """A sweep with a row for each fault: its study, and what it printed."""

    study: Path
    output: str


def write(folder: Path) -> Path:
    sizes = {name: size for size, name in enumerate([*FAULTS, "late"], 100)}
    faults = [f"    if (size, step) == ({sizes[name]}, {FAULTY}):\n        {code}" for name, code in FAULTS.items()]
    faults += [f"    if (size, step) == ({sizes['late']}, {STEPS}):\n        {LATE}"]
    functions = FUNCTIONS.format(faults="\n".join(faults))
    return write_summing_task(folder, "fault(trial, trial.config.model.size, step)", functions, rows_of_sizes(sizes))


@pytest.fixture(scope="module")
def ended(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> FailingPeers:
    folder = write(furnish(tmp_path_factory.mktemp("peers").resolve()))
    done = allelse("sweep", *WORDS, f"sweep.rows=[{','.join(['base', *FAULTS, 'late'])}]", cwd=folder, timeout=1800)
    assert done.returncode == 1, done.stdout + done.stderr
    return FailingPeers(folder / "runs" / "s", done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("row", "cause"),
    [("first_fails", "RuntimeError: Connection refused: broken"), ("second_fails", "ValueError: broken")],
)
def test_an_error_of_either_worker_fails_the_trial_at_once(ended: FailingPeers, row: str, cause: str) -> None:
    assert reasons(ended.study / f"{row}-s1") == [f"failed: {cause}"], ended.output
    assert f"{row}-s1: FAILED: {cause}" in ended.output
    assert "in fault" in (ended.study / f"{row}-s1" / "error.txt").read_text()


def test_the_reports_before_an_error_are_in_the_journal(ended: FailingPeers) -> None:
    steps = [line["step"] for line in lines(ended.study / "first_fails-s1" / "journal.jsonl")]
    assert steps == list(range(1, FAULTY))


def test_a_worker_that_leaves_after_the_result_costs_no_attempt(ended: FailingPeers) -> None:
    assert reasons(ended.study / "late-s1") == ["finished"], ended.output
    assert "late-s1: a worker did not exit cleanly after the result: worker 1 (pid " in ended.output


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (
            "first_leaves",
            r"worker 0 \(pid \d+ on \S+\) was killed \(SIGKILL\), perhaps because memory ran out.*",
        ),
        (
            "second_leaves",
            r"worker 1 \(pid \d+ on \S+\) was killed \(SIGKILL\), perhaps because memory ran out.*",
        ),
        ("second_ends", r"the trial's code ended its process: SystemExit: 0"),
        ("both_lose_each_other", r"RuntimeError: gloo: Connection closed by peer"),
    ],
)
def test_a_worker_that_leaves_starts_the_next_attempt(ended: FailingPeers, row: str, cause: str) -> None:
    lost, end = reasons(ended.study / f"{row}-s1")
    assert re.fullmatch(f"worker lost: {cause}", lost), ended.output
    assert end == "finished"


@pytest.mark.parametrize("row", ["first_leaves", "second_leaves", "second_ends", "both_lose_each_other", "late"])
def test_what_went_on_is_the_same_as_base(ended: FailingPeers, row: str) -> None:
    """The rows differ in a size that computes nothing."""
    base, trial = ended.study / "base-s1", ended.study / f"{row}-s1"
    scores = [json.loads((each / "result.json").read_text())["scores"] for each in (base, trial)]
    assert scores[0] == scores[1]
    assert newest_state(trial / "checkpoints") == newest_state(base / "checkpoints")
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(1, STEPS + 1))


def test_mlflow_has_one_run_per_trial(ended: FailingPeers) -> None:
    statuses = sorted(status for _, status in mlflow_runs(ended.study.parent))
    assert statuses == ["FAILED"] * 2 + ["FINISHED"] * len(FAULTS)


def test_nothing_is_left(ended: FailingPeers) -> None:
    wait_for_end(ended.study.parents[1])
    check_no_locks(ended.study)
