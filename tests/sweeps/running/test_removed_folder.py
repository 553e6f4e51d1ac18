"""A trial whose folder is removed while it runs ends; the others of the sweep go on."""

import shutil
from pathlib import Path

import pytest
from faulty_task import train_to, write_paced_task
from studies import Running, lines, newest_checkpoint, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_a_removed_folder_ends_its_trial_alone(tmp_path: Path) -> None:
    write_paced_task(tmp_path)
    train_to(6, tmp_path)
    study = tmp_path / "runs" / "s"
    words = ["task=small", "sweep.name=s", "train.steps=20", "sweep.rows=[base,square]"]
    running = Running.start("sweep", *words, cwd=tmp_path, trial=study / "base-s1")
    running.wait_for_step(6)
    wait_until(lambda: newest_checkpoint(study / "square-s1") >= 6 or running.ended(), "the other trial")
    shutil.rmtree(study / "base-s1")
    train_to(20, tmp_path)
    code, output = running.finish()
    assert code == 1, output
    assert "base-s1: FAILED: its folder was removed; the same command trains it again" in output
    assert "square-s1: finished" in output
    assert lines(study / "square-s1" / "journal.jsonl")[-1]["step"] == 20
    again = Running.start("sweep", *words, cwd=tmp_path, trial=study / "base-s1").finish()
    assert again[0] == 0, again[1]
    assert "2 of 2 finished" in again[1]
