"""A password in an address: used, and never written, shown or passed where others may read it."""

import json
from pathlib import Path

import pytest
from small_task import write_task
from small_text import TEXT
from studies import SMALL
from typed import typed

from tracking.mlflow import sync
from tracking.mlflow.database import ui_command, ui_environment

SECRET = "hunter2-pa55"
OTHER = "tok3n-0f-m1rr0r"
NAME = "sweep.name=files-tiny"


def holders(folder: Path, *secrets: str) -> list[str]:
    """The files that hold one of them."""
    paths = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if any(secret.encode() in content for secret in secrets):
                paths.append(str(path))
    return paths


@pytest.mark.slow
def test_no_file_database_or_message_holds_the_password(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens at the server's address; MLflow's own database takes the same reports."""
    monkeypatch.setattr(sync, "GRACE_S", 0.5)  # how long the last pass is tried again
    mirror = f"data.mirror='https://{OTHER}@host/x?token={OTHER}'"
    uri = f"tracking.uri=http://somebody:{SECRET}@127.0.0.1:1"
    words = [*SMALL, *TEXT, "train.steps=4", "train.checkpoint_every=2", mirror, uri]
    store = f"tracking.uri=sqlite:///{workplace}/runs/mlflow.db"
    commands = (
        ["train", *words],
        ["status", uri, NAME],
        ["sync", store, NAME],
        ["config", uri, mirror],
    )
    outcomes = [typed(workplace, *command) for command in commands]
    assert [outcome.exit_code for outcome in outcomes] == [0, 0, 0, 0], outcomes[0].output
    output = "".join(outcome.output for outcome in outcomes)
    assert "127.0.0.1:1" in output
    assert SECRET not in output
    assert OTHER not in output
    assert holders(workplace, SECRET, OTHER) == []
    study = workplace / "runs" / "files-tiny"
    assert json.loads((study / "base-s1" / "result.json").read_text())["step"] == 4
    assert "http://***@127.0.0.1:1" in (study / "base-s1" / "config.yaml").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["train", "cluster.workers=2", f"tracking.uri=http://me:{SECRET}@host"],
        ["plan", f"tracking.uri=postgresql://me:{SECRET}@host/db", "model.n_headz=3"],
        [
            "plan",
            f"paths.checkpoints=sftp://me:{SECRET}@host/x",
            f"data.mirror=https://me:{SECRET}@host",
            "data=nope",
        ],
        ["plan", f"postgresql://me:{SECRET}@host/db"],
        ["plan", f"data.train=[http://me:{SECRET}@host/x,b]"],
        ["config", f"tracking.uri=postgresql://me:{SECRET}@host/db?password={SECRET}"],
        ["translate", "base-s1", f"tracking.uri=postgresql://me:{SECRET}@host/db"],
    ],
)
def test_no_message_shows_it(tmp_path: Path, words: list[str]) -> None:
    outcome = typed(tmp_path, *words)
    assert isinstance(outcome.exception, SystemExit | None)
    assert SECRET not in outcome.output
    assert outcome.output


def test_the_user_interface_gets_it_by_its_environment_alone(tmp_path: Path) -> None:
    uri = f"postgresql://me:{SECRET}@host/db"
    assert SECRET not in " ".join(ui_command(tmp_path))
    assert ui_environment(uri)["MLFLOW_BACKEND_STORE_URI"] == uri


def test_a_secret_in_an_error_of_the_work_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    anchor = "        total +="
    folder = write_task(
        tmp_path,
        {anchor: f"        raise ValueError(__import__('os').environ['HF_TOKEN'])\n{anchor}"},
    )
    outcome = typed(folder, "train", "task=small")
    assert (outcome.exit_code, "base-s1: FAILED: ValueError: ***" in outcome.output) == (1, True), (
        outcome.output
    )
    assert SECRET not in outcome.output
    assert holders(folder, SECRET) == []
