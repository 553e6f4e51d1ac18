"""Models in MLflow's format, registered under a name."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tracking.mlflow.database import connected, follow_move
from tracking.mlflow.store import model_of, silence
from tracking.uri import default_uri
from tracking.words import cause_of

VERSIONS = "mlflow.modelVersions"


class RegistryError(Exception):
    """MLflow refused, was out of reach, or lacks a package for the store. The message is one line."""


def register(
    folder: Path, name: str, alias: str | None, run_id: str, uri: str, description: str, runs: Path | None = None
) -> None:
    """Put the files into the model of the trial's run at ``uri``, and register them as a new version.

    ``runs``: the folder of the runs, whose default store may have been moved with it. Every version gets its own path,
    so that earlier versions keep their files. Raises RegistryError.
    """
    silence()
    path = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
    try:
        if runs is not None and uri == default_uri(runs):
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
        made = client.create_model_version(name, source, run_id, description=description, model_id=model.model_id)
        _link(client, model.model_id, {"name": name, "version": made.version})
        if alias is not None:
            client.set_registered_model_alias(name, alias, made.version)
    except RegistryError:
        raise
    except Exception as error:  # drivers, buckets and disks raise their own types
        raise RegistryError(cause_of(error)) from error


def _link(client: Any, model_id: str, version: dict[str, Any]) -> None:
    """Name the version on the model's page, as MLflow does."""
    known = json.loads(client.get_logged_model(model_id).tags.get(VERSIONS, "[]"))
    if version not in known:
        client.set_logged_model_tags(model_id, {VERSIONS: json.dumps([*known, version])})


def _ensure(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
