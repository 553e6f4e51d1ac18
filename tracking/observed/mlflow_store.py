"""Runs in an MLflow store, through MLflow's client, which takes seconds to import."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tracking.error_causes import cause_of
from tracking.observed.source_table import (
    CurvePoint,
    ImportRefusedError,
    SourceTable,
    Value,
    named_value,
    nearest_name,
    refused,
    shown_path,
)
from tracking.uri import without_password
from tracking.written.formats.mlflow_store import from_store

MLFLOW = "mlflow:"
"""Before the address of a store, where a source is named."""
SQLITE = "sqlite:///"
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds
    "PGCONNECT_TIMEOUT": "5",  # seconds until PostgreSQL has accepted a connection
}
MS = 1000.0
PAGE = 1000
SHOWN_EXPERIMENTS = 20
CONTEXT = "mlflow.data.context"


def read_mlflow(uri: str, experiment: str | None) -> SourceTable:
    """The runs of an experiment that were not deleted, by the columns of MLflow's own csv:
    ``params.lr``, ``metrics.acc``, ``tags.seed``. Nothing is written to the store.

    Raises ImportRefusedError.
    """
    client = _client(_checked(uri))
    try:
        number, name = _experiment(client, experiment)
        runs = _runs(client, number)
    except ImportRefusedError:
        raise
    except Exception as error:  # of MLflow, its database driver or its connection
        fault = f"is {without_password(uri)}, which cannot be read: {cause_of(error)}"
        raise refused("SOURCE", fault, "must be a store that MLflow can open") from None
    if not runs:
        fault = f"is {name}, which has no run"
        raise refused("--experiment", fault, "must be one with runs")
    lines = [_line(run) for run in runs]
    columns = dict.fromkeys(column for line in lines for column in line)
    source = f"{MLFLOW}{_shown(uri)} {name}"
    curve = partial(_curve, client, [run.info.run_id for run in runs])
    return SourceTable(source, name, tuple(columns), tuple(lines), curve)


def _shown(uri: str) -> str:
    """The address, with the whole path of a local store."""
    if uri.startswith(SQLITE):
        return f"{SQLITE}{shown_path(Path(uri.removeprefix(SQLITE)))}"
    is_folder = ":" not in uri and Path(uri).expanduser().exists()
    return shown_path(Path(uri)) if is_folder else without_password(uri)


def _checked(uri: str) -> str:
    """With the whole path of a database: MLflow would make a new one if it does not exist."""
    if not uri.startswith(SQLITE):
        return uri
    path = Path(uri.removeprefix(SQLITE))
    if not path.is_file():
        fault = f"is {uri}, and {path} does not exist"
        allowed = "must be a database, such as mlflow:sqlite:///mlflow.db"
        raise refused("SOURCE", fault, allowed)
    return f"{SQLITE}{path.absolute()}"


def _client(uri: str) -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri)


def _experiment(client: Any, name: str | None) -> tuple[str, str]:
    """Number and name of the experiment; without a name, of the only one that has runs."""
    experiments = {
        experiment.name: experiment.experiment_id for experiment in client.search_experiments()
    }
    if name is not None and name in experiments:
        return experiments[name], name
    names = [*experiments][:SHOWN_EXPERIMENTS]
    allowed = f"experiments there: {', '.join(names)}"
    if name is not None:
        fault = f'names "{name}", which is not an experiment of the store'
        raise refused("--experiment", fault, allowed, nearest_name(name, names))
    with_runs = [name for name, number in experiments.items() if _runs(client, number, 1)]
    if len(with_runs) == 1:
        return experiments[with_runs[0]], with_runs[0]
    fault = f"is missing, and {len(with_runs)} experiments have runs"
    raise refused("--experiment", fault, allowed)


def _runs(client: Any, experiment: str, most: int | None = None) -> list[Any]:
    """The oldest first."""
    order = ["attributes.start_time ASC", "attributes.run_id ASC"]
    runs = list[Any]()
    token = None
    while True:
        page = client.search_runs(
            [experiment], max_results=most or PAGE, order_by=order, page_token=token
        )
        runs += page
        token = page.token
        if not token or most:
            return runs


def _line(run: Any) -> dict[str, Value]:
    """One run, by the columns of MLflow's own csv. Numbers are as the store has them."""
    info = run.info
    line: dict[str, Value] = {
        "run_id": info.run_id,
        "status": str(info.status),
        "start_time": None if info.start_time is None else info.start_time / MS,
        "end_time": None if info.end_time is None else info.end_time / MS,
    }
    line |= {f"params.{name}": named_value(name, text) for name, text in run.data.params.items()}
    line |= {f"tags.{name}": named_value(name, text) for name, text in run.data.tags.items()}
    line |= {f"metrics.{name}": from_store(value) for name, value in run.data.metrics.items()}
    return line | _datasets(run)


def _datasets(run: Any) -> dict[str, Value]:
    """The digest of each data set that the run says it used."""
    inputs = run.inputs.dataset_inputs if run.inputs else []
    digests: dict[str, Value] = {}
    for dataset_input in inputs:
        contexts = [tag.value for tag in dataset_input.tags if tag.key == CONTEXT]
        dataset = dataset_input.dataset
        name = f"data digest of {next(iter(contexts), dataset.name)}"
        digests[name] = f"{dataset.name}@{dataset.digest}"
    return digests


def _curve(client: Any, run_ids: Sequence[str], place: int, column: str) -> list[CurvePoint]:
    """The values of a metric over time, the first step first."""
    name = column.removeprefix("metrics.")
    history = client.get_metric_history(run_ids[place], name)
    points = []
    for point in history:
        points.append(CurvePoint(point.timestamp / MS, point.step, from_store(point.value)))
    return sorted(points, key=lambda point: (point.step, point.ts))
