"""The example task with a network, by the wheel alone: planned, swept on Ray, killed and resumed to the same bits.

No process here may import our packages from the checkout.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from saved_state import saved_state
from studies import Running, allelse, lines, mlflow_runs, wait_until

from allelse import load
from examples import copied

pytestmark = [pytest.mark.ray, pytest.mark.slow]
STEPS, EVERY = 600, 20
ROWS = ("base", "narrow")
WORDS = ["task=digits", f"sweep.rows=[{','.join(ROWS)}]", f"train.steps={STEPS}"]
FOREIGN = ("ppl", "bleu", "table 3", "beam", "paper")
NOTE = r"""

import os
import pathlib
import sys

import sweeps

(pathlib.Path(__file__).parent / "imports" / f"{os.getpid()}").write_text(f"{sys.argv[0]}\n{sweeps.__file__}")
"""
"""At the end of the task: every process that imports it notes from where it has the platform."""
TYPED = """
import json, sys
from typer.testing import CliRunner
from sweeps.cli import app
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    print(json.dumps([done.exit_code, done.stdout, " ".join(done.stderr.split())]))
"""
ONE_TRIAL = ["sweep.rows=[base]", "sweep.seeds=[1]"]
READ = {
    **{f"table {kind}": ["table", "--format", kind, "sweep.name=digits-full"] for kind in ("md", "csv", "json")},
    "status": ["status", "sweep.name=digits-full", "--json"],
    "curves": ["status", "sweep.name=digits-full", "--curves"],
    "plan": ["plan", "sweep.name=digits-full"],
    "two workers": ["sweep", "task=digits", "sweep.name=two", "cluster.workers=2", "train.steps=40", *ONE_TRIAL],
}


@dataclass(frozen=True)
class Done:
    """The end of one command; standard error on one line."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def env(site: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(site)}


