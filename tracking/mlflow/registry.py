"""MLflow's model registry: a trial's exported model as a new version."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tracking.error_causes import cause_of
from tracking.mlflow.database import follow_move
from tracking.mlflow.store import connected, model_of, silence
from tracking.uri import default_uri


class RegistryError(Exception):
    """MLflow refused, was out of reach, or lacks a package for the store. In one line."""


def register(
    folder: Path, name: str, alias: str | None, run_id: str, uri: str, description: str, runs: Path
) -> None:
    """Put the files into the model of the trial's run at ``uri``, and register them as a new
    version.

    ``runs``: the folder of the runs, whose default store may have been moved with it. Every version
    gets its own path, so that earlier versions keep their files. Raises RegistryError.
    """
    silence()
    try:
        if uri == default_uri(runs):
            follow_move(runs)
        client = connected(uri)
        model = model_of(client, client.get_run(run_id).info.experiment_id, run_id)
        if model is None:
            raise RegistryError(f"run {run_id} has no model yet; run `allelse sync`")
        source = _upload(client, model, folder)
        _create_model(client, name)
        version = client.create_model_version(
            name, source, run_id, description=description, model_id=model.model_id
        )
        if alias is not None:
            client.set_registered_model_alias(name, alias, version.version)
    except RegistryError:
        raise
    except Exception as error:  # drivers, buckets and disks raise their own types
        raise RegistryError(cause_of(error)) from error


def _upload(client: Any, model: Any, folder: Path) -> str:
    """Add the files to the model's artifacts, and return their address."""
    path = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    with TemporaryDirectory() as temporary:
        shutil.copytree(folder, Path(temporary) / path)
        client.log_model_artifacts(model.model_id, temporary)
    return f"{model.artifact_location}/{path}"


def _create_model(client: Any, name: str) -> None:
    """Create the registered model unless it exists."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
