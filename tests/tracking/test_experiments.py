"""Which MLflow experiment a study goes to."""

from pathlib import Path

import pytest
from studies_on_disk import Store, begin

from tracking.experiments import FORMER_DEFAULT
from tracking.mlflow_tracker import MlflowTracker, open_tracker
from tracking.replay import Replay
from tracking.study import Study


def experiment(tracker: MlflowTracker) -> str:
    return str(tracker.client.get_experiment(tracker.experiment_id).name)


def synced_to(study: Study, runs: Path, name: str) -> None:
    begin(study.trial_folder(study.trials[0]))
    assert Replay(study.folder, *open_tracker(None, runs, name)).once().problems == ()


@pytest.mark.usefixtures("store")
def test_a_study_has_an_experiment_of_its_own(study: Study, runs: Path) -> None:
    first, _ = open_tracker(None, runs, None, study.folder)
    again, _ = open_tracker(None, runs, None, study.folder)
    assert experiment(first) == study.name
    assert again.experiment_id == first.experiment_id


@pytest.mark.usefixtures("store")
def test_existing_runs_stay_where_they_are(study: Study, runs: Path) -> None:
    synced_to(study, runs, "chosen by a person")
    assert experiment(open_tracker(None, runs, None, study.folder)[0]) == "chosen by a person"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("damage", [None, "{", ""])
def test_runs_in_the_former_default_are_found_without_the_ledger(study: Study, runs: Path, damage: str | None) -> None:
    synced_to(study, runs, FORMER_DEFAULT)
    ledger = study.folder / "mlflow-runs.json"
    ledger.unlink()
    if damage is not None:
        ledger.write_text(damage)
    assert experiment(open_tracker(None, runs, None, study.folder)[0]) == FORMER_DEFAULT


def test_a_study_whose_runs_were_deleted_gets_its_own_experiment(study: Study, runs: Path, store: Store) -> None:
    synced_to(study, runs, "given up")
    tracker, _ = open_tracker(None, runs, None, study.folder)
    for run in tracker.client.search_runs([tracker.experiment_id]):
        tracker.client.delete_run(run.info.run_id)
    assert experiment(open_tracker(None, runs, None, study.folder)[0]) == study.name
    tracker.client.delete_experiment(store[0].client.get_experiment_by_name(study.name).experiment_id)
    with pytest.raises(ValueError, match="is deleted"):
        open_tracker(None, runs, None, study.folder)
