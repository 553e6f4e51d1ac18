"""Hours and memory in a plan: from finished trials, from calibration, or unknown. Real trials, real
processes."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from allelse_in_folder import ALLELSE, Done, allelse, contents
from served_commands import run_command

TASK = """
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeps.task import Costs, Metric, Observes, Range, Task, Trial

HERE = Path(os.environ["TOY_FOLDER"])  # where a person looks, and not the copy in which trials run


@dataclass(frozen=True)
class Model:
    size: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]
    report_every: Annotated[int, Range(1), Observes()]


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train


def work(trial: Trial[Config]) -> None:
    if (HERE / "fails").exists():
        raise ValueError("the work has a typo")
    while (HERE / "waits").exists():
        (HERE / "waited").write_text(str(os.getpid()))
        time.sleep(0.02)
    train = trial.config.train
    first = trial.saved.step + 1 if trial.saved else 1
    for step in range(first, train.steps + 1):
        stops = trial.stopping()
        if stops or step % train.report_every == 0 or step == train.steps:
            trial.report(step, {"train/loss": 1.0 / step})
            trial.checkpoint(step, step)
        if stops:
            return
    trial.evaluated("test", {"score": 1.0})


task = Task(
    "toy",
    1,
    Config,
    (Metric("score", set="test"),),
    steps=lambda config: config.train.steps,
    costs=lambda config: Costs(params=config.model.size, flops=1e9 * config.model.size * config.train.steps),
    work=work,
)
"""
HEAD = "# @package _global_\nrow: {group: A, change: size %d}\nmodel: {size: %d}\n"
FILES = {
    "toy.py": TASK,
    "conf/task/toy/base.yaml": "model: {size: 2}\ntrain: {steps: 40, report_every: 10}\n",
    **{f"conf/task/toy/row/size_{size}.yaml": HEAD % (size, size) for size in (1, 3, 4, 40)},
}
TOY = ("task=toy", "sweep.name=toy")
OTHER = "other"
SMALL = "sweep.rows=[base,size_1,size_3,size_4]"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the task. What processes write elsewhere lands beside it."""
    folder = tmp_path / "place"
    monkeypatch.setenv("TOY_FOLDER", str(folder))
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def planned(folder: Path, *words: str, study: str = "toy") -> dict[str, dict[str, Any]]:
    """What `plan --json` says of each trial."""
    outcome = must(allelse(folder, "plan", TOY[0], f"sweep.name={study}", *words, "--json"))
    return {f"{line['row']}-s{line['seed']}": line for line in json.loads(outcome.stdout)}


def must(outcome: Done) -> Done:
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome


def train(folder: Path, row: str) -> dict[str, Any]:
    """Train one trial in a process of its own. Returns its result."""
    must(run_command([str(ALLELSE), "train", *TOY, f"row={row}", "--add", "tracking=off"], folder))
    result: dict[str, Any] = json.loads((folder / f"runs/toy/{row}-s1/result.json").read_text())
    return result


def test_without_a_measurement_the_time_is_unknown_and_the_plan_says_how_to_know_it(
    place: Path,
) -> None:
    files_before = contents(place)
    outcome = must(allelse(place, "plan", *TOY, SMALL))
    output = " ".join(outcome.stdout.split())
    assert "Time: unknown; --calibrate measures it." in output
    assert all(
        line["seconds"] is None and line["memory_bytes"] is None
        for line in planned(place, SMALL).values()
    )
    assert contents(place) == files_before, "a plan starts and writes nothing"


def test_finished_trials_tell_the_time_of_their_row_and_of_rows_between_them(place: Path) -> None:
    small = train(place, "size_1")
    large = train(place, "size_4")
    lines = planned(
        place, "sweep.rows=[base,size_1,size_3,size_4,size_40]", "sweep.seeds=[1,2]", "--add"
    )
    second_seed = lines["size_1-s2"]
    assert (second_seed["seconds_source"], second_seed["interpolated"]) == ("finished", False)
    assert second_seed["seconds"] == pytest.approx(
        small["seconds"] + small["pace"]["scoring_seconds"]
    )
    assert second_seed["memory_bytes"] == small["pace"]["peak_bytes"]
    size_3 = lines["size_3-s1"]
    assert (size_3["seconds_source"], size_3["interpolated"]) == ("finished", True)
    training = sorted([small["seconds"], large["seconds"]])
    assert training[0] / 2 <= size_3["seconds"] - size_3["scoring_seconds"] <= training[1] * 2
    assert lines["size_40-s1"]["seconds"] is None, (
        "nothing is extrapolated far beyond what was measured"
    )
    other_plan = planned(place, SMALL, "train.report_every=20", study=OTHER)
    assert all(line["seconds"] is None for line in other_plan.values()), (
        "another key that observes may take another time"
    )
    other_plan = planned(place, SMALL, "cluster.cpus_per_worker=2", study=OTHER)
    assert all(line["seconds"] is None for line in other_plan.values()), (
        "other threads take another time"
    )
    other_plan = planned(place, SMALL, study=OTHER)
    assert all(line["seconds_source"] == "finished" for line in other_plan.values()), (
        "another study of this folder counts"
    )


