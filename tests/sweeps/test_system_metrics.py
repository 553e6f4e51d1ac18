"""CPU, memory and GPU in the journal: under MLflow's names, seldom, and each step once after a resume."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from ablate_in_folder import plan
from small_task import write_task
from typed import typed

from sweeps.events import Event, Noticed, Report, Started
from sweeps.planning.plan import recorded
from sweeps.running.driver import work
from sweeps.running.recorder import Recorder
from sweeps.running.system_metrics import EVERY_S, system_metrics, with_system_metrics
from tracking.replay import Replay
from tracking.study import write_study
from tracking.tracker import MemoryTracker

CPU = "system/cpu_utilization_percentage"
MEGABYTES, SHARE = "system/system_memory_usage_megabytes", "system/system_memory_usage_percentage"


def reports(times: list[float], **metrics: float) -> list[Report]:
    """Reports of steps 1, 2, …, each at its time, as the platform passes them on."""
    clock = iter(times)
    now = [0.0]

    def made() -> Iterator[Event]:
        yield Started("cpu", 1)
        for step in range(1, len(times) + 1):
            now[0] = next(clock)
            yield Noticed("look")
            yield Report(step, {"train/loss": 1.0, **metrics}, checkpoint=step)

    return [each for each in with_system_metrics(made(), lambda: now[0]) if isinstance(each, Report)]


def test_the_names_and_units_are_those_that_mlflow_shows() -> None:
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor

    monitor = CPUMonitor()
    monitor.collect_metrics()
    found = system_metrics()
    assert {f"system/{name}" for name in monitor.aggregate_metrics()} <= found.keys()
    assert 0 <= found[CPU] <= 100
    assert 0 < found[MEGABYTES] < psutil.virtual_memory().total / 1e6
    assert found[SHARE] == pytest.approx(100 * found[MEGABYTES] / (psutil.virtual_memory().total / 1e6), abs=0.1)


def test_the_first_report_has_them_and_then_one_of_each_ten_seconds() -> None:
    times = [0.0, 1.0, EVERY_S - 0.1, EVERY_S, EVERY_S + 1, 5 * EVERY_S, 5 * EVERY_S + 9]
    assert [CPU in report.metrics for report in reports(times)] == [True, False, False, True, False, True, False]


def test_a_report_stays_as_it_was_but_for_them() -> None:
    first, second = reports([0.0, 1.0])
    assert (first.step, first.checkpoint, first.metrics["train/loss"]) == (1, 1, 1.0)
    assert second.metrics == {"train/loss": 1.0}


def test_a_metric_of_the_task_by_the_same_name_stays() -> None:
    (report,) = reports([0.0], **{CPU: 12345.0})
    assert report.metrics[CPU] == 12345.0
    assert MEGABYTES in report.metrics


def test_a_machine_that_tells_nothing_ends_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", "/nowhere")
    (report,) = reports([0.0])
    assert report.metrics["train/loss"] == 1.0
    assert CPU not in report.metrics


def test_a_sample_costs_well_under_the_pause_between_two() -> None:
    system_metrics()
    before = time.process_time()
    for _ in range(20):
        system_metrics()
    assert (time.process_time() - before) / 20 < EVERY_S / 1000


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_gpu_of_this_process_is_measured() -> None:
    held = torch.zeros(10**8, device="cuda")
    found = system_metrics()
    name = f"system/gpu_{torch.cuda.current_device()}_memory_usage_megabytes"
    assert found[name] >= held.nbytes / 1e6


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose trial stopped at its first checkpoint, and resumed to its end."""
    folder = write_task(tmp_path_factory.mktemp("resumed").resolve())
    made = plan(folder, "task=small", "train.steps=8")
    write_study(recorded(made, ["ablate", "train"]))
    for asked in (lambda: True, lambda: False):
        recorder = Recorder(made.trials[0])
        recorder.begin()
        for event in work(recorder.assignment(), 0, 1, "", asked):
            assert recorder.take(recorder.attempt, event)
    assert made.trials[0].folder.state() == "finished"
    return made.folder


def journal(study: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (study / "base-s1" / "journal.jsonl").read_text().splitlines()]


def test_a_resumed_journal_has_each_step_once_and_metrics_of_each_attempt(resumed: Path) -> None:
    lines = journal(resumed)
    assert [line["step"] for line in lines] == [2, 4, 6, 8]
    with_them = [(line["attempt"], line["step"]) for line in lines if CPU in line["metrics"]]  # type: ignore[operator]
    assert {(1, 2), (2, 4)} <= set(with_them)


def test_mlflow_gets_each_of_them_once(resumed: Path) -> None:
    tracker = MemoryTracker()
    for _ in range(2):  # a second syncer starts from the ledger of the first
        Replay(resumed, tracker, "memory").once()
    (run,) = (run for run in tracker.runs.values() if "sweep.id" in run.tags)
    expected = [line["step"] for line in journal(resumed) if CPU in line["metrics"]]  # type: ignore[operator]
    assert sorted(point.step for point in run.points if point.name == CPU) == expected


def test_neither_table_nor_status_shows_them(resumed: Path) -> None:
    for words in (["status"], ["status", "--json"], ["table", "--format", "json"]):
        done = typed(resumed.parents[1], *words)
        assert done.exit_code == 0, done.output
        assert "system" not in done.stdout
