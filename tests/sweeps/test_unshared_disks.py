"""Nodes that save checkpoints on a disk of their own: a trial that loses its node trains all steps again."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, undisturbed, write_paced_task
from leftovers import check_nothing_left
from machines import NOTICED_WHEN_BUSY, Machines, needs_namespaces
from studies import lines, mlflow_runs, newest_checkpoint, wait_until
from sweep_on_machines import machine_of_a_worker

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults, needs_namespaces]
STEPS, HELD = 30, 8
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}"]


def test_a_trial_starts_again_where_its_checkpoints_are_not_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_paced_task(tmp_path.resolve() / "work")
    runs, trial = folder / "runs", folder / "runs" / "s" / "base-s1"
    train_to(HELD, folder)
    with closing(Machines(NOTICED_WHEN_BUSY)) as made:
        made.add("head", cpus=0)
        for name in ("node-a", "node-b"):
            made.add(name, unshared=[runs])
        for machine in made.all:
            made.start_ray(machine)
        running = made.head.start("sweep", *WORDS, "sweep.rows=[base]", f"cluster.address={made.address}", cwd=folder)
        wait_until(lambda: newest_checkpoint(trial) >= HELD - 4 or running.ended(), "a checkpoint")
        assert not running.ended(), running.end().output
        lost = machine_of_a_worker(made)
        (other,) = (machine for machine in made.all[1:] if machine is not lost)
        made.lose(lost)
        train_to(STEPS, folder)
        ended = running.end()
        check_nothing_left(made, trial.parent)
    assert ended.code == 0, ended.output
    said = " ".join(ended.output.split())
    assert re.search(rf"paths.runs: {runs} is not shared by .*node-a.*node-b.*: checkpoints saved there", said), said
    assert f"base-s1: starts at step 1, since no checkpoint is visible on {other.name}\n" in ended.output
    assert [reason.split(":")[0] for reason in reasons(trial)] == ["worker lost", "finished"]
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert mlflow_runs(runs) == [("base s1", "FINISHED")]
    monkeypatch.chdir(folder)
    alone = undisturbed(folder, WORDS, "base", tmp_path / "alone")
    assert json.loads((trial / "result.json").read_text())["scores"] == alone.scores
