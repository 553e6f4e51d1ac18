"""The tracker's verbs on an MLflow store. Only opening a store imports MLflow: that takes three seconds."""

import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, TypeVar

from filelock import FileLock

from tracking.experiments import experiment_of_run, experiment_of_study, named_experiment
from tracking.local_store import follow_move
from tracking.stores import artifacts_of, connect_once, without_new_folder
from tracking.tracker import MOST_POINTS, Dataset, Point, RunSpec, Status
from tracking.uri import default_uri

NEW = ".mlflow-new-"
LOCK_S = 60.0  # how long another study may take to open its store
Item = TypeVar("Item")
MLFLOW_ENV = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a repeated creation is a second run; we retry ourselves and report it
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds
    "PGCONNECT_TIMEOUT": "5",  # seconds until PostgreSQL has accepted a connection
}


class MlflowTracker:
    """The tracker's verbs on an MLflow store. Raises what MLflow raises; keeps no global state."""

    def __init__(self, client: Any, experiment_id: str) -> None:
        self.client, self.experiment_id = client, experiment_id

    def find_run(self, spec: RunSpec, known: str | None) -> str | None:
        if known is not None and experiment_of_run(self.client, known):
            return known
        found = self._alike(spec)
        with_points = [run for run in found if run.data.metrics]
        return next((str(run.info.run_id) for run in [*with_points, *found]), None)

    def create_run(self, spec: RunSpec) -> str:
        return str(self.client.create_run(self.experiment_id, spec.start_ms, spec.tags, spec.name).info.run_id)

    def remove_doubles(self, spec: RunSpec, kept: str) -> None:
        for run in self._alike(spec):
            if run.info.run_id != kept and not (run.data.metrics or run.data.params):
                self.client.delete_run(run.info.run_id)

    def _alike(self, spec: RunSpec) -> list[Any]:
        """The runs with the tags of `spec`, the oldest first."""
        wanted = " and ".join(f"tags.`{name}` = '{spec.tags[name]}'" for name in spec.found_by)
        order = ["attributes.start_time ASC", "attributes.run_id ASC"]
        return list(self.client.search_runs([self.experiment_id], wanted, order_by=order))

    def log_params(self, run_id: str, params: dict[str, str]) -> None:
        from mlflow.entities import Param

        has = self.client.get_run(run_id).data.params
        new = [Param(name, value) for name, value in params.items() if name not in has]
        for some in _batches(new, 100):
            self.client.log_batch(run_id, params=some)

    def set_tags(self, run_id: str, tags: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        for some in _batches(list(tags.items()), 100):
            self.client.log_batch(run_id, tags=[RunTag(name, value) for name, value in some])

    def log_points(self, run_id: str, points: list[Point]) -> None:
        from mlflow.entities import Metric

        for some in _batches(points, MOST_POINTS):
            metrics = [Metric(point.name, point.value, point.ts_ms, point.step) for point in some]
            self.client.log_batch(run_id, metrics=metrics)

    def log_dataset(self, run_id: str, dataset: Dataset) -> None:
        from mlflow.entities import Dataset as MlflowDataset
        from mlflow.entities import DatasetInput, InputTag

        entity = MlflowDataset(dataset.name, dataset.digest, "ablate", dataset.source)
        self.client.log_inputs(run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])

    def log_files(self, run_id: str, files: Mapping[str, bytes]) -> None:
        with TemporaryDirectory() as place:
            for path, content in files.items():
                file = Path(place) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            self.client.log_artifacts(run_id, place)

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        if status == "RUNNING":
            self.client.update_run(run_id, status)
        else:
            self.client.set_terminated(run_id, status, end_ms)

    def experiment_name(self) -> str:
        return str(self.client.get_experiment(self.experiment_id).name)

    def set_experiment_tags(self, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self.client.set_experiment_tag(self.experiment_id, name, value)


def open_tracker(
    uri: str | None, runs: Path, experiment: str | None, study: Path | None = None
) -> tuple[MlflowTracker, str]:
    """The tracker and its address. `uri` None means the default store below `runs`.

    `experiment` None means the experiment of `study`. A lock keeps the sweeps of several studies from creating the same
    store or experiment at once. Raises what MLflow raises, and filelock's Timeout.
    """
    silence()
    where = uri or default_uri(runs)
    artifacts = artifacts_of(where, runs)
    with FileLock(runs / ".mlflow.lock", timeout=LOCK_S):
        if where == default_uri(runs):
            follow_move(runs)
            _create(runs)
        client = connected(where)
        if experiment is not None:
            return MlflowTracker(client, named_experiment(client, experiment, artifacts)), where
        assert study is not None
        return MlflowTracker(client, experiment_of_study(client, study, where, artifacts)), where


def _create(runs: Path) -> None:
    """Create the default store whole or not at all: MLflow cannot resume migrations that were cut short.

    Each try has a folder of its own, since MLflow keeps its connection to an address open.
    """
    if (runs / "mlflow.db").exists():
        return
    for cut in runs.glob(f"{NEW}*"):
        shutil.rmtree(cut, ignore_errors=True)
    new = Path(mkdtemp(prefix=NEW, dir=runs))
    connected(default_uri(new)).search_experiments(max_results=1)
    (new / "mlflow.db").replace(runs / "mlflow.db")
    shutil.rmtree(new)


def connected(where: str) -> Any:
    """A client. Raises the driver's error if a networked database is out of reach; one that hangs is waited for."""
    from mlflow.tracking import MlflowClient

    address = without_new_folder(where)
    connect_once(address)
    return MlflowClient(tracking_uri=address, registry_uri=address)


def silence() -> None:
    """Keep log lines of MLflow and its database layer off the terminal, and telemetry off the network.

    Both log an error with its traceback before they raise it; we report its cause once.
    """
    for name, value in MLFLOW_ENV.items():
        os.environ.setdefault(name, value)
    for name in ("alembic", "mlflow", "sqlalchemy", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
