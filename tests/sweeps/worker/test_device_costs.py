"""FLOPs as the paper counts them: typed or measured, in the result, the provenance, the table and
the report."""

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from allelse_in_folder import ALLELSE, allelse
from served_commands import run_command

from sweeps.worker.pace import CpuTime, TrainingTime

TASK = """
from dataclasses import dataclass
from typing import Annotated

from sweeps.task import Costs, Metric, Range, Task, Trial


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Config:
    train: Train


def work(trial: Trial[Config]) -> None:
    {imports}
    for step in range(1, trial.config.train.steps + 1):
        trial.report(step, {{"train/loss": 1.0 / step}})
    trial.evaluated("test", {{"score": 1.0}})


metrics = (Metric("score", set="test"),)
task = Task(
    "toy", 1, Config, metrics, lambda config: config.train.steps, work=work, costs=lambda config: Costs(flops=6e9)
)
"""
STUDY = ("task=toy", "sweep.name=toy")


def trained(folder: Path, *words: str, imports: str = "pass") -> dict[str, Any]:
    """The result of base, trained in a process of its own."""
    (folder / "toy.py").write_text(TASK.format(imports=imports))
    base = folder / "conf/task/toy/base.yaml"
    base.parent.mkdir(parents=True)
    base.write_text("train: {steps: 3}\n")
    command = [str(ALLELSE), "train", *STUDY, "row=base", "tracking=off", *words]
    run_command(command, folder).check_returncode()
    result: dict[str, Any] = json.loads((folder / "runs/toy/base-s1/result.json").read_text())
    return result


def test_a_typed_rate_gives_device_flops_and_mfu_in_every_output(tmp_path: Path) -> None:
    result = trained(tmp_path, "cluster.sustained_tflops=2")
    assert result["device_flops"] == pytest.approx(result["seconds"] * 2e12)
    assert result["mfu"] == pytest.approx(6e9 / result["device_flops"])
    assert result["sustained"] == {"flops_per_s": 2e12, "source": "typed"}
    provenance = json.loads((tmp_path / "runs/toy/base-s1/provenance.json").read_text())
    assert provenance["sustained"] == result["sustained"]
    (row,) = csv.DictReader(
        io.StringIO(allelse(tmp_path, "table", STUDY[1], "--format", "csv").stdout)
    )
    assert (float(row["device_flops"]), float(row["mfu"])) == (
        result["device_flops"],
        result["mfu"],
    )
    table = allelse(tmp_path, "table", STUDY[1], "--columns", "flops,device_flops,mfu").stdout
    assert "device FLOPs" in table
    assert "MFU" in table
    assert "what a device sustains (typed)" in " ".join(table.split())
    allelse(tmp_path, "report", STUDY[1])
    page = (tmp_path / "runs/toy/report.html").read_text()
    assert "device FLOPs per seed" in page
    assert "what a device sustains (typed)" in page


def test_a_task_with_torch_has_its_device_measured_with_precision_and_threads(
    tmp_path: Path,
) -> None:
    result = trained(tmp_path, imports="import torch; torch.set_num_threads(1)")
    rate = result["sustained"]
    assert {name: rate[name] for name in rate if name != "flops_per_s"} == {
        "source": "measured",
        "precision": "fp32",
        "threads": 1,
    }
    assert 1e8 < rate["flops_per_s"] < 1e15
    assert result["device_flops"] == pytest.approx(result["seconds"] * rate["flops_per_s"])


def test_without_torch_and_a_typed_rate_there_are_no_device_flops(tmp_path: Path) -> None:
    result = trained(tmp_path)
    assert not {"device_flops", "mfu", "sustained"} & result.keys()


def test_a_rate_must_be_above_zero(tmp_path: Path) -> None:
    outcome = allelse(tmp_path, "plan", "cluster.sustained_tflops=0")
    assert outcome.returncode == 2
    assert "cluster.sustained_tflops" in outcome.stderr


def test_the_cpu_seconds_of_a_measurement_are_not_the_training_s() -> None:
    cpu = SimpleNamespace(own=1.0, total=11.0)
    time = TrainingTime(0.0, 0.0, cast(CpuTime, cpu))
    time.go_on()
    with time.left_out():
        cpu.own = 4.0
        cpu.total = 14.0
    cpu.own = 6.0
    cpu.total = 16.0
    assert time.cpu_seconds == 2.0
