"""The example task with a network: planned, swept on Ray, killed and resumed to the same bits, shown."""

import json
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from studies import Running, ablate, lines, mlflow_runs, wait_until
from typed import typed

import tracking
from examples import copied

pytestmark = [pytest.mark.ray, pytest.mark.slow]
STEPS, EVERY = 600, 20
ROWS = ("base", "narrow")
WORDS = ["task=digits", f"sweep.rows=[{','.join(ROWS)}]", f"train.steps={STEPS}"]
FOREIGN = ("ppl", "bleu", "table 3", "beam", "paper")


@pytest.fixture(scope="module")
def folder(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied("digits", furnish(tmp_path_factory.mktemp("digits").resolve()))


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> Path:
    """A study of two rows, trained one after the other in this process."""
    for row in ROWS:
        done = typed(folder, "train", "task=digits", f"train.steps={STEPS}", f"row={row}", "--add")
        assert done.exit_code == 0, done.output
    return folder / "runs" / "digits-full"


@pytest.fixture(scope="module")
def killed(folder: Path, undisturbed: Path) -> Path:
    """The same study, of which a worker was killed, then the sweep itself."""
    study = folder / "runs" / "killed"
    running = Running.start("sweep", *WORDS, "sweep.name=killed", cwd=folder, trial=study / "base-s1")
    running.wait_for_step(5 * EVERY)
    running.workers()[0].kill()
    wait_until(lambda: any(_resumed(study / f"{row}-s1") for row in ROWS) or running.ended(), "a second attempt")
    assert not running.ended(), running.process.communicate()[0]
    running.kill()
    again = ablate("sweep", "sweep.name=killed", cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    return study


def _resumed(trial: Path) -> bool:
    return any(line["attempt"] == 2 and "checkpoint" in line for line in lines(trial / "journal.jsonl"))


def final_state(trial: Path) -> dict[str, Any]:
    newest = max(trial.glob("checkpoints/*/a*/step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    assert newest.name == f"step-{STEPS}"
    state: dict[str, Any] = pickle.loads((newest / "state.pickle").read_bytes())
    return state


def losses(trial: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["metrics"]["train/loss"]) for line in lines(trial / "journal.jsonl")]


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


def test_the_killed_study_needed_further_attempts_which_went_on(killed: Path) -> None:
    attempts = {row: lines(killed / f"{row}-s1" / "attempts.jsonl") for row in ROWS}
    reasons = [line["reason"] for of_row in attempts.values() for line in of_row if line.get("end")]
    assert any("was killed (SIGKILL" in reason for reason in reasons), reasons
    assert reasons.count("lost") >= 1
    assert reasons.count("finished") == len(ROWS)


def test_mlflow_has_one_finished_run_per_trial_with_the_metric_of_the_task(undisturbed: Path, killed: Path) -> None:
    runs = undisturbed.parent
    assert mlflow_runs(runs) == [
        (name, "FINISHED") for name in ("B narrow s1", "base s1") for _ in (undisturbed, killed)
    ]
    with sqlite3.connect(f"file:{runs / 'mlflow.db'}?mode=ro", uri=True) as database:
        found = database.execute("SELECT key, value FROM latest_metrics WHERE key LIKE 'test/%'").fetchall()
    assert {key for key, _ in found} == {"test/accuracy"}
    assert len(found) == 4
    assert all(0.5 < value < 1 for _, value in found)


@pytest.mark.parametrize("kind", ["md", "csv", "json"])
def test_the_table_speaks_of_digits_alone(folder: Path, undisturbed: Path, kind: str) -> None:
    text = typed(folder, "table", "sweep.name=digits-full", "--format", kind).output
    assert "accuracy" in text
    assert not [word for word in FOREIGN if word in text.casefold()]
    if kind == "json":
        base, narrow = json.loads(text)
        assert (base["params"], narrow["params"]) == (2474, 626)
        assert (base["flops"], narrow["cells"]) == (None, {"width": 8})
    if kind == "md":
        assert "FLOPs: unknown" in text


def test_status_plan_and_frames_of_it(folder: Path, undisturbed: Path) -> None:
    listed = json.loads(typed(folder, "status", "sweep.name=digits-full", "--json").stdout)
    assert [(line["row"], line["state"], line["step"]) for line in listed] == [(row, "finished", STEPS) for row in ROWS]
    assert "0 of 2 trials" in typed(folder, "plan", "sweep.name=digits-full").stdout
    frames = tracking.load(undisturbed)
    assert list(frames.scores["metric"]) == ["accuracy"] * 2
    assert list(frames.trials["params"]) == [2474, 626]
    measured = set(frames.curves["metric"])
    assert {name for name in measured if not name.startswith("system/")} == {"train/loss"}
    assert "system/cpu_utilization_percentage" in measured


def test_provenance_holds_the_task_by_name_version_and_hash(undisturbed: Path) -> None:
    task = json.loads((undisturbed / "base-s1" / "provenance.json").read_text())["task"]
    assert (task["name"], task["version"], task["source"]) == ("digits", 1, "digits")
    assert list(task["files"]) == ["digits.py"]


@pytest.mark.parametrize("words", [["translate"], ["evaluate"], ["export", "--to", "safetensors"]])
def test_verbs_for_translations_refuse_it(folder: Path, undisturbed: Path, words: list[str]) -> None:
    verb, *options = words
    done = typed(folder, verb, "base-s1", "sweep.name=digits-full", *options)
    assert done.exit_code == 2
    assert "base-s1 is a trial of the task digits" in " ".join(done.stderr.split())


def test_one_trial_with_two_workers(folder: Path) -> None:
    words = ["task=digits", "sweep.name=two", "cluster.workers=2", "train.steps=40"]
    done = typed(folder, "train", *words)
    assert done.exit_code == 0, done.output
    trial = folder / "runs" / "two" / "base-s1"
    assert json.loads((trial / "provenance.json").read_text())["device"].endswith("× 2")
    assert json.loads((trial / "result.json").read_text())["step"] == 40
