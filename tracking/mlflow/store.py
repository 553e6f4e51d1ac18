"""An MLflow store: an experiment, and the default database `<paths.runs>/mlflow.db`.

Only connecting imports MLflow: that takes three seconds. You may repeat every method without
changing anything: it compares with what the run has, and sends what differs. MLflow's client splits
what is too much for one request.

MLflow tries to connect to a database ten times, for 100 seconds. By default it keeps an
experiment's artifacts in the current folder. It mistakes SQLite's own form of address for a path,
and makes its folder.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

from filelock import FileLock

from tracking.mlflow.database import follow_move, without_new_folder
from tracking.mlflow.ledger import IDENTITY, STUDY, study_run
from tracking.mlflow.runs import LEFT_OUT, Point, StoredRun
from tracking.study import read_study
from tracking.uri import artifact_folder, default_uri

Status = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]
MOST_RESULTS = 50_000  # MLflow's limit per search
PAGE = 500  # experiments per request
SHORT = 6  # characters of an identity that follow the name of a second study's experiment
CONTEXT = "mlflow.data.context"  # the tag that says what a run used a dataset for
LOCK_S = 60.0  # how long another study may take to open its store
MLFLOW_ENV = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    # a repeated creation would be a second run; we retry ourselves and report it
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
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
        """The runs of the study with this identity by trial key, its own by ``STUDY``, the oldest
        first.

        The answer to a creation may get lost, or come too late. So a trial may have two runs.
        Includes deleted runs, since a dropped trial may come back.
        """
        from mlflow.entities import ViewType

        runs: dict[str, list[StoredRun]] = {}
        for run in self.client.search_runs(
            [self.experiment_id],
            f"tags.`{IDENTITY}` = {quoted(identity)}",
            run_view_type=ViewType.ALL,
            max_results=MOST_RESULTS,
            order_by=["attributes.start_time", "attributes.run_id"],
        ):
            tags = run.data.tags
            key = tags.get("trial.key")
            if not key and tags.get("kind") == STUDY:
                key = STUDY
            if key:
                runs.setdefault(key, []).append(_stored(run))
        return runs

    def stored(self, run_id: str) -> StoredRun:
        """What this run holds now."""
        return _stored(self.client.get_run(run_id))

    def leave_out(self, run: StoredRun, why: str) -> None:
        """Delete a run that is no longer part of the study. MLflow can restore deleted runs.

        An empty double is deleted without a mark, and stays so.
        """
        if not run.is_empty:
            self.client.set_tag(run.id, LEFT_OUT, why)
            model = model_of(self.client, self.experiment_id, run.id)
            if model is not None:
                self.client.set_logged_model_tags(model.model_id, {LEFT_OUT: why})
        self.client.delete_run(run.id)

    def take_back(self, run: StoredRun) -> None:
        """The reverse of ``leave_out``."""
        self.client.restore_run(run.id)
        model = model_of(self.client, self.experiment_id, run.id)
        if model is not None:
            self.client.delete_logged_model_tag(model.model_id, LEFT_OUT)
        self.client.delete_tag(run.id, LEFT_OUT)

    def create(self, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """Create a run, and return its id."""
        run = self.client.create_run(self.experiment_id, start_ms, dict(tags), name)
        return str(run.info.run_id)

    def send(self, run_id: str, part: str, content: Any) -> int:
        """Send one part of a run, such as `tags` or `file config.yaml`.

        Returns the number of its points.
        """
        sender, _, name = part.partition(" ")
        # without numbers, those that the run has are no longer valid
        if not content and sender != "numbers":
            return 0
        return self._senders[sender](run_id, name, content) or 0

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
        """The identity of the study that owns the experiment; "" if several may share it."""
        return str(self.client.get_experiment(self.experiment_id).tags.get(IDENTITY, ""))

    def _params(self, run_id: str, _: str, params: Mapping[str, str]) -> None:
        """Send the params that the run lacks; existing ones are immutable."""
        from mlflow.entities import Param

        existing = self.stored(run_id).params
        new = [Param(name, value) for name, value in params.items() if name not in existing]
        self.client.log_batch(run_id, params=new)

    def _tags(self, run_id: str, _: str, tags: Mapping[str, str]) -> None:
        """Set the tags, and remove those with an empty value."""
        from mlflow.entities import RunTag

        run_tags = [RunTag(name, value) for name, value in tags.items() if value]
        self.client.log_batch(run_id, tags=run_tags)
        empty = {name for name, value in tags.items() if not value}
        if empty:
            for name in empty & self.client.get_run(run_id).data.tags.keys():
                self.client.delete_tag(run_id, name)

    def _numbers(self, run_id: str, _: str, points: Sequence[Point]) -> int:
        """Send what makes the run's newest values equal to these."""
        missing = self.stored(run_id).missing_numbers(points)
        self.log_points(run_id, missing)
        return len(missing)

    def _datasets(self, run_id: str, _: str, datasets: Sequence[Mapping[str, str]]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = []
        for dataset in datasets:
            fields = {name: value for name, value in dataset.items() if name != "context"}
            tag = InputTag(CONTEXT, dataset["context"])
            inputs.append(DatasetInput(Dataset(**fields), [tag]))
        self.client.log_inputs(run_id, inputs)

    def _model(self, run_id: str, _: str, model: Mapping[str, Any]) -> None:
        """Send the run's external model: only its numbers, since the checkpoints stay."""
        fields = {name: model[name] for name in ("name", "model_type", "params")}
        logged = model_of(self.client, self.experiment_id, run_id)
        if logged is None:
            logged = self.client.create_logged_model(
                self.experiment_id, source_run_id=run_id, **fields
            )
        tags = {"mlflow.model.isExternal": "true", **model["tags"]}
        self.client.set_logged_model_tags(logged.model_id, tags)
        self.client.finalize_logged_model(logged.model_id, "READY")
        points_of_model = _latest(logged.metrics or ())
        points_of_run = self.stored(run_id).latest
        # with the run's values, since MLflow also gives a model's point to its run
        points = []
        for name in [point.name for point in model["points"]]:
            point = points_of_run.get(name)
            if point is not None and points_of_model.get(name) != point:
                points.append(point)
        if points:
            last_step = max(point.step for point in points)
            self._link_model(run_id, logged.model_id, last_step)
            self.log_points(run_id, points, logged.model_id)

    def _link_model(self, run_id: str, model_id: str, step: int) -> None:
        """Make the model an output of the run, unless it is one."""
        from mlflow.entities import LoggedModelOutput

        outputs = self.client.get_run(run_id).outputs
        model_outputs = outputs.model_outputs if outputs else []
        if model_id not in [output.model_id for output in model_outputs]:
            self.client.log_outputs(run_id, [LoggedModelOutput(model_id, step)])

    def _view(self, _run: str, _name: str, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self.client.set_experiment_tag(self.experiment_id, name, value)


def _stored(run: Any) -> StoredRun:
    """From a run as MLflow's client returns it."""
    data = run.data
    is_active = run.info.lifecycle_stage == "active"
    latest = _latest(data._metric_objs)  # MLflow 3.17.2: `metrics` has no steps
    return StoredRun(run.info.run_id, is_active, data.tags, data.params, latest)


def _latest(metrics: Iterable[Any]) -> dict[str, Point]:
    """The newest point of each metric: the one with the highest step, as MLflow decides."""
    points = [Point(metric.key, metric.value, metric.timestamp, metric.step) for metric in metrics]
    points.sort(key=lambda point: (point.step, point.ts_ms))
    return {point.name: point for point in points}


def open_store(study: Path, uri: str, experiment: str | None) -> Store:
    """The store at ``uri`` for the study in this folder. Creates the default store if it is
    missing.

    The experiment is that of the study's runs, which their tags tell if the ledger is lost, or else
    the one with the name ``experiment`` or the study's name. A lock keeps the sweeps of several
    studies from creating the same store or experiment at once. Raises what MLflow raises, and
    filelock's Timeout.
    """
    silence()
    runs = study.parent
    with FileLock(runs / ".mlflow.lock", timeout=LOCK_S):
        if uri == default_uri(runs):
            follow_move(runs)
            create(runs)
        client = connected(uri)
        identity = read_study(study).mark
        sent = study_run(study, uri)
        run = sent.run if sent else _run_by_tags(client, identity)
        mark = identity if experiment in (None, study.name) else ""
        name = experiment or study.name
        experiment_id = _experiment(client, run, name, mark, artifacts_of(uri, runs))
        return Store(client, experiment_id)


def _run_by_tags(client: Any, identity: str) -> str | None:
    """The id of the oldest run of the study itself, in any active experiment; None without one."""
    is_study_run = f"tags.`{IDENTITY}` = {quoted(identity)} AND tags.kind = '{STUDY}'"
    order = ["attributes.start_time"]
    for experiments in _experiments(client):
        runs = client.search_runs(experiments, is_study_run, max_results=1, order_by=order)
        if runs:
            return str(runs[0].info.run_id)
    return None


def _experiments(client: Any) -> Iterator[list[str]]:
    """The ids of all active experiments, page by page."""
    token = None
    while True:
        page = client.search_experiments(max_results=PAGE, page_token=token)
        if page:
            yield [experiment.experiment_id for experiment in page]
        token = page.token
        if not token:
            return


def _experiment(client: Any, run: str | None, name: str, mark: str, artifacts: str | None) -> str:
    """The id of the experiment with this run, or else of the one with this name, created if
    missing.

    ``mark`` marks the study that owns the experiment; that of another study gets a longer name.
    `artifacts`: where a new experiment keeps its artifacts; None leaves the choice to the server.
    Raises ValueError if the experiment with this name is deleted.
    """
    experiment = _experiment_with(client, run) if run else None
    if experiment is not None and (not mark or _may_own(experiment, mark)):
        return str(experiment.experiment_id)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        tags = {IDENTITY: mark} if mark else None
        return str(client.create_experiment(name, artifacts, tags))
    if experiment.lifecycle_stage != "active":
        raise ValueError(
            f"MLflow experiment {name!r} is deleted; restore it or choose another name"
        )
    if mark and not _may_own(experiment, mark):
        return _experiment(client, None, f"{name} {mark[:SHORT]}", mark, artifacts)
    if mark:
        client.set_experiment_tag(experiment.experiment_id, IDENTITY, mark)
    return str(experiment.experiment_id)


def _may_own(experiment: Any, mark: str) -> bool:
    """Whether no other study than the one with this mark owns the experiment."""
    return bool(experiment.tags.get(IDENTITY, mark) == mark)


def _experiment_with(client: Any, run_id: str) -> Any:
    """The active experiment with this run; None for a study copied without its store."""
    from mlflow.exceptions import MlflowException

    try:
        experiment = client.get_experiment(client.get_run(run_id).info.experiment_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return experiment if experiment.lifecycle_stage == "active" else None


def model_of(client: Any, experiment_id: str, run_id: str) -> Any:
    """The run's logged model; None without one."""
    of_run = f"source_run_id = '{run_id}'"
    models = client.search_logged_models([experiment_id], filter_string=of_run, max_results=1)
    return next(iter(models), None)


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
    """The text with quotes for MLflow's filters."""
    return f'"{name}"' if "'" in name else f"'{name}'"


def scheme(uri: str) -> str:
    """The scheme without its driver: `postgresql+psycopg://…` is `postgresql`."""
    return uri.split(":", 1)[0].split("+", 1)[0].lower()


def artifacts_of(uri: str, runs: Path) -> str | None:
    """Where a new experiment keeps its artifacts: below ``runs`` for a database.

    None: the server decides.
    """
    is_database = scheme(uri) in ("sqlite", *NETWORKED)
    return artifact_folder(runs).as_uri() if is_database else None


def connected(uri: str) -> Any:
    """A client. Raises the driver's error at once if a networked database is out of reach, which
    MLflow would silently retry. Waits for a database that hangs."""
    from mlflow.tracking import MlflowClient

    address = without_new_folder(uri)
    if scheme(address) in NETWORKED:
        from mlflow.store.db.utils import create_sqlalchemy_engine

        engine = create_sqlalchemy_engine(address)
        engine.connect().close()
        engine.dispose()
    return MlflowClient(tracking_uri=address, registry_uri=address)


def create(runs: Path) -> None:
    """Create the default store completely or not at all: MLflow can't resume interrupted
    migrations.

    Each attempt has its own folder, since MLflow keeps its connection to an address open.
    """
    if (runs / "mlflow.db").exists():
        return
    for unfinished in runs.glob(f"{NEW}*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    new = Path(mkdtemp(prefix=NEW, dir=runs))
    connected(default_uri(new)).search_experiments(max_results=1)
    (new / "mlflow.db").replace(runs / "mlflow.db")
    shutil.rmtree(new)
