"""Refusals come before the heavy libraries, and a mistyped trial or study gets the nearest one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from allelse_in_folder import contents, plan
from typed import refusal

from sweeps.planning.plan_record import study_with_plan
from tracking.study import write_study

HEAVY = ("torch", "ray", "mlflow", "sacrebleu", "ctranslate2", "safetensors")
REFUSED = [
    ["plan", "beam=8"],
    ["sweep", "train.steps=x"],
    ["train", "row=Big"],
    ["config", "row=Big"],
    ["plan", "sweep.rows=[base,mine]"],
    ["status", "sweep.name=other"],
    ["table", "scale=hlaf"],
    ["sync", "sweep.name=other"],
    ["ui", "x=1"],
    ["translate", "Base-s1"],
    ["translate", "base-s1"],
    ["translate", "base-s1", "--input", "nowhere.txt"],
    ["evaluate", "base-s1", "bigg-s1"],
    ["evaluate", "base-s1", "model.n_heads=2"],
    ["export", "base-s2", "--to", "mlflow"],
]
IN_ONE_PROCESS = f"""
import json, sys
from typer.testing import CliRunner
from sweeps.cli import app
codes = [CliRunner().invoke(app, arguments).exit_code for arguments in json.loads(sys.argv[1])]
print(json.dumps([codes, [name for name in {HEAVY!r} if name in sys.modules]]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies that are recorded and not begun."""
    folder = tmp_path_factory.mktemp("quick").resolve()
    for overrides in (["sweep.rows=[base,big]"], ["sweep.rows=[base]", "sweep.name=Größe"]):
        write_study(study_with_plan(plan(folder, *overrides), ["allelse", "sweep", *overrides]))
    return folder


def test_no_refusal_loads_a_heavy_library(folder: Path) -> None:
    files_before = contents(folder)
    process = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(REFUSED)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    codes, loaded = json.loads(process.stdout)
    assert (codes, loaded) == ([2] * len(REFUSED), [])
    assert contents(folder) == files_before


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        (["translate", "Base-s1"], "base-s1"),
        (["evaluate", "bigg-s1"], "big-s1"),
        (["translate", "große/base-s1"], "Größe/base-s1"),
        (["table", "sweep.name=größe"], "\"sweep.name='Größe'\""),
        (["status", "größe"], "\"sweep.name='Größe'\""),
    ],
)
def test_the_nearest_trial_or_study_is_offered(
    folder: Path, arguments: list[str], offered: str
) -> None:
    message = refusal(folder, *arguments)
    assert message.startswith("Refused, for 1 reason: "), message
    assert f"did you mean {offered}?" in message


@pytest.mark.parametrize("override", ["name=mine", "data=Multi30K", "scal=half"])
def test_a_mistyped_name_of_a_study_contradicts_no_other_study(folder: Path, override: str) -> None:
    overrides = [override, "train.steps=100"]
    if "scal" not in override:
        overrides.append("scale=half")
    message = refusal(folder, "plan", "sweep.rows=[base]", *overrides)
    assert message.startswith(f"Refused, for 1 reason: {override.split('=')[0]} (command line) "), (
        message
    )
