"""The link between a sweep and the head of its cluster is cut for 20 s: the sweep goes on to the same bits."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, train_to, write_paced_task
from leftovers import check_nothing_left
from machines import NOTICED_BY_DEFAULT, Machines, needs_namespaces
from studies import lines, mlflow_runs, newest_checkpoint, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults, needs_namespaces]
STEPS, RATE, CUT_S = 60, 0.5, 20.0
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]"]


def test_a_head_that_is_out_of_reach_for_a_while_ends_nothing(tmp_path: Path, furnish: Callable[[Path], Path]) -> None:
    folder = write_paced_task(furnish(tmp_path / "study"))
    train_to(20, folder)
    trial = folder / "runs" / "s" / "base-s1"
    with closing(Machines(NOTICED_BY_DEFAULT)) as made:
        made.add("head", cpus=0)
        own = made.add("own", cpus=1)
        for machine in made.all:
            made.start_ray(machine)
        running = own.start("sweep", *WORDS, f"cluster.address={made.address}", cwd=folder)
        wait_until(lambda: newest_checkpoint(trial) >= 18 or running.ended(), "a checkpoint")
        made.cut(own)
        time.sleep(CUT_S)
        made.restore(own)
        train_to(STEPS, folder)
        done = running.end()
        check_nothing_left(made, trial.parent)
    assert done.code == 0, done.output
    assert reasons(trial) == ["finished"], done.output
    assert json.loads((trial / "result.json").read_text())["scores"]["dev"]["score"] == STEPS * RATE
    assert newest_state(trial / "checkpoints") == (STEPS, STEPS * RATE)
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"]
