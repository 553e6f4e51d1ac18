"""Metrics may have any printable name: every output keeps it, and MLflow gets one that it takes."""

import csv
import json

import pytest
from mlflow.tracking import MlflowClient
from place import FILES, STUDY, TOY, Place

import allelse

pytestmark = pytest.mark.usefixtures("tracked")

NAMES = (
    *(
        "top-5",
        "acc.top1",
        "class",
        "1st",
        "lambda",
        "val/AR@100",
        "mAP@0.5",
        "a,b",
        "top-1 (%)",
        "λ=0.1",
        "a//b",
    ),
    *(
        "a/b",
        "a_b",
        "../up",
        "/root",
        "trailing/",
        "quote's",
        'a "b" \\ c',
        "$x^2$",
        "<b>",
        "100%",
        "x" * 300,
    ),
)
METRICS = 'metrics = (Metric("score", set="test"),)'
HARD = (
    TOY.replace("from sweeps.task import Metric", "import names\nfrom sweeps.task import Metric")
    .replace('{"score": done}', "{name: done + place for place, name in enumerate(names.NAMES)}")
    .replace(
        '{"train/loss": done}',
        '{"train/loss": done, names.CURVE: done, f"test/{names.CURVE}": done}',
    )
    .replace(METRICS, 'metrics = tuple(Metric(name, set="test") for name in names.NAMES)')
)
MODULE = f"NAMES = {NAMES!r}\nCURVE = 'mAP@0.5'\n"


@pytest.fixture
def hard(place: Place) -> Place:
    """A task whose metrics have every name; its row states published values for two of them."""
    published = "row: {group: A, change: size 2, published: {top-5: 3, 'a,b': 4.5}}"
    row = FILES["conf/task/toy/row/size_2.yaml"].replace(
        "row: {group: A, change: size 2}", published
    )
    place.write({"toy.py": HARD, "names.py": MODULE, "conf/task/toy/row/size_2.yaml": row})
    place.must("plan", "task=toy", STUDY)
    place.train("base")
    place.train("size_2", "--add")
    return place


def test_every_output_has_a_metric_of_any_name_and_mlflow_a_name_for_it(hard: Place) -> None:
    rows = json.loads(hard.must("table", STUDY, "--format", "json"))
    wide = next(row for row in rows if row["row"] == "size_2")
    assert [wide[name] for name in NAMES] == [8.0 + index for index in range(len(NAMES))]
    assert [wide[f"delta_{name}"] for name in NAMES] == [4.0] * len(NAMES)
    assert (wide["paper_top-5"], wide["paper_a,b"]) == (3, 4.5)
    (head, *_) = csv.reader(hard.must("table", STUDY, "--format", "csv").splitlines())
    assert set(NAMES) <= set(head)
    for words in (
        ("table", STUDY),
        ("table", STUDY, "--format", "tex"),
        ("table", STUDY, "--format", "md"),
    ):
        assert "mAP@0.5" in hard.must(*words)
    for name in NAMES:
        table_rows = json.loads(hard.must("table", STUDY, f"--metric={name}", "--format", "json"))
        assert [row[f"delta_{name}"] for row in table_rows] == [0.0, 4.0]
    hard.must("compare", "base", "size_2", STUDY, "--metric", "a,b")
    hard.must("status", STUDY, "--curves", "--metric", "mAP@0.5")
    hard.must("report", STUDY)
    frames = allelse.load(hard.study)
    assert set(NAMES) <= {*frames.trials.columns, *frames.scores["metric"].unique()}
    assert "mAP@0.5" in set(frames.curves["metric"])

    client = MlflowClient(f"sqlite:///{hard.folder}/runs/mlflow.db")
    (experiment,) = (entry for entry in client.search_experiments() if entry.name == "toy")
    (run,) = client.search_runs([experiment.experiment_id], "tags.row = 'size_2'")
    names_there = {name: name for name in NAMES}
    names_there |= {
        value: tag.removeprefix("name.")
        for tag, value in run.data.tags.items()
        if tag.startswith("name.")
    }
    assert len(set(names_there.values())) == len(names_there), "two names never become one"
    assert names_there["top-5"] == "top-5", "a name that MLflow takes stays"
    final_metrics = {name: run.data.metrics[f"final/{names_there[name]}"] for name in NAMES}
    assert final_metrics == {name: wide[name] for name in NAMES}
    assert {run.data.metrics[f"delta/{names_there[name]}"] for name in NAMES} == {4.0}
    curve = client.get_metric_history(run.info.run_id, f"val/{names_there['mAP@0.5']}")
    assert [(point.step, point.value) for point in curve] == [
        (1, 2.0),
        (2, 4.0),
        (3, 6.0),
        (4, 8.0),
    ]
    assert "MLflow: up to date" in hard.must("status", STUDY)


def test_names_that_mlflow_refuses_are_said_once(place: Place) -> None:
    place.write({"toy.py": TOY.replace('"train/loss"', '"train/loss@1"')})
    output = place.train("base")
    assert "train/loss@1 is train/loss_1-" in output
    assert "train/loss@1" not in place.train("size_2", "--add")


def test_a_curve_that_is_called_like_a_number_of_the_whole_trial_stays_a_curve(
    place: Place,
) -> None:
    curves = {
        "best/acc": "best_acc-",
        "final/loss": "final_loss-",
        "delta/x@1": "delta_x_1-",
        "/last/x": "last_x-",
        "seconds": "seconds-",
        "val/score": "val/score-",
    }
    reported = ", ".join(f'"{name}": done' for name in curves)
    place.write({"toy.py": TOY.replace('{"train/loss": done}', f"{{{reported}}}")})
    place.train("base")
    (place.study / "mlflow-ledger.json").unlink()
    place.must("sync", STUDY)
    client = MlflowClient(f"sqlite:///{place.folder}/runs/mlflow.db")
    (experiment,) = (entry for entry in client.search_experiments() if entry.name == "toy")
    (run,) = client.search_runs([experiment.experiment_id], "tags.row = 'base'")
    tags = {
        name: tag.removeprefix("name.")
        for tag, name in run.data.tags.items()
        if tag.startswith("name.")
    }
    for name, begin in curves.items():
        assert tags[name].startswith(begin)
        points = client.get_metric_history(run.info.run_id, tags[name])
        assert [(point.step, point.value) for point in points] == [
            (step, float(step)) for step in range(1, 5)
        ]
