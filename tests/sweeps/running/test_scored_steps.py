"""The steps of trained weights that a row scores: where training ended early, and where a step was
not saved."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from joined_ray import shared_ray
from scored_task import SOURCE, write_scored
from studies import allelse

STUDY = ("task=scored", "sweep.name=s", "tracking=off")
SAVES = (
    "        if step in trial.kept_steps or step == steps:\n            "
    "trial.checkpoint(step, total)\n"
)
STATES = "trial.states(averaged(config))"
KEEP = "steps=averaged(config)"
STEPS = "steps=lambda config: config.train.steps"
WORK = "    work=work,"
RETURNS = "        if step == 3:\n            trial.checkpoint(step, total)\n            return\n"
ENDS_EARLY = {
    SAVES: SAVES + RETURNS,
    STATES: "trial.states([3])",
    WORK: f"{WORK}\n    early_stop=True,",
}
NO_KEY = {STEPS: "steps=lambda config: 5", KEEP: "steps=()"}
DIES = """        if step == 4 and (HERE / "dies").exists():
            trial.checkpoint(step, total)
            list(trial.states([4]))  # waits until it is written
            import os
            os.kill(os.getpid(), 9)
"""
NO_END = {
    SAVES: "        if step == 3:\n            trial.checkpoint(step, total)\n",
    STATES: "trial.states([3])",
}
VERBS = ("plan", "sweep", "train")


def edited(changes: dict[str, str]) -> str:
    text = SOURCE
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def run(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code, and the output on one line. A sweep joins the tests' Ray."""
    environment = os.environ | {"COLUMNS": "300"}
    if words[0] == "sweep":
        words = (*words, *shared_ray().one_by_one)
        environment |= shared_ray().environment
    process = allelse(*words, cwd=folder, env=environment)
    return process.returncode, " ".join((process.stdout + process.stderr).split())


def must(folder: Path, *words: str) -> str:
    code, output = run(folder, *words)
    assert code == 0, output
    return output


def refused(folder: Path, verb: str, rows: str) -> str:
    """What the verb says that refuses to add these rows to base."""
    row = rows.rpartition(",")[2]
    selection = [f"row={row}"] if verb == "train" else [f"sweep.rows=[{rows}]"]
    code, output = run(folder, verb, *STUDY, *selection, "--add")
    assert code == 2, output
    assert not (folder / f"runs/s/{row}-s1").exists()
    return output


def with_base(folder: Path, changes: dict[str, str]) -> Path:
    """The folder of a task in which base is trained."""
    write_scored(folder)
    (folder / "scored.py").write_text(edited(changes), "utf-8")
    must(folder, "train", *STUDY, "row=base")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_base(tmp_path_factory.mktemp("whole"), {})


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training ended at step 3 of 5."""
    return with_base(tmp_path_factory.mktemp("early"), ENDS_EARLY)


def result(folder: Path, trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "runs/s" / trial / "result.json").read_text())
    return content


def test_weights_of_training_that_ended_early_are_scored(early: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(early, tmp_path / "here"))
    trained = (folder / "trained").read_text()
    lines = json.loads(must(folder, "evaluate", "task=scored", "s/base", "score.beam=2", "--json"))
    must(folder, "train", *STUDY, "row=greedy", "--add")
    base = result(folder, "base-s1")
    greedy = result(folder, "greedy-s1")
    weights = 4 * base["scores"]["dev"]["score"]
    assert (greedy["step"], greedy["scores"]["dev"]["score"]) == (base["step"], weights)
    assert [line["score"] for line in lines if line["set"] == "dev"] == [weights / 2]
    must(folder, "sweep", *STUDY, "score.beam=2")
    assert result(folder, "base-s1")["step"] == 3, "base is scored again, and not trained on"
    assert result(folder, "base-s1")["scores"]["dev"]["score"] == weights / 2
    assert (folder / "trained").read_text() == trained


def test_work_that_could_not_be_kept_from_training_is_refused_before_it_starts(
    tmp_path: Path,
) -> None:
    folder = with_base(tmp_path, ENDS_EARLY | NO_KEY)
    reason = (
        "base-s1, whose training ended at step 3 of 5; the task has no key for its number of steps"
    )
    for verb in VERBS:
        assert f"scores the weights of {reason}" in refused(folder, verb, "base,greedy")
    code, output = run(folder, "evaluate", "task=scored", "s/base", "score.beam=2")
    assert code == 2, output
    assert reason in output
    assert "Traceback" not in output


def test_every_verb_refuses_steps_that_were_not_kept(whole: Path) -> None:
    for verb in VERBS:
        message = refused(whole, verb, "base,mean")
        assert (
            "mean-s1 (conf/task/scored/row/mean.yaml) would be scored over the steps 3, "
            "4 of base-s1" in message
        )
        assert "which have no checkpoint must be steps with a checkpoint: 5" in message


def test_steps_that_an_interrupted_host_has_passed_are_refused(tmp_path: Path) -> None:
    write_scored(tmp_path)
    (tmp_path / "scored.py").write_text(edited({SAVES: SAVES + DIES}), "utf-8")
    (tmp_path / "dies").touch()
    run(tmp_path, "train", *STUDY, "row=base")
    (tmp_path / "dies").unlink()
    for verb in ("plan", "sweep"):
        message = refused(tmp_path, verb, "base,mean")
        assert (
            "over the steps 3 of base-s1, which was trained past them without a checkpoint"
            in message
        )
        assert "must be steps with a checkpoint (4), or after step 4" in message
    assert "greedy" in must(tmp_path, "plan", *STUDY, "sweep.rows=[base,greedy]", "--add")


@pytest.mark.ray
def test_a_host_that_saves_no_last_state_is_the_cause_once_and_then_a_refusal(
    tmp_path: Path,
) -> None:
    write_scored(tmp_path)
    (tmp_path / "scored.py").write_text(edited(NO_END | {KEEP: "steps=()"}), "utf-8")
    code, output = run(tmp_path, "sweep", *STUDY, "sweep.rows=[base,greedy]")
    reason = "scores the weights of base-s1, which has no checkpoint of its last step, 5"
    assert code == 0, output
    assert output.count(f"greedy-s1: not scored, since it {reason}") == 1
    assert "FAILED" not in output
    assert not (tmp_path / "runs/s/greedy-s1").exists()
    for verb in VERBS:
        assert f"{reason} must be a step with a checkpoint: 3" in refused(
            tmp_path, verb, "base,greedy"
        )
