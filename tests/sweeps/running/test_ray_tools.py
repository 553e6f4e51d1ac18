"""Ray's own tools: its dashboard, and a sweep as a job of a cluster, by the commands of
docs/cluster.md."""

import json
import os
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from faulty_task import reasons, train_to, write_paced_task
from leftovers import check_nothing_left, wait_for_end
from machines import NOTICED_WHEN_BUSY, Inside, Machine, Machines
from studies import Running, lines, printed, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
STEPS = 40
WORDS = (
    "task=small",
    "sweep.name=s",
    "sweep.rows=[base]",
    f"train.steps={STEPS}",
    "cluster.dashboard=true",
)
HERE = ("cluster.workers=1", "cluster.cpus_per_worker=1", "cluster.gpus_per_worker=0")


def test_a_sweep_starts_the_dashboard_tells_where_it_is_and_ends_it(tmp_path: Path) -> None:
    folder = write_paced_task(tmp_path.resolve())
    train_to(2, folder)
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    running = Running.start(
        "sweep", *WORDS, cwd=folder, trial=folder / "runs" / "s" / "base-s1", env=environment
    )
    with printed(running.process) as output:
        match = re.fullmatch(r"Ray's dashboard: (http://127\.0\.0\.1:\d+)\n", output.readline())
    assert match
    with urlopen(match[1], timeout=60) as page:
        assert "Ray Dashboard" in page.read().decode()
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 130
    wait_for_end(folder)


def test_a_job_that_was_stopped_is_finished_by_the_same_command_and_leaves_the_cluster_clean(
    tmp_path: Path,
) -> None:
    """The task's files are sent with each job. While it trains, Ray lists the trial by its name."""
    shared = tmp_path.resolve()
    study = shared / "runs" / "s"
    code = write_paced_task(shared / "code", f"\nHERE = Path({str(shared)!r})\n")
    train_to(5, shared)
    with closing(Machines(NOTICED_WHEN_BUSY)) as cluster:
        head = cluster.add("head")
        head.run("ray", "start", "--head", "--port=6379", "--num-cpus=1", "--disable-usage-stats")
        running = submitted(head, code, "first")
        wait_until(
            lambda: [*study.rglob("step-4/manifest.json")] != [] or running.ended(),
            "a checkpoint",
            120,
        )
        assert not running.ended(), running.end().output
        wait_until(
            lambda: ray_list(head, "tasks", "name=base-s1", "state=RUNNING") != [],
            "the task in Ray's list",
            60,
        )
        assert [
            actor["repr_name"] for actor in ray_list(head, "actors", "class_name=WorkerActor")
        ] == ["worker 0"]
        head.run("ray", "job", "stop", "first")
        assert "Ray's dashboard: http://127.0.0.1:8265" in running.end().output
        assert reasons(study / "base-s1") in ([], ["interrupted"])
        train_to(STEPS, shared)
        outcome = submitted(head, code, "second").end()
        assert outcome.code == 0, outcome.output
        assert "base-s1: resumed at step " in outcome.output
        assert "1 of 1 finished" in outcome.output
        check_nothing_left(cluster, study)
        assert ray_list(head, "actors", "state=ALIVE") == []
    assert [line["step"] for line in lines(study / "base-s1" / "journal.jsonl")] == list(
        range(2, STEPS + 1, 2)
    )


def submitted(head: Machine, code: Path, name: str) -> Inside:
    """The documented job, in a folder with the code of a task."""
    (line,) = re.findall(r"^ray job submit .*", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    line = line.replace("/shared", str(code.parent)).replace(
        "submit", f"submit --submission-id {name}", 1
    )
    return head.popen(["bash", "-ec", " ".join([line, *WORDS, *HERE])], cwd=code)


def ray_list(head: Machine, resource: str, *filters: str) -> list[Any]:
    """What Ray lists, in one line."""
    words = [word for condition in filters for word in ("--filter", condition)]
    *_, line = head.run("ray", "list", resource, *words, "--detail", "--format=json").splitlines()
    entries: list[Any] = [] if line == "No resource in the cluster" else json.loads(line)
    return entries