@pytest.fixture(scope="module")
def folder(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: the example, and an MLflow database."""
    folder = copied("digits", furnish(tmp_path_factory.mktemp("digits").resolve()))
    (folder / "imports").mkdir()
    with (folder / "digits.py").open("a") as file:
        file.write(NOTE)
    return folder


def typed(folder: Path, env: dict[str, str], *commands: list[str]) -> list[Done]:
    """Type commands in one process: most of their time would be imports."""
    words = [sys.executable, "-c", TYPED, json.dumps(commands)]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def undisturbed(folder: Path, env: dict[str, str]) -> Path:
    """A study of two rows, trained one after the other in one process."""
    train = ["train", "task=digits", f"train.steps={STEPS}", "--add"]
    for done in typed(folder, env, *([*train, f"row={row}"] for row in ROWS)):
        assert done.exit_code == 0, done.stderr
    return folder / "runs" / "digits-full"


@pytest.fixture(scope="module")
def killed(folder: Path, env: dict[str, str], undisturbed: Path) -> Path:
    """The same study, of which a worker was killed, then the sweep itself."""
    study = folder / "runs" / "killed"
    running = Running.start("sweep", *WORDS, "sweep.name=killed", cwd=folder, trial=study / "base-s1", env=env)
    running.wait_for_step(5 * EVERY)
    running.workers()[0].kill()
    wait_until(lambda: any(_resumed(study / f"{row}-s1") for row in ROWS) or running.ended(), "a second attempt")
    assert not running.ended(), running.process.communicate()[0]
    running.kill()
    again = allelse("sweep", "sweep.name=killed", cwd=folder, env=env)
    assert again.returncode == 0, again.stdout + again.stderr
    return study


@pytest.fixture(scope="module")
def read(folder: Path, env: dict[str, str], undisturbed: Path) -> dict[str, Done]:
    """Every command of ``READ``."""
    return dict(zip(READ, typed(folder, env, *READ.values()), strict=True))


def _resumed(trial: Path) -> bool:
    return any(line["attempt"] == 2 and "checkpoint" in line for line in lines(trial / "journal.jsonl"))


def final_state(trial: Path) -> dict[str, Any]:
    newest = max(trial.glob("checkpoints/*/a*/step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    assert newest.name == f"step-{STEPS}"
    state: dict[str, Any] = saved_state(newest)
    return state


def losses(trial: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["metrics"]["train/loss"]) for line in lines(trial / "journal.jsonl")]


@pytest.mark.faults
@pytest.mark.parametrize("row", ROWS)
def test_what_was_killed_and_resumed_is_the_same_to_the_bit(undisturbed: Path, killed: Path, row: str) -> None:
    whole, resumed = (study / f"{row}-s1" for study in (undisturbed, killed))
    results = [json.loads((trial / "result.json").read_text()) for trial in (whole, resumed)]
    assert results[0]["scores"] == results[1]["scores"]
    assert results[0]["key"] == results[1]["key"]
    assert [step for step, _ in losses(resumed)] == list(range(EVERY, STEPS + 1, EVERY)), "every step once"
    assert losses(resumed) == losses(whole)
    before, now = final_state(whole), final_state(resumed)
    assert all(torch.equal(before["net"][name], now["net"][name]) for name in before["net"])
    moments = [state["optimizer"]["state"] for state in (before, now)]
    assert all(torch.equal(moments[0][key]["exp_avg_sq"], moments[1][key]["exp_avg_sq"]) for key in moments[0])


@pytest.mark.faults
def test_the_killed_study_needed_further_attempts_which_went_on(killed: Path) -> None:
    attempts = {row: lines(killed / f"{row}-s1" / "attempts.jsonl") for row in ROWS}
    reasons = [line["reason"] for of_row in attempts.values() for line in of_row if line.get("end")]
    assert any("was killed (SIGKILL" in reason for reason in reasons), reasons
    assert reasons.count("lost") >= 1
    assert reasons.count("finished") == len(ROWS)


@pytest.mark.faults
def test_mlflow_has_one_finished_run_per_trial_with_the_metric_of_the_task(undisturbed: Path, killed: Path) -> None:
    runs = undisturbed.parent
    assert mlflow_runs(runs) == [
        (name, "FINISHED") for name in ("B narrow s1", "base s1") for _ in (undisturbed, killed)
    ]
    with sqlite3.connect(f"file:{runs / 'mlflow.db'}?mode=ro", uri=True) as database:
        found = database.execute("SELECT key, value FROM latest_metrics WHERE key LIKE 'final/%'").fetchall()
    assert {key for key, _ in found} == {"final/accuracy"}
    assert len(found) == 4
    assert all(0.5 < value < 1 for _, value in found)


@pytest.mark.parametrize("kind", ["md", "csv", "json"])
def test_the_table_speaks_of_digits_alone(read: dict[str, Done], kind: str) -> None:
    text = read[f"table {kind}"].stdout
    assert "accuracy" in text
    assert not [word for word in FOREIGN if word in text.casefold()]
    if kind == "json":
        base, narrow = json.loads(text)
        assert (base["params"], narrow["params"]) == (2474, 626)
        assert (base["flops"], narrow["cells"]) == (None, {"width": 8})
    if kind == "md":
        assert "FLOPs: unknown" in text


def test_status_curves_plan_and_frames_of_it(read: dict[str, Done], undisturbed: Path) -> None:
    listed = json.loads(read["status"].stdout)
    assert [(line["row"], line["state"], line["step"]) for line in listed] == [(row, "finished", STEPS) for row in ROWS]
    assert read["curves"].stdout.startswith("digits-full: train/loss over training steps")
    assert "0 of 2 trials" in read["plan"].stdout
    frames = load(undisturbed)
    assert list(frames.scores["metric"]) == ["accuracy"] * 2
    assert list(frames.trials["params"]) == [2474, 626]
    measured = set(frames.curves["metric"])
    assert {name for name in measured if not name.startswith("system/")} == {"train/loss"}
    assert "system/cpu_utilization_percentage" in measured


def test_provenance_holds_the_task_by_name_version_and_hash_of_its_code(undisturbed: Path) -> None:
    about = json.loads((undisturbed / "base-s1" / "provenance.json").read_text())
    assert about["task"] == {"name": "digits", "version": 1, "source": "digits"}
    assert [about["code"]] == json.loads((undisturbed / "study.json").read_text())["code"]


def test_one_trial_with_two_workers(folder: Path, read: dict[str, Done]) -> None:
    assert read["two workers"].exit_code == 0, read["two workers"].stderr
    trial = folder / "runs" / "two" / "base-s1"
    assert json.loads((trial / "provenance.json").read_text())["device"].endswith("× 2")
    assert json.loads((trial / "result.json").read_text())["step"] == 40


@pytest.mark.faults
def test_every_process_has_the_platform_from_the_wheel(
    folder: Path, site: Path, killed: Path, read: dict[str, Done]
) -> None:
    """The commands, the sweeps, and on Ray the worker that was killed and those that trained afterwards."""
    notes = [note.read_text().split("\n") for note in (folder / "imports").iterdir()]
    assert {place for _, place in notes} == {str(site / "sweeps" / "__init__.py")}
    on_ray = [program for program, _ in notes if program.endswith("default_worker.py")]
    assert len(on_ray) >= 3
    assert len(notes) > len(on_ray)
