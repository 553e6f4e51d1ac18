"""`allelse train` of a row that only scores: one process, without Ray."""

import json
import shutil
from pathlib import Path

import pytest
from scored_task import SOURCE, write_scored
from typed import printed, refusal, typed

STUDY = ("task=scored", "sweep.name=s")
SAVES = (
    "        if step in trial.kept_steps or step == steps:\n            "
    "trial.checkpoint(step, total)\n"
)


@pytest.fixture
def folder(tmp_path: Path, database: Path) -> Path:
    write_scored(tmp_path)
    (tmp_path / "runs").mkdir()
    shutil.copy(database, tmp_path / "runs")
    return tmp_path


def test_a_row_waits_for_its_host_and_then_takes_no_step(folder: Path) -> None:
    assert "of base, but base is not in the study" in refusal(folder, "train", *STUDY, "row=greedy")
    printed(folder, "train", *STUDY, "row=base", "tracking=off")
    steps = (folder / "trained").read_text()
    printed(folder, "train", *STUDY, "row=greedy", "--add", "tracking=off")
    base, greedy = (
        json.loads((folder / f"runs/s/{row}-s1/result.json").read_text())
        for row in ("base", "greedy")
    )
    assert greedy["scores"]["dev"]["score"] == base["scores"]["dev"]["score"] * 4
    assert (folder / "trained").read_text() == steps


def test_a_host_without_its_last_state_is_refused(folder: Path) -> None:
    assert SAVES in SOURCE
    source = SOURCE.replace(
        SAVES, "        if step == 3:\n            trial.checkpoint(step, total)\n"
    )
    source = source.replace("trial.states(averaged(config))", "trial.states([3])")
    (folder / "scored.py").write_text(
        source.replace("steps=averaged(config)", "steps=[3]"), "utf-8"
    )
    printed(folder, "train", *STUDY, "row=base", "tracking=off")
    message = refusal(folder, "train", *STUDY, "row=greedy", "--add")
    assert "greedy-s1 (conf/task/scored/row/greedy.yaml)" in message
    assert (
        "of base-s1, which has no checkpoint of its last step, "
        "5 must be a step with a checkpoint: 3" in message
    )


def test_work_that_trains_on_is_stopped(folder: Path) -> None:
    printed(folder, "train", *STUDY, "row=base", "tracking=off")
    source = SOURCE.replace(
        "train(trial, config.train.steps)", "train(trial, config.train.steps + 1)"
    )
    (folder / "scored.py").write_text(source, "utf-8")
    outcome = typed(
        folder, "train", *STUDY, "row=greedy", "--add", "--changed-code", "tracking=off"
    )
    assert outcome.exit_code == 1
    output = " ".join(outcome.output.split())
    assert "work continued to step 6, but this trial only scores the weights of base-s1" in output
