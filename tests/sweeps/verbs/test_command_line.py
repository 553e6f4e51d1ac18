"""Every verb as a user types it."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from allelse_in_folder import ALLELSE, Done, allelse, contents, own, plan, run_in
from typer.testing import CliRunner

from sweeps.cli import app
from sweeps.planning.compose import compose_row
from sweeps.planning.plan import recorded
from sweeps.running.recorder import Recorder
from sweeps.worker.events import Failed, Finished
from tracking.study import write_study

ROWS = "sweep.rows=[base,a_heads_1,c_layers_2]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose base is finished, whose second row failed, and whose third was never begun."""
    folder = tmp_path_factory.mktemp("study").resolve()
    planned = plan(folder, ROWS)
    write_study(recorded(planned, ["allelse", "sweep", ROWS]))
    base, failed, _ = planned.trials
    scores = {
        "nll": 1.5,
        "ppl": 4.5,
        "bleu": 30.0,
        "chrf": 50.0,
        "signature": "",
        "decode": asdict(base.settings.trial.decode),
    }
    costs = {"params": base.costs.params, "flops": 2.5e12, "seconds": 61.0}
    for trial, event in (
        (base, Finished(600, costs, {"dev": scores, "test": scores})),
        (failed, Failed("OutOfMemoryError: too wide", "a traceback")),
    ):
        recorder = Recorder(trial)
        recorder.begin()
        recorder.take(1, event)
    return folder


def next_command(done: Done) -> str:
    return done.stdout.splitlines()[-1]


def test_an_unknown_verb_gets_the_nearest_suggested(tmp_path: Path) -> None:
    done = allelse(tmp_path, "plann")
    assert done.returncode == 2
    assert "Did you mean 'plan'?" in done.stderr


def test_a_removed_current_folder_is_named(tmp_path: Path) -> None:
    removes = f'rmdir "$PWD" && exec {ALLELSE} plan'
    (gone := tmp_path / "gone").mkdir()
    done = subprocess.run(["sh", "-c", removes], cwd=gone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the current folder was removed" in done.stderr


@pytest.mark.parametrize("verb", ["status", "table", "report", "sync"])
def test_a_missing_study_is_refused_with_a_list_of_studies(folder: Path, verb: str) -> None:
    done = allelse(folder, verb, "scale=half")
    assert (done.returncode, done.stdout) == (2, "")
    assert f'sweep.name is "synthetic-half", but {folder}/runs has no such study' in done.stderr
    assert "studies there: synthetic-tiny" in done.stderr
    outcome = {"report": "Nothing was written.", "sync": "Nothing was sent."}.get(verb)
    assert (outcome or "did you mean") in done.stderr.splitlines()[-1]


def test_without_any_study_the_refusal_names_the_command_that_makes_one(tmp_path: Path) -> None:
    done = allelse(tmp_path, "table")
    assert done.returncode == 2
    assert "`allelse sweep` creates one" in done.stderr
    assert contents(tmp_path) == []


def test_the_status(folder: Path) -> None:
    done = allelse(folder, "status", "--json")
    assert done.stderr == ""
    states = [(line["row"], line["state"], line["attempts"], line["note"]) for line in json.loads(done.stdout)]
    assert states == [
        ("base", "finished", 1, ""),
        ("a_heads_1", "failed", 1, "OutOfMemoryError: too wide"),
        ("c_layers_2", "missing", 0, ""),
    ]
    shown = allelse(folder, "status")
    assert "1 of 3 finished" in shown.stdout
    assert next_command(shown) == "Next: allelse sweep sweep.name=synthetic-tiny"


def test_the_configuration_can_be_read_back(tmp_path: Path) -> None:
    words = ["row=big", "scale=paper", "decode.beam=5"]
    done = allelse(tmp_path, "config", *words)
    assert (done.returncode, done.stderr) == (0, "")
    shown = yaml.safe_load(done.stdout)
    assert shown == compose_row(words, tmp_path).rows[0].settings.to_dict()
    assert (shown["model"]["d_model"], shown["train"]["steps"], shown["decode"]["beam"]) == (1024, 300_000, 5)
    assert contents(tmp_path) == []


def test_the_doctor_checks_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["doctor", "--json"])
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert (done.exit_code, findings["conf"]["found"]) == (0, "20 rows compose")
    assert findings["Python"]["found"] == ".".join(map(str, sys.version_info[:3]))
    assert {finding["state"] for finding in findings.values()} <= {"ok", "warning"}
    own(tmp_path, "row/base", "# mine\n")
    broken = CliRunner().invoke(app, ["doctor", "--json"])
    assert broken.exit_code == 1
    assert {finding["what"] for finding in json.loads(broken.stdout) if finding["state"] == "failed"} == {"conf"}


def test_the_ui_needs_a_database(tmp_path: Path) -> None:
    done = allelse(tmp_path, "ui")
    assert done.returncode == 2
    assert f"paths.runs is {tmp_path}/runs, which has no mlflow.db" in done.stderr
    assert contents(tmp_path) == []


def test_the_next_command_can_be_typed_without_the_environment_on_the_path(tmp_path: Path) -> None:
    done = run_in(tmp_path, {**os.environ, "PATH": "/usr/bin:/bin"}, str(ALLELSE), "plan")
    assert next_command(done) == f"Next: {os.path.relpath(ALLELSE, tmp_path)} sweep"
