"""Workers that hang, stop, exit, fail or run out of memory, alone and with a peer: a sweep has a
row for each fault."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from faulty_task import FUNCTIONS as PLANTED
from faulty_task import HEAD, newest_state, reasons, rows_of_sizes
from leftovers import check_no_locks, wait_for_end
from small_task import write_task
from studies import allelse, lines, mlflow_runs

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS = 12
EVERY = 2
FAULTY = 7
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", f"train.every={EVERY}"]
KILLED = r"worker lost: worker {} \(pid \d+ on \S+\) was killed \(SIGKILL\), perhaps because memory ran out.*"
SILENT = r"worker lost: no worker gave a sign of life for 0.4 min \(sweep.stall_minutes\)"
LEFT = "failed: the trial's code ended its process: SystemExit: 0"
SHORT = "out of memory: MemoryError: no room"
DONE = "finished"
ALONE = {
    "hangs": (
        "if first('hung'): ctypes.PyDLL(None).sleep(10**6)",
        SILENT,
        DONE,
    ),  # in C code, with Python's lock
    "is_stopped": ("if first('stopped'): os.kill(os.getpid(), signal.SIGSTOP)", SILENT, DONE),
    "exits": ("if first('exited'): os._exit(0)", KILLED.format(0), DONE),
    "leaves": ("sys.exit(0)", LEFT),
    "parses_arguments": ("__import__('argparse').ArgumentParser().parse_args()", DONE),
    "lacks_memory": (
        "if first('short'): bytearray(10**18)",
        r"worker lost: out of memory: MemoryError.*",
        DONE,
    ),
    "lacks_memory_twice": (
        "raise MemoryError('no room')",
        f"worker lost: {SHORT}",
        f"failed: {SHORT}, for the second time",
    ),
    "breaks": ("raise ValueError('broken')", "failed: ValueError: broken"),
    "prints_the_unspeakable": ("os.write(1, b'\\x00\\xff\\x1b[31m\\n')", DONE),
    "raises_no_exception": (
        "raise type('Rude', (BaseException,), {})('said')",
        "failed: Rude: said",
    ),
}
PEERS = {
    "first_fails": (
        "if trial.rank == 0: raise RuntimeError('Connection refused: broken')",
        "failed: RuntimeError: Connection refused: broken",
    ),
    "second_fails": (
        "if trial.rank == 1: print('a last word'); raise ValueError('broken')",
        "failed: ValueError: broken",
    ),
    "first_leaves": ("if trial.rank == 0 and first('a'): os._exit(0)", KILLED.format(0), DONE),
    "second_leaves": ("if trial.rank == 1 and first('b'): os._exit(0)", KILLED.format(1), DONE),
    "second_ends": ("if trial.rank == 1: sys.exit(0)", LEFT),
    "both_lose_each_other": (
        "if first(f'd{trial.rank}'): raise RuntimeError('gloo: Connection closed by peer')",
        "worker lost: RuntimeError: gloo: Connection closed by peer",
        DONE,
    ),
    "leaves_late": ("pass", DONE),
}
FAULTS = {1: ALONE, 2: PEERS}
"""By the number of workers and the row: what is done at the faulty step, and how the attempts
end."""
FUNCTIONS = """
import ctypes

def leave_late(trial):
    while trial.rank == 1 and not (HERE / "runs" / "s" / "leaves_late-s1" / "result.json").exists():
        time.sleep(0.1)
    if trial.rank == 1:
        os._exit(0)

def fault(trial, size, step):
    while step == {faulty} and not any(HERE.glob(f"runs/s/{{ROWS[size]}}-s1/checkpoints/*/a*/step-6/manifest.json")):
        time.sleep(0.01)  # a thread writes it
    if (ROWS[size], step) == ("leaves_late", {steps}):
        leave_late(trial)
{faults}
"""

SUMMED = {
    "        total += trial.config.train.rate * trial.seed\n": """\
            total += sum_over(trial, trial.config.train.rate * trial.seed)
            {each_step}
""",
    "    for step in range(": "    with trial.process_group():\n        for step in range(",
    "        if (stops": "            if (stops",
    "        if regular": "            if regular",
    "            trial.report": "                trial.report",
    "            trial.checkpoint": "                trial.checkpoint",
    "        if stops:\n            return": "            if stops:\n                return",
    HEAD: PLANTED
    + """
import torch

def sum_over(trial, value):
    total = torch.tensor(value, dtype=torch.float64)
    if trial.world > 1:
        torch.distributed.all_reduce(total)
    return total.item()

{functions}

