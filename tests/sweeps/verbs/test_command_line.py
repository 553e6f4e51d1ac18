"""Verbs as a user types them: unknown names, missing studies, the configuration, the doctor, the
next command."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from allelse_in_folder import ALLELSE, contents, own, run_in
from composed_rows import composed_row
from finished_trials import study_in, sweep
from typed import refusal, typed

ROWS = "sweep.rows=[base,a_heads_1,c_layers_2]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose base is finished, whose second row failed, and whose third was never begun."""
    folder = tmp_path_factory.mktemp("study").resolve()
    sweep(folder, ROWS, ends=0)
    sweep(folder, "sweep.rows=[base]")
    study = study_in(folder)
    study.trial_folder(study.trials[1]).write_error("OutOfMemoryError: too wide")
    return folder


def test_an_unknown_verb_gets_the_nearest_suggested(tmp_path: Path) -> None:
    assert "Did you mean 'plan'?" in refusal(tmp_path, "plann")


@pytest.mark.parametrize(
    ("verb", "end"),
    [("status", "did you mean"), ("report", "Nothing was written."), ("sync", "Nothing was sent.")],
)
def test_a_missing_study_is_refused_with_a_list_of_studies(
    folder: Path, verb: str, end: str
) -> None:
    outcome = typed(folder, verb, "scale=half")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert f'sweep.name is "synthetic-half", but {folder}/runs has no such study' in outcome.stderr
    assert "studies there: synthetic-tiny" in outcome.stderr
    assert end in outcome.stderr.splitlines()[-1]


def test_without_any_study_the_refusal_names_the_command_that_makes_one(tmp_path: Path) -> None:
    assert "`allelse sweep` starts one here" in refusal(tmp_path, "table")
    assert f"paths.runs is {tmp_path}/runs, which has no mlflow.db" in refusal(tmp_path, "ui")
    assert contents(tmp_path) == []


def test_in_another_folder_the_refusal_names_the_runs_above(folder: Path) -> None:
    subfolder = folder / "notes"
    subfolder.mkdir()
    message = refusal(subfolder, "table")
    assert f"paths.runs has no study: {subfolder}/runs" in message
    assert f"did you mean paths.runs={folder}/runs?" in message


def test_the_status(folder: Path) -> None:
    lines = json.loads(typed(folder, "status", "--json").stdout)
    assert [(line["row"], line["state"], line["note"]) for line in lines] == [
        ("base", "finished", ""),
        ("a_heads_1", "failed", "OutOfMemoryError: too wide"),
        ("c_layers_2", "missing", ""),
    ]
    output = typed(folder, "status").stdout
    assert "1 of 3 finished" in output
    assert output.splitlines()[-1] == "Next: allelse sweep sweep.name=synthetic-tiny"


def test_the_configuration_can_be_read_back(tmp_path: Path) -> None:
    words = ["row=big", "scale=paper", "decode.beam=5"]
    configuration = yaml.safe_load(typed(tmp_path, "config", *words).stdout)
    assert configuration == composed_row(words, tmp_path).rows[0].settings.to_dict()
    assert (
        configuration["model"]["d_model"],
        configuration["train"]["steps"],
        configuration["decode"]["beam"],
    ) == (
        1024,
        300_000,
        5,
    )
    assert contents(tmp_path) == []


def test_the_doctor_checks_this_machine(tmp_path: Path) -> None:
    own(tmp_path, "row/base", "# mine\n")
    outcome = typed(tmp_path, "doctor", "--json")
    states = {finding["what"]: finding["state"] for finding in json.loads(outcome.stdout)}
    assert (outcome.exit_code, {check for check, state in states.items() if state == "failed"}) == (
        1,
        {"conf"},
    )
    findings = {finding["what"]: finding["found"] for finding in json.loads(outcome.stdout)}
    assert findings["Python"] == ".".join(map(str, sys.version_info[:3]))


def test_the_doctor_checks_every_task_of_the_folder(tmp_path: Path) -> None:
    declared = '@task(Metric("acc", better="up"))\ndef NAME(trial, *, lr: float = 0.1): return lr\n'
    for name in ("first", "second"):
        source = f"from allelse import Metric, task\n\n{declared}".replace("NAME", name)
        (tmp_path / f"{name}.py").write_text(source)

    def conf() -> dict[str, str]:
        findings = json.loads(typed(tmp_path, "doctor", "--json").stdout)
        return next(finding for finding in findings if finding["what"] == "conf")

    assert (conf()["state"], conf()["found"]) == ("ok", "2 rows compose")
    own(tmp_path, "task/second/row/wide", "# mine\n")
    assert conf()["state"] == "failed"
    assert "conf/task/second/row/wide.yaml" in conf()["found"]


def test_a_command_is_named_as_it_can_be_typed(tmp_path: Path) -> None:
    process = run_in(tmp_path, {**os.environ, "PATH": "/usr/bin:/bin"}, str(ALLELSE), "studies")
    assert process.stdout.splitlines()[-1] == f"Next: {os.path.relpath(ALLELSE, tmp_path)} sweep"
