"""A study's runs as MLflow's own client and users read them: columns, datasets, models, costs of
devices, rows."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from other_tasks import digits
from studies_on_disk import Store, begin, history, make_study, only_run, report, runs_of, send
from typed import refusal

from tracking.activity.runners import Runner, announce, withdraw
from tracking.attempts import own_process
from tracking.mlflow.describe import trials_compared_with
from tracking.mlflow.ledger import lag, sync_lock
from tracking.mlflow.pages import samples
from tracking.statistics.table_rows import table
from tracking.study import Study, write_study

DEVICE_COSTS = {"device_flops": 7.5e6, "mfu": 1e6 / 7.5e6}
Synced = tuple[Study, list[Any]]


def two_rows(folder: Path, store: Store) -> Synced:
    """Two rows with two seeds; the devices of the first trial are known."""
    study = digits(folder, 0.9, 0.92, 0.95, 0.95)
    for trial, costs in zip(study.trials, (DEVICE_COSTS, {}, {}, {}), strict=True):
        files = study.trial_folder(trial)
        files.write_result({**(files.result() or {}), "flops": 1e6, **costs})
        record = {"commit": "c0ffee", "samples": {"train": 5}, "data_fingerprint": "f" * 64}
        files.provenance_path.write_text(json.dumps(record), "utf-8")
    send(study)
    return study, sorted(runs_of(study, store), key=lambda run: run.data.tags["study.order"])


@pytest.fixture(scope="module")
def synced(runs: Path, store: Store) -> Synced:
    return two_rows(runs / "synced", store)


def test_user_source_and_version_are_known(synced: Synced) -> None:
    study, runs = synced
    names = ("mlflow.user", "mlflow.source.type", "mlflow.source.name", "mlflow.source.git.commit")
    for run in runs:
        tags = [run.data.tags[name] for name in names]
        assert tags == [study.folder.owner(), "LOCAL", "allelse", "c0ffee"]


def test_a_dataset_for_each_set_has_a_source_and_a_size(synced: Synced) -> None:
    (train, test) = synced[1][0].inputs.dataset_inputs
    assert [dataset_input.dataset.name for dataset_input in (train, test)] == [
        "digits/train",
        "digits/test",
    ]
    assert [json.loads(dataset_input.dataset.profile) for dataset_input in (train, test)] == [
        {"num_rows": 5},
        {"num_rows": 1},
    ]
    assert [tag.value for dataset_input in (train, test) for tag in dataset_input.tags] == [
        "training",
        "testing",
    ]
    assert mlflow.data.get_source(train).uri == "file:///d"


def test_a_difference_is_from_the_mean_over_all_seeds_of_base_and_follows_it(
    runs: Path, store: Store
) -> None:
    """Base is 0.9 and 0.92; its second seed is scored again, then dropped."""
    study, sent = two_rows(runs / "followed", store)
    assert [run.data.metrics["delta/accuracy"] for run in sent] == pytest.approx(
        [-0.01, 0.01, 0.04, 0.04]
    )
    folder = study.trial_folder(study.trials[1])
    result = folder.result() or {}
    new_scores = result["scores"] | {"test": result["scores"]["test"] | {"accuracy": 0.94}}
    folder.write_result({**result, "scores": new_scores, "scoring": 2})

    def of_wide() -> list[float]:
        send(study)
        return [
            run.data.metrics["delta/accuracy"]
            for run in runs_of(study, store)
            if run.data.tags["row"] == "wide"
        ]

    assert of_wide() == pytest.approx([0.03, 0.03])
    points = [store[0].get_metric_history(run.info.run_id, "final/accuracy") for run in sent]
    assert [len(point) for point in points] == [1, 2, 1, 1], "only a new score is another point"
    drop_request = {"ts": "2999-01-01T00:00:00Z", "command": "allelse drop", "dropped": ["base-s2"]}
    other_trials = tuple(trial for trial in study.trials if trial != study.trials[1])
    write_study(replace(study, trials=other_trials, asked=(*study.asked, drop_request)))
    assert of_wide() == pytest.approx([0.05, 0.05])


def test_costs_of_devices_are_there_only_where_their_rates_are_known(synced: Synced) -> None:
    first, *other_metrics = (run.data.metrics for run in synced[1])
    assert {name: first[name] for name in DEVICE_COSTS} == DEVICE_COSTS
    assert first["flops"] == 1e6
    assert all(
        "device_flops" not in metrics and "mfu" not in metrics and metrics["flops"] == 1e6
        for metrics in other_metrics
    )


def test_only_a_line_feed_ends_a_text_of_a_sample(tmp_path: Path) -> None:
    study = make_study(tmp_path / "texts", {"base": [1]})
    folder = study.trial_folder(study.trials[0])
    for name, text in {"hypotheses": "a1\u2028x\nb1\n", "references": "a\nb\n"}.items():
        path = folder.artifact_path(name, "dev")
        path.parent.mkdir(parents=True)
        path.write_text(text, "utf-8")
    rows = json.loads(samples(folder))["data"]
    assert rows == [["dev 001", "a1\u2028x", "a"], ["dev 002", "b1", "b"]]


def test_a_run_is_compared_with_the_row_that_the_table_compares_it_with(tmp_path: Path) -> None:
    """A row that only scores has its host as reference, unless its own one scores the same."""
    study = make_study(tmp_path / "scored", {"base": [1], "a_heads_1": [1], "c_layers_2": [1]})
    base, *scoring = study.trials
    trials = (base, *(replace(trial, weights=base.name) for trial in scoring))
    with_own = replace(study, trials=trials, references={"c_layers_2": "a_heads_1"})
    rows = {
        trial.row: [other.row for other in trials_compared_with(with_own, trial)]
        for trial in trials
    }
    assert rows == {"base": ["base"], "a_heads_1": ["base"], "c_layers_2": ["a_heads_1"]}
    assert rows == {row.row: [row.comparison.reference] for row in table(with_own)}


def test_a_study_is_not_sent_as_new_runs_while_another_process_sends_it(tmp_path: Path) -> None:
    study = make_study(tmp_path / "runs" / "sent", {"base": [1]})
    record = (study.folder / "study.json").read_text()
    with sync_lock(study.folder).acquire():
        message = refusal(tmp_path, "sync", "--again")
    assert "sent is being synced to MLflow by another process wait for it" in message
    assert (study.folder / "study.json").read_text() == record


def test_runs_in_a_shared_experiment_are_found_without_the_ledger(runs: Path, store: Store) -> None:
    """Also by a command that does not name the experiment."""
    study = make_study(runs / "shared", {"base": [1]})
    begin(study.trial_folder(study.trials[0]))
    send(study)
    (study.folder / "mlflow-ledger.json").unlink()
    send(study, experiment=None)
    client = store[0]
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    query = f"tags.`sweep.identity` = '{study.mark}' and tags.`trial.key` != ''"
    (run,) = client.search_runs(experiments, query)
    assert run.info.experiment_id == store[1]


def test_a_run_that_is_sent_again_has_each_point_once_and_one_model(
    synced: Synced, store: Store
) -> None:
    study, runs = synced
    (study.folder / "mlflow-ledger.json").unlink()
    send(study)
    client = store[0]
    for run in runs:
        (model,) = models(client, run)
        assert [
            model_output.model_id
            for model_output in client.get_run(run.info.run_id).outputs.model_outputs
        ] == [model.model_id]
        numbers = {metric.key: metric.value for metric in model.metrics}
        assert numbers["final/accuracy"] == run.data.metrics["final/accuracy"]
        assert [
            point.step for point in client.get_metric_history(run.info.run_id, "train/loss")
        ] == [10]
        assert (model.status, model.params["net.hidden"]) == ("READY", "64")
        assert not [
            file
            for file in client.list_logged_model_artifacts(model.model_id)
            if file.path != "MLmodel"
        ]


def test_rows_have_mean_deviation_and_mark_in_every_run_and_in_the_study_s(
    synced: Synced, store: Store, tmp_path: Path
) -> None:
    study, runs = synced
    words = [run.data.tags["row.accuracy"] for run in runs]
    assert words == ["0.910 ± 0.014"] * 2 + ["0.950 ± 0.000, +0.040"] * 2
    client, experiment = store
    query = f"tags.kind = 'study' AND tags.`sweep.id` = '{study.name}'"
    (study_run,) = client.search_runs([experiment], query)
    table = Path(
        client.download_artifacts(study_run.info.run_id, "table.md", str(tmp_path))
    ).read_text("utf-8")
    assert "| 0.950 ± 0.000 | +0.040 |" in table


def test_a_double_without_content_is_removed_and_a_deleted_run_made_again(
    runs: Any, store: Store
) -> None:
    study = make_study(runs / "doubled", {"base": [1]})
    folder = study.trial_folder(study.trials[0])
    attempt = begin(folder)
    report(folder, attempt, range(1, 4), checkpoints=(3,))
    send(study)
    run = only_run(study, store)
    client = store[0]
    client.create_run(
        run.info.experiment_id, 0, {"sweep.identity": study.mark, "trial.key": study.trials[0].key}
    )
    send(study)
    assert only_run(study, store).info.run_id == run.info.run_id
    client.delete_run(run.info.run_id)
    send(study)
    assert only_run(study, store).info.run_id != run.info.run_id
    assert len(history(study, store)) == 2


def models(client: Any, run: Any) -> Sequence[Any]:
    query = f"source_run_id = '{run.info.run_id}'"
    logged: Sequence[Any] = client.search_logged_models(
        [run.info.experiment_id], filter_string=query
    )
    return logged


def test_what_changes_while_a_process_runs_the_study_is_being_synced(
    runs: Path, store: Store
) -> None:
    study, _ = two_rows(runs / "running", store)
    study.trial_folder(study.trials[0]).write_error("ValueError: no")
    assert "`allelse sync` sends the rest" in lag(study, None).words()
    runner = Runner(own_process(), "allelse sweep", (), time.time(), time.time())
    announce(study.folder, runner)
    assert lag(study, None).words().startswith("being synced, last sent ")
    withdraw(study.folder, runner)
    assert "`allelse sync` sends the rest" in lag(study, None).words()