from dataclasses""",
}


def write_summing_task(folder: Path, each_step: str, functions: str, files: dict[str, str]) -> Path:
    """The small task with a sum over its workers in each step: the loss of one stops the others.

    ``each_step`` is a statement after the sum; it may call ``functions``.
    """
    replacements = dict(SUMMED)
    for mark, text in (
        ("{each_step}", each_step),
        ("{functions}", functions),
        ("{here}", str(folder)),
    ):
        replacements = {old: new.replace(mark, text) for old, new in replacements.items()}
    return write_task(folder, replacements, files)


BURNS = """\
    if trial.rank:
        end = time.process_time() + 1.2  # the kernel rounds what it counts to clock ticks
        while time.process_time() < end:
            pass
    while trial.rank == 0 and trial._time._cpu.others < 1.0:
        time.sleep(0.05)
        trial.stopping(alone=True)
    total = trial.saved"""


def test_cpu_seconds_are_those_of_all_workers(workplace: Path) -> None:
    """Rank zero uses little, and waits until it knows what the other one has used."""
    write_task(workplace, {HEAD: f"\nimport time\n{HEAD}", "    total = trial.saved": BURNS})
    words = ["task=small", "sweep.name=s", "cluster.workers=2", "sweep.rows=[base]"]
    process = allelse("sweep", *words, cwd=workplace, timeout=600)
    assert process.returncode == 0, process.stdout + process.stderr
    assert lines(workplace / "runs" / "s" / "base-s1" / "result.json")[0]["cpu_seconds"] >= 1.0


@dataclass
class Swept:
    """The study of a sweep with these faults, its exit code and what it printed."""

    study: Path
    code: int
    output: str

    def trial(self, row: str) -> Path:
        return self.study / f"{row}-s1"


Sweeps = Callable[[int], Swept]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, furnish: Callable[[Path], Path]) -> Sweeps:
    """The sweep of trials with so many workers; each runs once."""

    @cache
    def run(workers: int) -> Swept:
        folder = furnish(tmp_path_factory.mktemp("faulty").resolve())
        sizes = {row: size for size, row in enumerate(FAULTS[workers], 100)}
        faults = [
            f"    if (size, step) == ({size}, {FAULTY}):\n        {FAULTS[workers][row][0]}"
            for row, size in sizes.items()
        ]
        rows = f"\nROWS = { {8: 'base'} | {size: row for row, size in sizes.items()}!r}\n"
        functions = rows + FUNCTIONS.format(faulty=FAULTY, steps=STEPS, faults="\n".join(faults))
        write_summing_task(
            folder, "fault(trial, trial.config.model.size, step)", functions, rows_of_sizes(sizes)
        )
        options = ["sweep.stall_minutes=0.4"] if workers == 1 else []
        selection = f"sweep.rows=[{','.join(['base', *sizes])}]"
        process = allelse(
            "sweep",
            *WORDS,
            f"cluster.workers={workers}",
            selection,
            *options,
            cwd=folder,
            timeout=1800,
        )
        return Swept(folder / "runs" / "s", process.returncode, process.stdout + process.stderr)

    return run


@pytest.mark.parametrize(
    ("workers", "row"), [(workers, row) for workers, rows in FAULTS.items() for row in rows]
)
def test_each_attempt_ends_with_its_cause_and_a_finished_trial_is_as_undisturbed(
    swept: Sweeps, workers: int, row: str
) -> None:
    """The rows differ in a size that computes nothing."""
    sweep = swept(workers)
    _, *ends = FAULTS[workers][row]
    trial = sweep.trial(row)
    base = sweep.trial("base")
    causes = reasons(sweep.trial(row))
    assert len(causes) == len(ends), sweep.output
    assert all(re.fullmatch(end, reason) for end, reason in zip(ends, causes, strict=True)), causes
    journal = [line["step"] for line in lines(trial / "journal.jsonl")]
    if ends[-1] == DONE:
        assert (f"{row}-s1: resumed at step 6" in sweep.output) == (len(ends) > 1)
        scores = [
            json.loads((folder / "result.json").read_text())["scores"] for folder in (base, trial)
        ]
        assert scores[0] == scores[1]
        assert newest_state(trial / "checkpoints") == newest_state(base / "checkpoints")
        assert journal == list(range(EVERY, STEPS + 1, EVERY))
    else:
        cause = ends[-1].removeprefix("failed: ")
        assert f"{row}-s1: FAILED: {cause}" in sweep.output
        assert (trial / "error.txt").read_text().startswith(cause)
        may_be_silent = row in ("second_fails", "second_ends")  # the peer may not be heard again
        assert journal == list(range(EVERY, FAULTY, EVERY)) or may_be_silent


def test_stacks_show_where_a_worker_hung_that_could_not_even_answer(swept: Sweeps) -> None:
    assert re.search(
        r"File .*small\.py.* in fault", (swept(1).trial("hangs") / "lost-a1.txt").read_text()
    )


def test_a_worker_that_leaves_after_the_result_is_told(swept: Sweeps) -> None:
    assert (
        "leaves_late-s1: a worker did not exit cleanly after the result: worker 1 (pid "
        in swept(2).output
    )


@pytest.mark.parametrize("workers", FAULTS)
def test_mlflow_has_one_run_per_trial_and_nothing_is_left(swept: Sweeps, workers: int) -> None:
    sweep = swept(workers)
    failed = sum(ends[-1] != DONE for _, *ends in FAULTS[workers].values())
    assert sweep.code == 1
    assert "Traceback" not in sweep.output
    assert sweep.output.replace("\n", "").isprintable()
    statuses = sorted(status for _, status in mlflow_runs(sweep.study.parent))
    assert statuses == ["FAILED"] * failed + ["FINISHED"] * (1 + len(FAULTS[workers]) - failed)
    wait_for_end(sweep.study.parents[1])
    check_no_locks(sweep.study)
