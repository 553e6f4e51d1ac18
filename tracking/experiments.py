"""The MLflow experiment of a study: one of its own, unless its runs lie in another one."""

from pathlib import Path
from typing import Any

from tracking.ledger import a_run_of


def named_experiment(client: Any, name: str, artifacts: str | None) -> str:
    """The id of the experiment with this name, made if missing. Raises ValueError if it is deleted.

    `artifacts`: where a new experiment keeps its artifacts; None leaves the choice to the server.
    """
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage != "active":
        raise ValueError(f"MLflow experiment {name!r} is deleted; restore it or choose another name")
    return str(found.experiment_id if found else client.create_experiment(name, artifacts))


def experiment_of_study(client: Any, study: Path, uri: str, artifacts: str | None) -> str:
    """The id of the experiment that has runs of the study, or else of one that is named like the study."""
    known = a_run_of(study, uri)
    found = experiment_of_run(client, known) if known is not None else None
    return found or named_experiment(client, study.name, artifacts)


def experiment_of_run(client: Any, run_id: str) -> str | None:
    """None if the run was deleted."""
    from mlflow.exceptions import MlflowException

    try:
        info = client.get_run(run_id).info
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return str(info.experiment_id) if info.lifecycle_stage == "active" else None