def test_calibration_measures_three_rows_and_leaves_the_study_alone(
    place: Path, temporary: Path
) -> None:
    outcome = must(allelse(place, "plan", *TOY, SMALL, "--calibrate"))
    assert "calibration" in outcome.stdout
    assert "Time: unknown" not in outcome.stdout
    assert not (place / "runs/toy").exists()
    assert [path.name for path in (place / "runs").iterdir()] == [".calibration"]
    assert contents(temporary) == []
    lines = planned(place, SMALL)
    assert {name: line["interpolated"] for name, line in lines.items()} == {
        "base-s1": False,
        "size_1-s1": False,
        "size_3-s1": True,
        "size_4-s1": False,
    }
    assert all(
        line["seconds_source"] == "calibrated" and line["seconds"] > 0 for line in lines.values()
    )
    assert all(line["memory_bytes"] > 10e6 for line in lines.values())
    assert max(line["ends_after_seconds"] for line in lines.values()) > 0
    (place / "toy.py").write_text(TASK + "\n# another version\n")
    assert all(line["seconds"] is None for line in planned(place, SMALL).values()), (
        "other code takes another time"
    )


def test_a_finished_trial_counts_more_than_calibration(place: Path, temporary: Path) -> None:
    must(allelse(place, "plan", *TOY, "sweep.rows=[base]", "--calibrate"))
    line_before = planned(place, "sweep.rows=[base]")["base-s1"]
    assert line_before["seconds_source"] == "calibrated"
    result = train(place, "base")
    line = planned(place, "sweep.rows=[base]", "sweep.seeds=[2]", "--add")["base-s2"]
    assert line["seconds_source"] == "finished"
    assert line["seconds"] == pytest.approx(result["seconds"] + result["pace"]["scoring_seconds"])
    assert line["memory_bytes"] == result["pace"]["peak_bytes"]


def test_a_work_that_fails_in_calibration_shows_its_error_and_leaves_nothing(
    place: Path, temporary: Path
) -> None:
    (place / "fails").touch()
    files_before = contents(place)
    outcome = allelse(place, "plan", *TOY, SMALL, "--calibrate")
    assert outcome.returncode == 1
    assert "ValueError: the work has a typo" in outcome.stderr
    assert 'raise ValueError("the work has a typo")' in outcome.stderr
    assert "Failed in calibration" in outcome.stderr
    assert [path for path in contents(place) if "__pycache__" not in path] == files_before
    assert contents(temporary) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_calibration_leaves_nothing(
    place: Path, temporary: Path, number: signal.Signals
) -> None:
    (place / "waits").touch()
    files_before = contents(place)
    command = [str(ALLELSE), "plan", *TOY, SMALL, "--calibrate"]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    marker = place / "waited"
    while not (marker.exists() and marker.read_text()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    worker = int(marker.read_text())
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode in (130, 143)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    files_after = [
        path for path in contents(place) if "__pycache__" not in path and path != "waited"
    ]
    assert files_after == files_before
    assert contents(temporary) == []


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("cluster.workers=2", "cluster.workers is 2, but --calibrate runs one process per trial"),
        (
            "cluster.address=auto",
            "cluster.address is auto, but --calibrate measures only on this machine",
        ),
        ("cluster.cpus_per_worker=999", "--calibrate needs 999 CPUs per worker"),
    ],
)
def test_calibration_is_refused_where_it_would_say_nothing_of_the_sweep(
    place: Path, typed: str, words: str
) -> None:
    files_before = contents(place)
    outcome = allelse(place, "plan", *TOY, SMALL, "--calibrate", typed)
    assert outcome.returncode == 2
    assert words in " ".join(outcome.stderr.split())
    assert contents(place) == files_before
