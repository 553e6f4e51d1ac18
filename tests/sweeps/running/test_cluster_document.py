"""The commands of docs/cluster.md for two nodes, typed on two machines in the document's order."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from machines import NOTICED_SOON, Ended, Inside, Machine, Machines
from small_text import TEXT, write_text
from studies import SMALL, last, newest_checkpoint, printed, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
HERE = ["cluster.gpus_per_worker=0", "cluster.cpus_per_worker=1", "cluster.workers=2"]
"""What a study of the document lacks on machines without GPUs."""


def commands(heading: str) -> list[str]:
    """The lines of the code blocks below a heading."""
    section = DOCUMENT.read_text("utf-8").split(f"{heading}\n", 1)[1]
    section = re.split(r"^##", section, maxsplit=1, flags=re.MULTILINE)[0]
    return [
        line
        for block in re.findall(r"```\n(.*?)```", section, re.DOTALL)
        for line in block.splitlines()
    ]


@pytest.fixture
def two() -> Iterator[Machines]:
    with closing(Machines()) as cluster:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", *NOTICED_SOON):
            del cluster.env[name]
        cluster.add("node-a", cpus=2)
        cluster.add("node-b", cpus=2)
        yield cluster


def typed(machine: Machine, settings: list[str], line: str, folder: Path, *options: str) -> str:
    """What a shell prints in which the settings were typed before."""
    return machine.run(
        "bash", "-ec", script(settings, " ".join([line, *options]), folder), cwd=folder, timeout=300
    )


def script(settings: list[str], line: str, folder: Path) -> str:
    return "\n".join([*settings, line]).replace("/shared", str(folder))


def test_the_commands_for_two_nodes_run_a_sweep_on_both(two: Machines, tmp_path: Path) -> None:
    folder = write_text(tmp_path.resolve())
    settings = with_ray(two, folder)
    check, sweep = commands("### Run the sweep")
    study = [*SMALL, *TEXT, "sweep.name=documented", "sweep.rows=[base]", "train.steps=40", *HERE]
    checked = typed(two.head, settings, check, folder, *study)
    assert "Checked: folders, tracking store, machines" in checked
    assert "1 of 1 finished" in typed(two.head, settings, sweep, folder, *study)
    watch, follow, stop_trial, stop = commands("## Watch and stop from a laptop")
    command = [
        sweep,
        *last([*study, "sweep.name=long", "train.steps=100000", "train.checkpoint_every=20"]),
    ]
    running = started(two, settings, command, folder)
    watcher = two.all[1].popen(
        ["bash", "-ec", script([], f"{watch} sweep.name=long", folder)], cwd=folder
    )
    follower = looking(two.all[1], follow, "Follows the log until the trial ends", folder)
    assert stopped_by(stop_trial.replace("big-s1", "base-s1"), two, running, folder).code == 130
    output = watcher.end().output
    assert re.search(r"base +1 +interrupted", output), output
    log = follower.end()
    assert (log.code, log.output.startswith("--- attempt 1, ")) == (0, True), log.output
    running = started(two, settings, command, folder)
    assert stopped_by(stop, two, running, folder).code == 130


def test_a_node_without_cpus_sweeps_on_the_cluster_that_it_has_joined(
    two: Machines, tmp_path: Path
) -> None:
    """It is taken out, joins again, and sweeps without ``cluster.address``: auto, its default."""
    folder = write_text(tmp_path.resolve())
    node = two.all[1]
    settings = with_ray(two, folder)
    status = in_prose(f"ray status --address {two.address}")
    wait_until(
        lambda: typed(two.head, settings, status, folder).count(" node_") == 2, "both nodes", 60
    )
    typed(node, settings, in_prose("ray stop"), folder)
    wait_until(
        lambda: typed(two.head, settings, status, folder).count(" node_") == 1,
        "the end of node-b",
        60,
    )
    *_, join = commands("### Start Ray")
    typed(
        node, settings, join, folder, in_prose("ray start --num-cpus=0").removeprefix("ray start ")
    )
    _, sweep = commands("### Run the sweep")
    sweep = sweep.replace(f" cluster.address={two.address}", "")
    assert "address" not in sweep
    study = [
        *SMALL,
        *TEXT,
        "sweep.rows=[base]",
        "train.steps=40",
        *HERE,
        "cluster.workers=1",
        "sweep.share=false",
    ]
    for name, address in (("joined", []), ("named", [f"export RAY_ADDRESS={two.address}"])):
        output = typed(
            node, [*settings, *address], sweep, folder, *last([*study, f"sweep.name={name}"])
        )
        assert "1 of 1 finished" in output
        provenance = json.loads(
            (folder / "runs" / name / "base-s1" / "provenance.json").read_text()
        )
        assert (provenance["host"], provenance["driver"]) == ("node-a", "node-b")


def with_ray(two: Machines, folder: Path) -> list[str]:
    """Start Ray as in the document, line after line; returns those that each further shell
    needs."""
    *preparation, head, node = commands("### Start Ray")
    token, *settings = preparation
    assert "> /shared/ray-token" in token, "what the settings read must be made before"
    assert head.count(two.head.address) == 1
    typed(two.head, preparation, head, folder, "--num-cpus=1")
    typed(two.all[1], settings, node, folder, "--num-cpus=1")
    return settings


def in_prose(line: str) -> str:
    """A command that the document names between its blocks."""
    assert f"`{line}`" in " ".join(DOCUMENT.read_text("utf-8").split())
    return line


def started(two: Machines, settings: list[str], sweep: list[str], folder: Path) -> Inside:
    """A sweep on the head that has saved a checkpoint."""
    trial = folder / "runs" / "long" / "base-s1"
    step_before = newest_checkpoint(trial)
    running = two.head.popen(["bash", "-ec", script(settings, " ".join(sweep), folder)], cwd=folder)
    wait_until(lambda: newest_checkpoint(trial) > step_before or running.ended(), "a checkpoint")
    assert not running.ended(), running.end().output
    return running


def looking(machine: Machine, line: str, first: str, folder: Path) -> Inside:
    """A command that shows the sweep, with this at first, and goes on."""
    view = machine.popen(["bash", "-ec", script([], f"{line} sweep.name=long", folder)], cwd=folder)
    with printed(view.process, 120) as output:
        top_line = first_line(output.fileno())
    assert top_line.startswith(first), top_line
    assert not view.ended()
    return view


def first_line(stream: int) -> str:
    """Read byte by byte: a buffer would keep later lines from who reads the rest."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(stream, 1)):
        line += byte
    return line.decode()


def stopped_by(line: str, two: Machines, running: Inside, folder: Path) -> Ended:
    """The sweep ends as the command on the other machine asks."""
    typed(two.all[1], [], line, folder, "sweep.name=long")
    outcome = running.end()
    assert re.search(
        r"base-s1.* resumes from step \d+|base-s1: .*as `allelse stop` asked", outcome.output
    ), outcome.output
    wait_until(lambda: not two.head.processes("ray::WorkerActor"), "the end of all workers", 60)
    return outcome
