"""The example task with a network, by the wheel alone: trained in one process and swept on Ray.

No process here may import our packages from the checkout.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from allelse import load
from examples import copied

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ROWS = ("base", "narrow", "shifted")
FOREIGN = ("ppl", "bleu", "table 3", "beam", "paper")
NOTE = r"""

import os
import pathlib

import sweeps

on_ray = "RAY_RAYLET_PID" in os.environ
(pathlib.Path(__file__).parent / "imports" / f"{os.getpid()}").write_text(f"{on_ray}\n{sweeps.__file__}")
"""
"""At the end of the task: every process that imports it notes from where it has the platform."""
TYPED = """
import json, sys
from typer.testing import CliRunner
from sweeps.cli import app
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    print(json.dumps(done.stdout))
"""
TRAIN = ["train", "task=digits", "train.steps=60", "--add", "tracking=off"]
NAMED = "sweep.name=digits-full"
COMMANDS = {
    **{f"train {row}": [*TRAIN, f"row={row}"] for row in ROWS},
    "evaluate": ["evaluate", "task=digits", "base", "test.shift=1", NAMED, "--json"],
    **{
        f"table {table_format}": ["table", "--format", table_format, NAMED]
        for table_format in ("md", "csv", "json")
    },
    "status": ["status", NAMED, "--json"],
    "curves": ["status", NAMED, "--curves"],
    "plan": ["plan", NAMED],
    "two workers": [
        *("sweep", "task=digits", "sweep.name=two", "sweep.share=false"),
        *("cluster.workers=2", "sweep.rows=[base]", "train.steps=60"),
    ],
}


@pytest.fixture(scope="module")
def folder(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: the example, and an MLflow database."""
    folder = copied("digits", furnish(tmp_path_factory.mktemp("digits").resolve()))
    (folder / "imports").mkdir()
    with (folder / "digits.py").open("a") as file:
        file.write(NOTE)
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path, site: Path) -> dict[str, str]:
    """What every command prints, all typed in one process: most of their time would be imports."""
    words = [sys.executable, "-c", TYPED, json.dumps(list(COMMANDS.values()))]
    env = {**os.environ, "PYTHONPATH": str(site)}
    process = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert process.returncode == 0, process.stderr
    return dict(zip(COMMANDS, map(json.loads, process.stdout.splitlines()), strict=True))


def test_its_tables_speak_of_digits_alone(printed: dict[str, str]) -> None:
    for table_format in ("md", "csv", "json"):
        text = printed[f"table {table_format}"]
        assert "accuracy" in text
        assert not [word for word in FOREIGN if word in text.casefold()]
    base, narrow, shifted = json.loads(printed["table json"])
    assert (base["params"], narrow["params"], shifted["params"]) == (2474, 626, 2474)
    assert (base["flops"], narrow["cells"]) == (None, {"width": 8})
    # 0 where a row only scores
    assert "FLOPs: computed, unknown where empty" in printed["table md"]


def test_the_row_that_only_scores_has_the_accuracy_that_evaluate_gives(
    printed: dict[str, str], folder: Path
) -> None:
    base, _, shifted = json.loads(printed["table json"])
    (line,) = json.loads(printed["evaluate"])
    assert line["accuracy"] == shifted["accuracy"] < base["accuracy"]
    assert not any((folder / "runs/digits-full/shifted-s1").glob("checkpoints/*/a*"))


def test_status_curves_plan_and_frames_of_it(printed: dict[str, str], folder: Path) -> None:
    trials = json.loads(printed["status"])
    assert [(line["row"], line["state"], line["step"]) for line in trials] == [
        ("base", "finished", 60),
        ("narrow", "finished", 60),
        ("shifted", "finished", None),  # it takes no step
    ]
    assert printed["curves"].startswith("digits-full: train/loss over training steps")
    assert "0 of 3 trials" in printed["plan"]
    frames = load(folder / "runs" / "digits-full")
    assert list(frames.scores["metric"]) == ["accuracy"] * 3
    assert list(frames.trials["params"]) == [2474, 626, 2474]
    measured = set(frames.curves["metric"])
    assert {name for name in measured if not name.startswith("system/")} == {"train/loss"}
    assert "system/cpu_utilization_percentage" in measured


def test_provenance_holds_the_task_by_name_version_and_hash_of_its_code(
    printed: dict[str, str], folder: Path
) -> None:
    study = folder / "runs" / "digits-full"
    provenance = json.loads((study / "base-s1" / "provenance.json").read_text())
    assert provenance["task"] == {"name": "digits", "version": 1, "source": "digits"}
    assert [provenance["code"]] == json.loads((study / "study.json").read_text())["code"]


def test_one_trial_with_two_workers(printed: dict[str, str], folder: Path) -> None:
    trial = folder / "runs" / "two" / "base-s1"
    assert json.loads((trial / "provenance.json").read_text())["device"].endswith("× 2")
    assert json.loads((trial / "result.json").read_text())["step"] == 60


def test_every_process_has_the_platform_from_the_wheel(
    printed: dict[str, str], folder: Path, site: Path
) -> None:
    """The commands, the sweep, and both workers on Ray."""
    notes = [note.read_text().split("\n") for note in (folder / "imports").iterdir()]
    assert {path for _, path in notes} == {str(site / "sweeps" / "__init__.py")}
    on_ray = [ray for ray, _ in notes if ray == "True"]
    assert 2 <= len(on_ray) < len(notes)
