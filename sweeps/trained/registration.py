"""A model of a trained trial, registered with MLflow in the trial's run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from sweeps.schema import Problem, RefusedError
from tracking.mlflow.ledger import Ledger, Sent
from tracking.mlflow.registry import RegistryError, register
from tracking.uri import default_uri, without_password

NAME = re.compile(r"[^/:@]+(@(?!v\d+$|latest$)[\w-]+)?")
"""The names that may be registered: MLflow reads the aliases v1 and latest as versions."""


def registered(trial: Path, key: str, uri: str | None, model: Path, name: str) -> str:
    """Register the model as ``NAME`` or ``NAME@ALIAS`` at ``uri``, by default the runs' own store.

    Returns the command that serves it. Raises RefusedError.
    """
    runs = trial.parents[1]
    address = uri or default_uri(runs)
    run = (Ledger(trial.parent, address).get(key) or Sent("")).run
    if problems := list(_problems(f"{trial.parent.name}/{trial.name}", name, run, address)):
        raise RefusedError(problems)
    plain, _, alias = name.partition("@")
    card = model / "README.md"
    about = card.read_text("utf-8") if card.is_file() else ""
    try:
        register(model, plain, alias or None, run, address, about, runs)
    except RegistryError as error:
        raise RefusedError([Problem(name, f"failed: {error}", "fix the cause, then run it again")]) from error
    served = shlex.quote(f"models:/{plain}@{alias}" if alias else f"models:/{plain}/latest")
    place = shlex.quote(without_password(address))
    return f"MLFLOW_TRACKING_URI={place} mlflow models serve --model-uri {served} --env-manager local"


def _problems(trial: str, name: str, run: str, address: str) -> Iterator[Problem]:
    if not NAME.fullmatch(name):
        allowed = "must be NAME or NAME@ALIAS: no / or : in NAME; only letters, digits, - and _ in ALIAS"
        yield Problem("the registered name", f'is "{name}"', allowed)
    if not run:
        found = f"has no run at {without_password(address, mark='')}"
        yield Problem(trial, found, "run `allelse sync` to create it")
