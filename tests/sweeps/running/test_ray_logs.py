"""Ray's logs: when they stay, and which lines of a worker's error.txt shows."""

import io
import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from small_task import write_task

from sweeps.config.settings import Settings
from sweeps.planning.continuation import plan_sweep
from sweeps.processes.interruption import Interrupted
from sweeps.running.queue import Queue
from sweeps.running.sweep import Connection, run_plan
from sweeps.running.worker_process import WorkerPlace

WORDS = ["task=small", "sweep.name=s", "sweep.rows=[base]", "sweep.seeds=[1,2]"]


@pytest.mark.parametrize("fails", [True, False])
def test_an_interruption_keeps_the_logs_of_an_earlier_failure(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tmp_path / "session"
    session.mkdir()

    def open_own_ray(connection: Connection, stopping: object) -> None:
        connection._own_session = session

    def interrupt(settings: Settings, queue: Queue, *more: Any) -> None:
        if fails:
            queue.progress.fail("base-s1", "ValueError: no")
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(Connection, "open", open_own_ray)
    monkeypatch.setattr("sweeps.running.sweep.RayWatch", lambda say, record: nullcontext())
    monkeypatch.setattr("sweeps.running.tune.run_on_tune", interrupt)
    plan = plan_sweep(WORDS, here=write_task(tmp_path / "here"))
    output = io.StringIO()
    with pytest.raises(Interrupted):
        run_plan(plan, ["allelse", "sweep"], Console(file=output, width=400), tracked=False)
    assert session.is_dir() == fails
    assert (f"Ray's logs: {session}/logs" in output.getvalue()) == fails


def test_the_last_lines_of_a_worker_are_all_but_the_marks_of_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = ":job_id:01000000\n:task_name:facts\n:actor_name:WorkerActor\n"
    log = tmp_path / "worker.err"
    log.write_text(f"{marks}\n: no such file\n::warning::disk is full\n")
    context = SimpleNamespace(get_node_id=lambda: "here")
    monkeypatch.setattr("ray.get_runtime_context", lambda: context)
    place = WorkerPlace("node", "here", 12, log, None)
    assert place.last_lines() == [": no such file", "::warning::disk is full"]
