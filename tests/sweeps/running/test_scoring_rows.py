"""Rows that only score, as a sweep runs them: real Ray, real MLflow, a process that is really
killed."""

import json
import os
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from joined_ray import JoinedRay
from scored_task import write_scored
from studies import Running, allelse, wait_until

from tracking.study import read_study

SWEEP = (
    "sweep",
    "task=scored",
    "sweep.name=s",
    "sweep.vary={score.beam: [1, 8]}",
    "sweep.seeds=[1,2]",
)
Run = Callable[..., tuple[int, str]]
"""Of a command in a folder: its exit code, and all that it printed."""
pytestmark = [pytest.mark.ray]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """A folder with the task and an empty database."""
    folder = write_scored(tmp_path_factory.mktemp("store"))
    (folder / "runs").mkdir()
    shutil.copy(database, folder / "runs/mlflow.db")
    return folder


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, store: Path, run: Run) -> Path:
    folder = Path(shutil.copytree(store, tmp_path_factory.mktemp("swept") / "here"))
    outcome = run(folder, *SWEEP)
    assert outcome[0] == 0, outcome[1]
    return folder


@pytest.fixture
def fresh(tmp_path: Path, store: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "here"))


@pytest.fixture(scope="module")
def run(joined_ray: JoinedRay) -> Run:
    """Runs a command; a sweep joins the tests' Ray."""

    def typed(folder: Path, *words: str) -> tuple[int, str]:
        joined = (*words, *joined_ray.one_by_one) if words[0] == "sweep" else words
        environment = os.environ | joined_ray.environment | {"COLUMNS": "200"}
        process = allelse(*joined, cwd=folder, env=environment)
        return process.returncode, process.stdout + process.stderr

    return typed


def scores(folder: Path) -> dict[str, object]:
    """What result.json holds of every trial, without what differs from training to training."""
    by_trial: dict[str, object] = {}
    for path in sorted((folder / "runs/s").glob("*/result.json")):
        result = json.loads(path.read_text())
        by_trial[path.parent.name] = (
            result["key"],
            result["step"],
            result["flops"],
            result["scores"],
        )
    return by_trial


def trained_steps(folder: Path) -> list[str]:
    return (folder / "trained").read_text().splitlines()


def test_two_trials_train_and_six_are_scored(swept: Path) -> None:
    assert len(scores(swept)) == 6
    assert sorted(trained_steps(swept)) == sorted(
        f"{seed} {step}" for seed in (1, 2) for step in range(1, 6)
    )
    study = read_study(swept / "runs/s")
    for trial in study.trials:
        folder = study.trial_folder(trial)
        config = folder.config() or {}
        result = folder.finished_result(trial.key) or {}
        assert (
            config.get("weights", "")
            == trial.weights
            == ("" if trial.row == "base" else f"base-s{trial.seed}")
        )
        has_checkpoints = any(folder.path.glob("checkpoints/*/a*"))
        assert has_checkpoints == (trial.row == "base")
        base = study.trial_folder(study.trials[trial.seed - 1]).result() or {}
        beam = {"base": 4, "beam_1": 1, "beam_8": 8}[trial.row]
        assert result["scores"]["dev"]["score"] * beam == pytest.approx(
            base["scores"]["dev"]["score"] * 4
        )
        assert (
            result["flops"] is None
            if trial.row == "base"
            else result["seconds"] == result["flops"] == 0.0
        )


def runs_of_trials(folder: Path, study: str) -> list[dict[str, str]]:
    """What MLflow has of each trial of the study: its state, and tags."""
    query = """
        SELECT run_uuid, status, tags.key, tags.value
        FROM runs JOIN experiments USING (experiment_id) JOIN tags USING (run_uuid)
        WHERE experiments.name = ? AND runs.lifecycle_stage = 'active'
        AND tags.key IN ('kind', 'trial.key', 'weights')
    """
    runs: dict[str, dict[str, str]] = {}
    with closing(sqlite3.connect(folder / "runs/mlflow.db")) as opened:
        for run_id, status, key, value in opened.execute(query, [study]):
            runs.setdefault(run_id, {"status": status})[key] = value
    trials = [tags for tags in runs.values() if tags.get("kind") == "trial"]
    return sorted(trials, key=lambda tags: tags["trial.key"])


def test_mlflow_has_a_run_of_each_with_its_weights(swept: Path) -> None:
    trials = runs_of_trials(swept, "s")
    assert len(trials) == len({tags["trial.key"] for tags in trials}) == 6
    weights = sorted(tags["weights"] for tags in trials if "weights" in tags)
    assert weights == [f"base-s{seed}" for seed in (1, 1, 2, 2)]


def test_a_killed_sweep_ends_with_the_same_files(
    swept: Path, fresh: Path, run: Run, joined_ray: JoinedRay
) -> None:
    (fresh / "holds").touch()
    environment = os.environ | joined_ray.environment | {"COLUMNS": "200"}
    trial = fresh / "runs/s/beam_8-s1"
    running = Running.start(*SWEEP, *joined_ray.one_by_one, cwd=fresh, trial=trial, env=environment)
    wait_until(lambda: (fresh / "held").exists() or running.ended(), "a trial that is being scored")
    assert not running.ended(), running.process.communicate()[0]
    os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait()
    assert 0 < len(scores(fresh)) < 6
    (fresh / "holds").unlink()
    code, output = run(fresh, *SWEEP)
    assert code == 0, output
    assert scores(fresh) == scores(swept)
    assert {path.name for path in (fresh / "runs/s").iterdir()} == {
        path.name for path in (swept / "runs/s").iterdir()
    }
    assert runs_of_trials(fresh, "s") == runs_of_trials(swept, "s"), (
        "MLflow has no run twice, and none is open"
    )


