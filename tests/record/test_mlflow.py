"""What MLflow shows is what the table shows, whatever happened to the study: asked through MLflow's
own client."""

import json
import math
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient
from place import ONE, STUDY, TEN, TOY, Place
from served_commands import PROGRAM

pytestmark = pytest.mark.usefixtures("tracked")

SEEDED = TOY.replace(
    '{"score": done}', '{"score": done * (1 + trial.seed / 100) + trial.config.train.cut}'
).replace('{"train/loss": done}', '{"train/loss": done, "test/score": done}')
HEAD = "# @package _global_\nrow: {group: A, change: %s}\nmodel: {size: 2}\n"
ROWS = ("base", "size_2")


@pytest.fixture(scope="module")
def _swept(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    """Two rows with three seeds each."""
    project = Place(tmp_path_factory.mktemp("swept") / "here", database)
    project.write({"toy.py": SEEDED})
    project.must(
        "sweep",
        "task=toy",
        STUDY,
        "sweep.rows=[base,size_2]",
        "sweep.seeds=[1,2,3]",
        "tracking=local",
    )
    return project.folder


@pytest.fixture
def swept(tmp_path: Path, _swept: Path) -> Place:
    return Place(Path(shutil.copytree(_swept, tmp_path / "here")))


def opened(project: Place) -> tuple[MlflowClient, str]:
    client = MlflowClient(f"sqlite:///{project.folder}/runs/mlflow.db")
    return client, client.get_experiment_by_name("toy").experiment_id


def opened_experiments(project: Place) -> list[str]:
    """The names of the experiments, without MLflow's own."""
    experiments = MlflowClient(f"sqlite:///{project.folder}/runs/mlflow.db").search_experiments()
    return [experiment.name for experiment in experiments if experiment.name != "Default"]


def runs_of(project: Place, view: int = ViewType.ACTIVE_ONLY) -> dict[str, Any]:
    """The runs of trials by name of the trial; several of one name are a fault."""
    client, experiment = opened(project)
    runs = client.search_runs([experiment], "tags.kind = 'trial'", run_view_type=view)
    by_trial = {f"{run.data.tags['row']}-s{run.data.tags['seed']}": run for run in runs}
    assert len(by_trial) == len(runs)
    return by_trial


def latest(project: Place, run: Any, metric: str) -> float:
    """As MLflow's pages choose it: the point of the highest step."""
    history = opened(project)[0].get_metric_history(run.info.run_id, metric)
    assert len({point.step for point in history}) == len(history), (
        f"two points of {metric} at one step"
    )
    return float(max(history, key=lambda point: point.step).value)


def assert_shows_the_table(project: Place) -> None:
    """Each run has its trial's curve once, and the values, differences and marks of the table;
    status knows it."""
    assert "MLflow: up to date" in project.must("status", STUDY)
    rows = {row["row"]: row for row in json.loads(project.must("table", STUDY, "--format", "json"))}
    words = project.table("md")
    runs = runs_of(project)
    trials = json.loads((project.study / "study.json").read_text())["trials"]
    assert sorted(runs) == sorted(f"{trial['row']}-s{trial['seed']}" for trial in trials)
    deltas: dict[str, list[float]] = {}
    for trial in trials:
        name = f"{trial['row']}-s{trial['seed']}"
        run = runs[name]
        folder = project.study / name
        result = json.loads((folder / "result.json").read_text())
        metrics = run.data.metrics
        assert metrics["final/score"] == result["scores"]["test"]["score"]
        assert all(
            latest(project, run, metric) == value
            for metric, value in metrics.items()
            if not math.isnan(value)
        )
        journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
        curve = opened(project)[0].get_metric_history(run.info.run_id, "train/loss")
        assert [(point.step, point.value) for point in curve] == [
            (line["step"], line["metrics"]["train/loss"]) for line in journal
        ]
        assert run.data.tags["study.change"] == trial["change"]
        assert all(part in words for part in run.data.tags["row.score"].split(", "))
        deltas.setdefault(trial["row"], []).append(metrics["delta/score"])
    for row, values in deltas.items():
        if row != "base":
            assert mean(values) == pytest.approx(rows[row]["delta_score"])
    for name, run in runs.items():
        assert run.data.metrics["seconds"] == result_of(project, name)[1]["seconds"]


def result_of(project: Place, trial: str) -> tuple[Path, dict[str, Any]]:
    file = project.study / trial / "result.json"
    return file, json.loads(file.read_text())


def test_a_dropped_trial_leaves_mlflow_with_all_that_followed_from_it_and_comes_back(
    swept: Place,
) -> None:
    assert_shows_the_table(swept)
    old_runs = runs_of(swept)
    record = (swept.study / "study.json").read_text()
    swept.must("drop", "base-s3", STUDY, "--yes")
    assert "up to date" not in swept.must("status", STUDY)
    swept.must("sync", STUDY)
    assert_shows_the_table(swept)
    new_runs = runs_of(swept)
    assert (
        new_runs["size_2-s1"].data.metrics["delta/score"]
        != old_runs["size_2-s1"].data.metrics["delta/score"]
    )
    assert (
        new_runs["size_2-s1"].data.tags["row.score"] != old_runs["size_2-s1"].data.tags["row.score"]
    )
    dropped_run = opened(swept)[0].get_run(old_runs["base-s3"].info.run_id)
    assert (dropped_run.info.lifecycle_stage, dropped_run.data.tags["sweep.left_out"]) == (
        "deleted",
        "dropped from the study",
    )

    (trash,) = (swept.study.parent / ".trash").glob("*-toy")
    shutil.move(trash / "base-s3", swept.study / "base-s3")
    (swept.study / "study.json").write_text(record)
    assert "up to date" not in swept.must("status", STUDY)
    swept.must("sync", STUDY)
    assert_shows_the_table(swept)
    restored = runs_of(swept)
    assert {name: run.info.run_id for name, run in restored.items()} == {
        name: run.info.run_id for name, run in old_runs.items()
    }
    assert "sweep.left_out" not in restored["base-s3"].data.tags


def test_a_run_that_is_not_tracked_is_sent_by_sync(place: Place) -> None:
    output = place.train("base", "tracking=off")
    assert "MLflow: off, " in output
    assert "nothing sent yet" in place.must("status", STUDY)
    assert not opened_experiments(place)
    place.must("sync", STUDY)
    assert latest(place, runs_of(place)["base-s1"], "final/score") == 4.0


def test_a_row_that_is_trained_anew_has_its_new_curve_alone(trained: Place) -> None:
    trained.train("size_2", "--add")
    old_run_id = runs_of(trained)["size_2-s1"].info.run_id
    trained.must("drop", "size_2", STUDY, "--yes")
    trained.write({"parts/one.py": TEN})
    trained.train("size_2", "--add", "--changed-code")
    assert_shows_the_table(trained)
    run = runs_of(trained)["size_2-s1"]
    assert run.info.run_id != old_run_id
    assert run.data.metrics["final/score"] == 80.0
    trained.write({"parts/one.py": ONE})
    (trained.study / "mlflow-ledger.json").unlink()
    trained.must("sync", STUDY)
    assert runs_of(trained)["size_2-s1"].info.run_id == run.info.run_id, "the store knows, too"
    assert_shows_the_table(trained)


@pytest.mark.parametrize("change", [-3.0, 3.0])
def test_a_new_value_is_the_latest_on_any_clock(swept: Place, change: float) -> None:
    """Base is scored again by a machine whose clock went back, without any sign of that but the
    value."""
    file, content = result_of(swept, "base-s2")
    content["scores"]["test"]["score"] += change
    file.write_text(json.dumps(content))
    os.utime(file, (1_000_000_000, 1_000_000_000))
    assert "up to date" not in swept.must("status", STUDY)
    swept.must("sync", STUDY)
    assert_shows_the_table(swept)


def test_scores_of_other_settings_replace_all_differences(swept: Place) -> None:
    """Base is scored with another setting first, and synced: in between there are no
    differences."""
    for row in ROWS:
        for seed in (1, 2, 3):
            file, content = result_of(swept, f"{row}-s{seed}")
            scores = content["scores"]["test"]
            scores |= {"score": scores["score"] + 0.25, "decode": scores["decode"] | {"cut": 0.75}}
            file.write_text(json.dumps(content | {"scoring": 2}))
        swept.must("sync", STUDY)
    assert_shows_the_table(swept)
    assert not any(math.isnan(run.data.metrics["delta/score"]) for run in runs_of(swept).values())


def test_the_words_of_a_row_follow_its_file(swept: Place) -> None:
    swept.write({"conf/task/toy/row/size_2.yaml": HEAD % "twice the size"})
    swept.must("sync", STUDY)
    assert_shows_the_table(swept)
    run = runs_of(swept)["size_2-s1"]
    assert (run.data.tags["study.change"], run.info.run_name) == (
        "twice the size",
        "A twice the size s1",
    )


def test_a_param_that_mlflow_cannot_change_is_said(swept: Place) -> None:
    file = swept.study / "base-s1" / "config.yaml"
    file.write_text(file.read_text().replace("steps: 4", "steps: 5"))
    assert "base-s1: MLflow cannot change params" in swept.must("sync", STUDY)
    assert "MLflow: up to date, but MLflow cannot change params: base-s1 train.steps" in swept.must(
        "status", STUDY
    )


def test_what_was_changed_in_the_store_is_repaired(swept: Place) -> None:
    client, _ = opened(swept)
    run = runs_of(swept)["size_2-s2"].info.run_id
    client.log_metric(run, "delta/score", 99.0, step=1000)
    client.set_tag(run, "row.score", "another")
    client.log_metric(run, "final/other", 1.0)
    swept.must("sync", STUDY)
    assert_shows_the_table(swept)
    assert math.isnan(runs_of(swept)["size_2-s2"].data.metrics["final/other"])


@pytest.fixture
def page(swept: Place) -> Iterator["subprocess.Popen[str]"]:
    server = subprocess.Popen(
        [str(PROGRAM), "ui", STUDY, "--no-browser"],
        cwd=swept.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    yield server
    os.killpg(server.pid, signal.SIGINT)
    server.wait(timeout=60)


def test_the_ui_prints_an_address_that_answers(page: "subprocess.Popen[str]") -> None:
    assert page.stdout
    address = page.stdout.readline().split(": ")[1].partition("/#")[0]
    with urllib.request.urlopen(f"{address}/health", timeout=60) as answer:
        assert answer.status == 200
