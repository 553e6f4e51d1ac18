"""Models in MLflow's format, registered under a name."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracking.cause import cause_of
from tracking.mlflow.database import connected, follow_move
from tracking.mlflow.store import silence
from tracking.uri import default_uri


class RegistryError(Exception):
    """MLflow refused, was out of reach, or lacks a package for the store. The message is one line."""


def register(
    folder: Path, name: str, alias: str | None, run_id: str, uri: str, description: str, runs: Path | None = None
) -> None:
    """Put the model into its trial's run at ``uri``, and register it there as a new version. Raises RegistryError.

    ``runs``: the folder of the runs, whose default store may have been moved with it. Every version gets its own path,
    so that earlier versions keep their files.
    """
    silence()
    path = f"models/{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    try:
        if runs is not None and uri == default_uri(runs):
            follow_move(runs)
        client = connected(uri)
        client.log_artifacts(run_id, str(folder), path)
        _ensure(client, name)
        source = f"{client.get_run(run_id).info.artifact_uri}/{path}"
        version = client.create_model_version(name, source, run_id, description=description).version
        if alias is not None:
            client.set_registered_model_alias(name, alias, version)
    except Exception as error:  # drivers, buckets and disks raise their own types
        raise RegistryError(cause_of(error)) from error


def _ensure(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