def test_other_settings_score_again_without_a_step_of_training(
    swept: Path, tmp_path: Path, run: Run
) -> None:
    folder = Path(shutil.copytree(swept, tmp_path / "here"))
    scores_before = scores(folder)
    steps = trained_steps(folder)
    code, output = run(folder, *SWEEP[:3], "score.beam=2")
    assert code == 0, output
    scores_after = scores(folder)
    assert {name for name in scores_after if scores_after[name] != scores_before[name]} == {
        "base-s1",
        "base-s2",
    }
    assert trained_steps(folder) == steps
    code, output = run(folder, *SWEEP[:3], "sweep.rows=[mean]", "--add")
    assert code == 2
    assert "would be scored over the steps 3, 4 of base-s1, which have no checkpoint" in " ".join(
        output.split()
    )
    assert "must be steps with a checkpoint: 5" in " ".join(output.split())


def test_a_row_has_the_scores_that_evaluate_gives_its_weights(
    swept: Path, tmp_path: Path, run: Run
) -> None:
    folder = Path(shutil.copytree(swept, tmp_path / "here"))
    words = ("evaluate", "task=scored", "base", "score.beam=1,8", "sweep.name=s", "--json")
    process = allelse(*words, cwd=folder)
    assert process.returncode == 0, process.stderr
    lines = json.loads(process.stdout)
    evaluated = {
        (line["trial"], line["set"], line["decode"]["score.beam"]): line["score"] for line in lines
    }
    assert len(evaluated) == len(lines) == 8
    for (trial, set_name, beam), value in evaluated.items():
        row = trial.replace("s/base", f"beam_{beam}")
        result = json.loads((folder / "runs/s" / row / "result.json").read_text())
        assert result["scores"][set_name]["score"] == value, "to the last digit"
    assert scores(folder) == scores(swept), "the trials keep their own results"
    table = json.loads(allelse("table", "sweep.name=s", "--format", "json", cwd=folder).stdout)
    table_scores = {
        row["row"]: list(row["seed_values"]["score"].values())
        for row in table
        if row["row"] != "base"
    }
    expected = {}
    for beam in (1, 8):
        expected[f"beam_{beam}"] = [evaluated[f"s/base-s{seed}", "dev", beam] for seed in (1, 2)]
    assert table_scores == expected
    test_lines = json.loads(allelse(*words, "--set", "test", cwd=folder).stdout)
    assert [line["now"] for line in test_lines] == [False] * 4
    code, output = run(folder, *words, "--set", "tset")
    assert (code, "must be one of dev, test did you mean test?" in " ".join(output.split())) == (
        2,
        True,
    ), output


def test_weights_that_rows_score_cannot_be_dropped(swept: Path, run: Run) -> None:
    code, output = run(swept, "drop", "base-s1", "sweep.name=s")
    assert (code, "beam_1-s1, beam_8-s1 score" in " ".join(output.split())) == (2, True), output


@pytest.mark.parametrize(
    ("fault", "word", "code"), [("fails", "failed", 1), ("diverges", "diverged", 0)]
)
def test_a_row_without_weights_says_so_and_is_no_failure_of_its_own(
    fresh: Path, fault: str, word: str, code: int, run: Run
) -> None:
    (fresh / fault).touch()
    returned, output = run(fresh, *SWEEP[:4], "sweep.seeds=[1]")
    assert returned == code, output
    assert re.search(r"(\d+) FAILED", output) is None if code == 0 else "1 FAILED" in output
    assert "beam_8-s1: not scored, since base-s1 has no weights to score" in output
    status = json.loads(run(fresh, "status", "sweep.name=s", "--json")[1])
    notes = {line["row"]: line["note"] for line in status}
    assert notes["beam_1"] == f"base-s1 {word}"
    assert f"base-s1 {word}" in run(fresh, "table", "sweep.name=s")[1]


def test_rows_score_weights_that_were_trained_for_another_study(
    swept: Path, tmp_path: Path, run: Run
) -> None:
    folder = Path(shutil.copytree(swept, tmp_path / "here"))
    steps = trained_steps(swept)

    def typed(*words: str) -> str:
        code, output = run(folder, *words)
        assert code == 0, output
        return output

    second = (
        "task=scored",
        "sweep.name=second",
        "sweep.vary={score.beam: [2]}",
        "sweep.seeds=[1,2]",
    )
    planned = json.loads(typed("plan", *second, "--json"))
    sources = {trial["row"]: trial["taken_from"] for trial in planned if trial["seed"] == 1}
    assert sources == {"base": "s/base-s1", "beam_2": None}
    typed("sweep", *second)
    table_before = typed("table", "sweep.name=second", "--format", "csv")
    runs = runs_of_trials(folder, "second")
    assert len(runs) == 4
    typed("rm", "s", "--yes")
    shutil.rmtree(folder / "runs/.trash")
    assert typed("table", "sweep.name=second", "--format", "csv") == table_before
    assert runs_of_trials(folder, "second") == runs
    typed("sync", "sweep.name=second")
    assert runs_of_trials(folder, "second") == runs
    typed("sweep", *second[:2], "sweep.vary={score.beam: [2, 3]}", "--add")
    assert trained_steps(folder) == steps, "the new row scores the weights that were taken"
