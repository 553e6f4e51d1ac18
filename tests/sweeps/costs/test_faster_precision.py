"""`plan` and `doctor` say if another precision is faster on this machine; they measure once, and
change nothing."""

import json
from pathlib import Path

import pytest
from allelse_in_folder import allelse, contents

from sweeps.planning.study_rows.compose import compose_base
from sweeps.planning.study_rows.task_choice import library_of
from transformer.training.timed_precision import seconds_by_precision

TASK = """
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from allelse import Divided, Metric, PrecisionChoice, Range, Task

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Model:
    size: Annotated[int, Range(1), Divided("width")]


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]
    precision: Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train


def seconds(config: Config) -> dict[str, float]:
    with (HERE / "measured").open("a") as file:
        file.write(f"{config.model.size}\\n")
    return {"fp32": 2.0, "bf16": 0.5}


task = Task(
    "toy",
    1,
    Config,
    (Metric("score", set="test"),),
    steps=lambda config: config.train.steps,
    work=print,
    precision=lambda config: config.train.precision,
    precision_choice=PrecisionChoice("train.precision", seconds),
)
"""
BASE = "model: {size: 8}\ntrain: {steps: 40, precision: fp32}\n"
TOY = ("task=toy", "sweep.name=toy")
FASTER = "bf16 trains 4.0 times as fast as fp32 on this machine; set train.precision=bf16 to use it"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the task; what is measured is kept beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "place"
    base = folder / "conf/task/toy/base.yaml"
    base.parent.mkdir(parents=True)
    base.write_text(BASE)
    (folder / "toy.py").write_text(TASK)
    return folder


def planned(folder: Path, *overrides: str) -> str:
    outcome = allelse(folder, "plan", *TOY, *overrides)
    assert outcome.returncode == 0, outcome.stderr
    return " ".join(outcome.stdout.split())


def measured(folder: Path) -> list[str]:
    return (folder / "measured").read_text().split()


def test_a_plan_says_that_another_precision_is_faster_and_measures_once(place: Path) -> None:
    assert FASTER in planned(place)
    assert FASTER in planned(place, "train.steps=50"), "other steps are no other sizes"
    assert measured(place) == ["8"]
    assert "times as fast" not in planned(place, "train.precision=bf16"), "the faster one is chosen"
    assert measured(place) == ["8"]
    assert FASTER in planned(place, "model.size=16")
    assert measured(place) == ["8", "16"]
    assert not (place / "runs").exists()
    default_plan = allelse(place, "plan", *TOY, "--json")
    fp32_plan = allelse(place, "plan", *TOY, "train.precision=fp32", "--json")
    keys = [json.loads(outcome.stdout)[0]["key"] for outcome in (default_plan, fp32_plan)]
    assert keys[0] == keys[1], "a plan changes no precision"


def test_nothing_is_measured_for_machines_elsewhere_or_for_gpus(place: Path) -> None:
    for override in ("cluster.address=10.77.0.1:6379", "cluster.gpus_per_worker=1"):
        assert "times as fast" not in planned(place, override)
    assert "measured" not in contents(place)


def test_a_damaged_cache_is_measured_again(place: Path) -> None:
    planned(place)
    (cache,) = (place.parent / "cache/allelse").iterdir()
    cache.write_text('{"damaged')
    assert FASTER in planned(place)
    assert measured(place) == ["8", "8"]


def test_the_doctor_says_it_of_each_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "folder"
    folder.mkdir()
    allelse(folder, "doctor", "--json")
    (cache,) = (tmp_path / "cache/allelse").iterdir()
    entries = json.loads(cache.read_text())
    cache.write_text(json.dumps({key: {"fp32": 1.0, "bf16": 3.0} for key in entries}))
    checks = json.loads(allelse(folder, "doctor", "--json").stdout)
    precisions = {
        entry["what"]: entry for entry in checks if entry["what"].startswith("precision at scale ")
    }
    assert precisions["precision at scale tiny"]["state"] == "ok"
    for scale in ("half", "paper"):
        entry = precisions[f"precision at scale {scale}"]
        assert (entry["state"], entry["found"]) == (
            "warning",
            "fp32 trains 3.0 times as fast as bf16 on this machine",
        )
        assert entry["advice"].startswith("set train.precision=fp32 ")


def test_every_precision_of_translation_is_timed() -> None:
    config = compose_base(["scale=half"], library_of([], Path.cwd())).base.config
    seconds = seconds_by_precision(config)
    assert list(seconds) == ["fp32", "bf16"]
    assert all(value > 0 for value in seconds.values())
