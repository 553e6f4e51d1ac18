"""One trial for many studies: taken instead of trained, with numbers and weights of its own."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from place import TEN, TOY, Place, scores_of

SECOND = ("task=toy", "sweep.name=second", "sweep.rows=[base]")


def second(project: Place) -> Path:
    """The folder of the study that takes."""
    return project.folder / "runs" / "second"


def planned(project: Place, *words: str) -> dict[str, Any]:
    """Base as the plan of the second study has it."""
    trials = json.loads(project.must("plan", *SECOND, *words, "--json"))
    base: dict[str, Any] = {trial["row"]: trial for trial in trials}["base"]
    return base


def files_below(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def weights_in(study: Path) -> dict[str, bytes]:
    """The checkpoints of base, without the note on who owns them."""
    files = files_below(study / "base-s1" / "checkpoints")
    return {name: content for name, content in files.items() if "/step-" in name}


def source_tags(database: Path) -> list[tuple[str, str]]:
    """By experiment, the trial that a run of MLflow names as its source."""
    query = """
        SELECT experiments.name, tags.value FROM runs JOIN experiments USING (experiment_id)
        JOIN tags USING (run_uuid) WHERE tags.key = 'sweep.taken_from'
    """
    with closing(sqlite3.connect(database)) as opened:
        return list(opened.execute(query))


@pytest.mark.usefixtures("tracked")
def test_a_second_study_trains_nothing_and_outlives_the_first(trained: Place) -> None:
    project = trained
    (project.folder / "fails").write_text("it was trained")
    assert planned(project)["taken_from"] == "toy/base-s1"
    output = project.must("sweep", *SECOND)
    assert "Taken from toy, not trained: base-s1" in output
    old_table = project.must("table", "sweep.name=second", "--format", "csv")
    weights = weights_in(second(project))
    assert weights
    assert weights == weights_in(project.study)
    database = project.folder / "runs" / "mlflow.db"
    assert source_tags(database) == [("second", "toy/base-s1")]
    assert [score for _, score in scores_of(database)["second"]] == [4.0]

    project.must("rm", "toy", "--yes")
    shutil.rmtree(project.folder / "runs" / ".trash")
    assert project.must("table", "sweep.name=second", "--format", "csv") == old_table
    assert weights_in(second(project)) == weights
    project.must("sync", "sweep.name=second")
    assert [score for _, score in scores_of(database)["second"]] == [4.0]
    (project.folder / "fails").unlink()
    (second(project) / "base-s1" / "result.json").unlink()
    project.must("train", "task=toy", "sweep.name=second", "row=base")
    assert "resumed at step 4" in (second(project) / "base-s1" / "log.txt").read_text()


def test_what_is_taken_names_its_source_and_keeps_the_record_of_its_training(
    trained: Place,
) -> None:
    project = trained
    project.must("sweep", *SECOND)
    source_result, taken_result = (
        json.loads((folder / "base-s1" / "provenance.json").read_text())
        for folder in (project.study, second(project))
    )
    assert taken_result["attempts"] == source_result["attempts"]
    assert (taken_result["taken_from"]["study"], taken_result["taken_from"]["trial"]) == (
        "toy",
        "base-s1",
    )
    lines = (second(project) / "base-s1" / "attempts.jsonl").read_text().splitlines()
    assert lines[:-1] == (project.study / "base-s1" / "attempts.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["taken_from"] == taken_result["taken_from"]
    table = " ".join(project.must("table", "sweep.name=second").split())
    assert "Trained in another study, with the costs shown: base (seed 1 of toy)" in table
    assert "taken from toy" in project.must("status", "sweep.name=second")


def test_damaged_files_that_were_set_aside_are_not_taken(trained: Place) -> None:
    for name in ("journal.jsonl.damaged", "journal.jsonl.damaged-2"):
        (trained.study / "base-s1" / name).write_text("nonsense")
    trained.must("sweep", *SECOND)
    taken_files = (second(trained) / "base-s1").glob("journal*")
    assert [path.name for path in taken_files] == ["journal.jsonl"]


def cut_result(project: Place) -> None:
    path = project.study / "base-s1" / "journal.jsonl"
    path.write_text(path.read_text().replace("metrics", "metric", 1))


def lose_weights(project: Place) -> None:
    shutil.rmtree(project.study / "base-s1" / "checkpoints")


def damage_weights(project: Place) -> None:
    (manifest,) = project.study.glob("base-s1/checkpoints/*/a1/step-4/manifest.json")
    manifest.write_text(manifest.read_text().replace("4.0", "5.0"))


def begin_to_score_again(project: Place) -> None:
    """A scoring that was interrupted has left statistics of other settings."""
    result = json.loads((project.study / "base-s1" / "result.json").read_text())
    head = {name: result[name] for name in ("key", "step", "attempt")}
    head |= {"scores": result["scores"]["test"] | {"decode": {"train.cut": 0.9}}}
    project.write({"runs/toy/base-s1/statistics/test.jsonl": json.dumps(head) + "\n"})


def edit_code(project: Place) -> None:
    project.write({"parts/one.py": TEN})


def leave_alone(project: Place) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "words", "reason"),
    [
        (edit_code, (), "other code trained it"),
        (cut_result, (), "journal.jsonl:1 is damaged"),
        (begin_to_score_again, (), "it is being scored again"),
        (lose_weights, (), "its checkpoints of these steps are gone: 4"),
        (damage_weights, (), "its checkpoints of these steps are gone: 4"),
        (leave_alone, ("sweep.share=false",), ""),
        (leave_alone, ("train.steps=5",), ""),
    ],
)
def test_what_is_not_taken_is_trained_and_the_plan_says_why(
    trained: Place, change: Any, words: tuple[str, ...], reason: str
) -> None:
    assert planned(trained)["taken_from"] == "toy/base-s1"
    change(trained)
    trial = planned(trained, *words)
    assert (trial["taken_from"], trial["state"]) == (None, "missing")
    plan = " ".join(trained.must("plan", *SECOND, *words).split())
    assert (f"Not taken from toy: base-s1 ({reason}" in plan) is bool(reason)


def test_a_trial_with_other_values_of_variables_is_not_taken(place: Place) -> None:
    place.write(
        {"toy.py": TOY.replace("HERE = Path()", 'HERE = Path()\nMODE = os.environ.get("MODE")')}
    )
    place.environment["MODE"] = "fast"
    place.train("base")
    assert planned(place)["taken_from"] == "toy/base-s1"
    place.environment["MODE"] = "slow"
    assert planned(place)["taken_from"] is None


def test_weights_whose_bytes_have_changed_are_not_taken(place: Place) -> None:
    arrays = TOY.replace(
        "trial.checkpoint(step, done)", "trial.checkpoint(step, numpy.full(3, done))"
    )
    arrays = arrays.replace("trial.saved.state if", "float(trial.saved.state[0]) if")
    place.write({"toy.py": arrays.replace("import time", "import time\nimport numpy")})
    place.train("base")
    (part,) = [
        path
        for path in place.study.glob("base-s1/checkpoints/*/a1/step-4/*")
        if path.name != "manifest.json"
    ]
    part.write_bytes(part.read_bytes()[:-1] + b"!")
    (place.folder / "fails").write_text("it was trained")
    process = place.type("sweep", *SECOND)
    output = " ".join((process.stdout + process.stderr).split())
    assert "base-s1 is trained: the checkpoints of toy/base-s1 are damaged" in output
    assert "it was trained" in output


def test_a_trial_that_diverged_is_taken_as_such(place: Place) -> None:
    ending = '    trial.evaluated("test", {"score": done})\n'
    diverging = TOY.replace(ending, '    raise DivergedError("a sum without an end", 4)\n', 1)
    place.write({"toy.py": diverging.replace("import Metric", "import DivergedError, Metric")})
    place.train("base")
    assert planned(place)["taken_from"] == "toy/base-s1"
    (place.folder / "fails").write_text("it was trained")
    place.must("sweep", *SECOND)
    assert json.loads((second(place) / "base-s1" / "result.json").read_text())["diverged"] == 4


def test_weights_are_taken_and_scored_with_the_settings_of_the_second_study(trained: Place) -> None:
    project = trained
    output = project.must("sweep", *SECOND, "train.cut=0.7")
    assert "Taken from toy" in output
    result = json.loads((second(project) / "base-s1" / "result.json").read_text())
    assert result["scores"]["test"]["decode"] == {"train.cut": 0.7}
    assert (result["attempt"], result["step"]) == (2, 4)
    source_journal, taken_journal = (
        files_below(folder / "base-s1")["journal.jsonl"]
        for folder in (project.study, second(project))
    )
    assert taken_journal == source_journal
    source_result = json.loads((project.study / "base-s1" / "result.json").read_text())
    assert source_result["scores"]["test"]["decode"] == {"train.cut": 0.5}


def test_checkpoints_elsewhere_are_taken_to_a_place_of_the_second_study(
    place: Place, tmp_path: Path
) -> None:
    store = f"paths.checkpoints={tmp_path / 'store'}"
    place.train("base", store)
    place.must("sweep", *SECOND, store)
    shutil.rmtree(tmp_path / "store" / "toy")
    (second(place) / "base-s1" / "result.json").unlink()
    place.must("train", "task=toy", "sweep.name=second", "row=base", store)
    assert "resumed at step 4" in (second(place) / "base-s1" / "log.txt").read_text()


def test_a_trial_that_was_taken_can_be_taken_again_and_names_who_trained_it(trained: Place) -> None:
    trained.must("sweep", *SECOND)
    trained.must("rm", "toy", "--yes")
    trained.must("sweep", "task=toy", "sweep.name=third", "sweep.rows=[base]")
    table = " ".join(trained.must("table", "sweep.name=third").split())
    assert "base (seed 1 of toy)" in table


DYING = """
import os, signal, sys
from sweeps.running.recording import {module}
{module}.{function} = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
from sweeps.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "function"),
    [("trial_copy", "link_or_copy"), ("trial_copy", "_rename"), ("trial_copy", "_take")],
)
def test_a_sweep_that_is_killed_while_it_takes_leaves_both_studies_whole(
    trained: Place, module: str, function: str
) -> None:
    project = trained
    old_files = files_below(project.study / "base-s1")
    program = DYING.format(module=module, function=function)
    killed = subprocess.run(
        [sys.executable, "-c", program, "sweep", *SECOND],
        cwd=project.folder,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL
    assert files_below(project.study / "base-s1") == old_files
    assert not (second(project) / "base-s1").exists()
    assert "0 of 1 finished" in project.must("status", "sweep.name=second")
    project.must("sweep", *SECOND)
    assert files_below(project.study / "base-s1") == old_files
    assert weights_in(second(project)) == weights_in(project.study)
    assert not [*second(project).glob(".taking*")]
    assert (project.study / "study.json").exists()
