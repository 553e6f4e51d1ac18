"""An MLflow store: an experiment, the default database `<paths.runs>/mlflow.db`, and the models
registered there.

Only connecting imports MLflow: that takes three seconds. Every verb may be repeated without
changing anything: it compares with what the run has, and sends what differs. MLflow's client splits
what is too much for one request.

MLflow connects to a database ten times in a row, for 100 seconds, and keeps the artifacts of an
experiment in the current folder unless it is given another place. It takes SQLite's own form of
address for a path, and makes its folder.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal

from filelock import FileLock

from tracking.error_causes import cause_of
from tracking.mlflow.database import follow_move, without_new_folder
from tracking.mlflow.ledger import IDENTITY, STUDY, study_run
from tracking.mlflow.runs import LEFT_OUT, Point, StoredRun
from tracking.study import read_study
from tracking.uri import artifact_folder, default_uri

Status = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]
MOST_FOUND = 50_000  # MLflow's limit per search
SHORT = 6  # characters of an identity that follow the name of a second study's experiment
CONTEXT = "mlflow.data.context"  # the tag that says what a run used a dataset for
LOCK_S = 60.0  # how long another study may take to open its store
MLFLOW_ENV = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a repeated creation is a second run; we retry ourselves and report it
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds
    "PGCONNECT_TIMEOUT": "5",  # seconds until PostgreSQL has accepted a connection
}
NEW = ".mlflow-new-"
NETWORKED = ("postgresql", "mysql", "mssql")  # databases that MLflow writes to directly


class Store:
    """Raises what MLflow raises; keeps no global state."""

    def __init__(self, client: Any, experiment_id: str) -> None:
        self.client = client
        self.experiment_id = experiment_id
        self._senders: dict[str, Callable[[str, str, Any], int | None]] = {
            "params": self._params,
            "tags": self._tags,
            "numbers": self._numbers,
            "datasets": self._datasets,
            "model": self._model,
            "view": self._view,
            "file": lambda run_id, path, text: self.client.log_text(run_id, text, path),
        }

    def runs(self, identity: str) -> dict[str, list[StoredRun]]:
        """The study's runs by trial key, its own by ``STUDY``, the oldest first: found by the
        study's identity.

        The answer to a creation may get lost, or come too late. So a trial may have two runs.
        Deleted runs are there too, since a trial that was dropped may come back.
        """
        from mlflow.entities import ViewType

        wanted = f"tags.`{IDENTITY}` = {quoted(identity)}"
        order = ["attributes.start_time", "attributes.run_id"]
        every = self.client.search_runs(
            [self.experiment_id],
            wanted,
            run_view_type=ViewType.ALL,
            max_results=MOST_FOUND,
            order_by=order,
        )
        runs: dict[str, list[StoredRun]] = {}
        for run in every:
            tags = run.data.tags
            if key := tags.get("trial.key") or (STUDY if tags.get("kind") == STUDY else None):
                runs.setdefault(key, []).append(_stored(run))
        return runs

    def stored(self, run_id: str) -> StoredRun:
        """What this run holds now."""
        return _stored(self.client.get_run(run_id))

    def leave_out(self, run: StoredRun, why: str) -> None:
        """Delete a run that is no longer the study's, as MLflow deletes: it can be taken back.

        An empty double is deleted without a mark, and stays so.
        """
        if not run.is_empty:
            self.client.set_tag(run.id, LEFT_OUT, why)
            if model := model_of(self.client, self.experiment_id, run.id):
                self.client.set_logged_model_tags(model.model_id, {LEFT_OUT: why})
        self.client.delete_run(run.id)

    def take_back(self, run: StoredRun) -> None:
        """The reverse of ``leave_out``."""
        self.client.restore_run(run.id)
        if model := model_of(self.client, self.experiment_id, run.id):
            self.client.delete_logged_model_tag(model.model_id, LEFT_OUT)
        self.client.delete_tag(run.id, LEFT_OUT)

    def create(self, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """A new run, in any case."""
        return str(
            self.client.create_run(self.experiment_id, start_ms, dict(tags), name).info.run_id
        )

    def send(self, run_id: str, part: str, content: Any) -> int:
        """Send one part of a run, such as `tags` or `file config.yaml`; returns how many points it
        had."""
        what, _, name = part.partition(" ")
        if not content and what != "numbers":  # without any, those of the run are no longer valid
            return 0
        return self._senders[what](run_id, name, content) or 0

    def log_points(self, run_id: str, points: Sequence[Point], model_id: str | None = None) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(point.name, point.value, point.ts_ms, point.step, model_id=model_id)
            for point in points
        ]
        self.client.log_batch(run_id, metrics)

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        """Set the status and, unless it is RUNNING, the end."""
        if status == "RUNNING":
            self.client.update_run(run_id, status)
        else:
            self.client.set_terminated(run_id, status, end_ms)

    @property
    def owner(self) -> str:
        """The identity of the study that has this experiment for itself; "" if several may share
        it."""
        return str(self.client.get_experiment(self.experiment_id).tags.get(IDENTITY, ""))

    def _params(self, run_id: str, _: str, params: Mapping[str, str]) -> None:
        """Those that the run lacks; existing ones are immutable."""
        from mlflow.entities import Param

        has = self.stored(run_id).params
        new = [Param(name, value) for name, value in params.items() if name not in has]
        self.client.log_batch(run_id, params=new)

    def _tags(self, run_id: str, _: str, tags: Mapping[str, str]) -> None:
        """An empty tag is removed."""
        from mlflow.entities import RunTag

        self.client.log_batch(
            run_id, tags=[RunTag(name, value) for name, value in tags.items() if value]
        )
        empty = {name for name, value in tags.items() if not value}
        for name in empty & self.client.get_run(run_id).data.tags.keys() if empty else ():
            self.client.delete_tag(run_id, name)

    def _numbers(self, run_id: str, _: str, points: Sequence[Point]) -> int:
        """What makes the run's newest values equal to these."""
        missing = self.stored(run_id).missing_numbers(points)
        self.log_points(run_id, missing)
        return len(missing)

    def _datasets(self, run_id: str, _: str, datasets: Sequence[Mapping[str, str]]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        about = [
            ({name: dataset[name] for name in dataset if name != "context"}, dataset["context"])
            for dataset in datasets
        ]
        inputs = [
            DatasetInput(Dataset(**of), [InputTag(CONTEXT, context)]) for of, context in about
        ]
        self.client.log_inputs(run_id, inputs)

    def _model(self, run_id: str, _: str, model: Mapping[str, Any]) -> None:
        """The run's external model: its numbers alone, since the checkpoints stay where they
        are."""
        from mlflow.entities import LoggedModelOutput

        about = {name: model[name] for name in ("name", "model_type", "params")}
        found = model_of(
            self.client, self.experiment_id, run_id
        ) or self.client.create_logged_model(self.experiment_id, source_run_id=run_id, **about)
        self.client.set_logged_model_tags(
            found.model_id, {"mlflow.model.isExternal": "true", **model["tags"]}
        )
        self.client.finalize_logged_model(found.model_id, "READY")
        of_model = _latest(found.metrics or ())
        of_run = self.stored(run_id).latest
        # each as the run has it, since MLflow gives a model's point to its run, too
        shared = [of_run[point.name] for point in model["points"] if point.name in of_run]
        points = [point for point in shared if of_model.get(point.name) != point]
        if not points:
            return
        outputs = self.client.get_run(run_id).outputs
        if found.model_id not in [
            each.model_id for each in (outputs.model_outputs if outputs else [])
        ]:
            self.client.log_outputs(
                run_id, [LoggedModelOutput(found.model_id, max(point.step for point in points))]
            )
        self.log_points(run_id, points, found.model_id)

    def _view(self, _run: str, _name: str, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self.client.set_experiment_tag(self.experiment_id, name, value)


def _stored(run: Any) -> StoredRun:
    """As MLflow's client returns it."""
    data = run.data
    latest = _latest(
        data._metric_objs
    )  # MLflow 3.17.2: `metrics` has the values without their steps
    return StoredRun(
        run.info.run_id, run.info.lifecycle_stage == "active", data.tags, data.params, latest
    )


def _latest(metrics: Iterable[Any]) -> dict[str, Point]:
    """The newest point by name: that of the highest step, as MLflow decides."""
    points = [Point(metric.key, metric.value, metric.timestamp, metric.step) for metric in metrics]
    return {
        point.name: point for point in sorted(points, key=lambda point: (point.step, point.ts_ms))
    }


def open_store(study: Path, uri: str, experiment: str | None) -> Store:
    """The store at ``uri`` for the study of this folder; the default store is made if it is
    missing.

    The experiment is that of the study's runs, or else the one named ``experiment`` or like the
    study. A lock keeps the sweeps of several studies from creating the same store or experiment at
    once. Raises what MLflow raises, and filelock's Timeout.
    """
    silence()
    runs = study.parent
    with FileLock(runs / ".mlflow.lock", timeout=LOCK_S):
        if uri == default_uri(runs):
            follow_move(runs)
            create(runs)
        client = connected(uri)
        sent = study_run(study, uri)
        mark = read_study(study).mark if experiment in (None, study.name) else ""
        named = experiment or study.name
        return Store(
            client,
            _experiment(client, sent.run if sent else None, named, mark, artifacts_of(uri, runs)),
        )


def _experiment(client: Any, run: str | None, name: str, mark: str, artifacts: str | None) -> str:
    """The id of the experiment with this run, or else of the one with this name, made if missing.

    ``mark`` is the study that has it for itself; one of another study is left to that. `artifacts`:
    where a new experiment keeps its artifacts; None leaves the choice to the server. Raises
    ValueError if that one is deleted.
    """
    known = _experiment_with(client, run) if run else None
    if known is not None and (not mark or known.tags.get(IDENTITY, mark) == mark):
        return str(known.experiment_id)
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage != "active":
        raise ValueError(
            f"MLflow experiment {name!r} is deleted; restore it or choose another name"
        )
    if found is not None and mark and found.tags.get(IDENTITY, mark) != mark:
        return _experiment(client, None, f"{name} {mark[:SHORT]}", mark, artifacts)
    if found is not None:
        if mark:
            client.set_experiment_tag(found.experiment_id, IDENTITY, mark)
        return str(found.experiment_id)
    return str(client.create_experiment(name, artifacts, {IDENTITY: mark} if mark else None))


def _experiment_with(client: Any, run_id: str) -> Any:
    """The active experiment with this run; None without it, as for a study that was copied without
    its store."""
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_experiment(client.get_run(run_id).info.experiment_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return found if found.lifecycle_stage == "active" else None


def model_of(client: Any, experiment_id: str, run_id: str) -> Any:
    """The run's logged model; None without one."""
    wanted = f"source_run_id = '{run_id}'"
    return next(
        iter(client.search_logged_models([experiment_id], filter_string=wanted, max_results=1)),
        None,
    )


def silence() -> None:
    """Keep log lines of MLflow and its database layer off the terminal, and telemetry off the
    network.

    Both log an error with its traceback before they raise it; we report its cause once.
    """
    for name, value in MLFLOW_ENV.items():
        os.environ.setdefault(name, value)
    for name in ("alembic", "mlflow", "sqlalchemy", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def quoted(name: str) -> str:
    """As MLflow's filters take a text."""
    return f'"{name}"' if "'" in name else f"'{name}'"


def kind(uri: str) -> str:
    """The scheme without its driver: `postgresql+psycopg://…` is `postgresql`."""
    return uri.split(":", 1)[0].split("+", 1)[0].lower()


def artifacts_of(uri: str, runs: Path) -> str | None:
    """Where a new experiment keeps its artifacts: below ``runs`` for a database. None: a server
    decides itself."""
    return artifact_folder(runs).as_uri() if kind(uri) in ("sqlite", *NETWORKED) else None


def connected(uri: str) -> Any:
    """A client. Raises the driver's error at once if a networked database is out of reach; MLflow
    would repeat it silently. A database that hangs is waited for."""
    from mlflow.tracking import MlflowClient

    address = without_new_folder(uri)
    if kind(address) in NETWORKED:
        from mlflow.store.db.utils import create_sqlalchemy_engine

        engine = create_sqlalchemy_engine(address)
        engine.connect().close()
        engine.dispose()
    return MlflowClient(tracking_uri=address, registry_uri=address)


def create(runs: Path) -> None:
    """Create the default store whole or not at all: MLflow cannot resume migrations that were cut
    short.

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


class RegistryError(Exception):
    """MLflow refused, was out of reach, or lacks a package for the store. The message is one
    line."""


def register(
    folder: Path, name: str, alias: str | None, run_id: str, uri: str, description: str, runs: Path
) -> None:
    """Put the files into the model of the trial's run at ``uri``, and register them as a new
    version.

    ``runs``: the folder of the runs, whose default store may have been moved with it. Every version
    gets its own path, so that earlier versions keep their files. Raises RegistryError.
    """
    silence()
    path = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    try:
        if uri == default_uri(runs):
            follow_move(runs)
        client = connected(uri)
        model = model_of(client, client.get_run(run_id).info.experiment_id, run_id)
        if model is None:
            raise RegistryError(f"run {run_id} has no model yet; run `allelse sync`")
        with TemporaryDirectory() as place:
            shutil.copytree(folder, Path(place) / path)
            client.log_model_artifacts(model.model_id, place)
        _ensure(client, name)
        source = f"{model.artifact_location}/{path}"
        made = client.create_model_version(
            name, source, run_id, description=description, model_id=model.model_id
        )
        if alias is not None:
            client.set_registered_model_alias(name, alias, made.version)
    except RegistryError:
        raise
    except Exception as error:  # drivers, buckets and disks raise their own types
        raise RegistryError(cause_of(error)) from error


def _ensure(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
