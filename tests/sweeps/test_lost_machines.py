"""Machines and links are lost under a running sweep, and come back: it ends like an undisturbed one, bit for bit."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_task import reasons
from machines import Machines, machines, needs_namespaces
from small_text import write_text
from studies import lines, wait_until
from sweep_on_machines import Sweep, check_like, machine_of_a_worker, workers

pytestmark = [pytest.mark.ray, pytest.mark.slow, needs_namespaces]
STEPS = 400
NAMES = ("node-a", "node-b", "node-c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("machines").resolve())


@pytest.fixture
def three() -> Iterator[Machines]:
    """Each has one CPU. Their host names mean 127.0.0.1, and the workers of a trial meet all the same."""
    with machines(*NAMES, host_is_local=True) as made:
        yield made


def undisturbed(made: Machines, folder: Path, workers: int, steps: int = STEPS) -> Sweep:
    sweep = Sweep(made, folder, f"undisturbed-{workers}-{steps}", steps, workers)
    ended = sweep.run(made.head)
    assert ended.code == 0, ended.output
    return sweep


def test_a_killed_machine_costs_its_trial_one_attempt(three: Machines, folder: Path) -> None:
    """Two workers lie on two of three machines, then on the two that are left."""
    control = undisturbed(three, folder, workers=2)
    sweep = Sweep(three, folder, "killed", STEPS, workers=2)
    running = sweep.start(three.head)
    sweep.wait_for_step(60, running)
    lost = machine_of_a_worker(three)
    lost.kill()
    ended = running.end()
    assert ended.code == 0, ended.output
    cause, _ = reasons(sweep.trial)
    assert re.match(rf"worker lost: (worker \d \(pid \d+ on {lost.name}\)|the trial's process) ", cause), cause
    assert re.search(r"base-s1: resumed at step \d+", ended.output)
    check_like(sweep, control)


@pytest.mark.faults
@pytest.mark.parametrize("size", [1, 2])
def test_a_link_that_is_cut_and_restored_gives_no_step_twice(three: Machines, folder: Path, size: int) -> None:
    """The worker that was cut off trains on, and finds its successor when it is back."""
    steps = 1000
    control = undisturbed(three, folder, size, steps)
    sweep = Sweep(three, folder, f"cut-{size}", steps, size)
    running = sweep.start(three.head)
    sweep.wait_for_step(60, running)
    lost = machine_of_a_worker(three)
    three.cut(lost)
    wait_until(lambda: sweep.attempts() > 1 or running.ended(), "the next attempt", 180)
    three.restore(lost)
    ended = running.end()
    assert ended.code == 0, ended.output
    assert len(reasons(sweep.trial)) == 2
    check_like(sweep, control)
    assert not list(sweep.trial.glob("error.txt"))


@pytest.mark.faults
@pytest.mark.parametrize("driver", ["node-a", "node-b"])
def test_the_loss_of_the_head_ends_the_sweep_and_the_same_command_finishes_it(
    three: Machines, folder: Path, driver: str
) -> None:
    control = undisturbed(three, folder, workers=2)
    sweep = Sweep(three, folder, f"head-{driver}", STEPS, workers=2)
    runner = three.all[NAMES.index(driver)]
    running = sweep.start(runner)
    sweep.wait_for_step(60, running)
    three.head.kill()
    ended = running.end()
    if runner is not three.head:
        assert ended.code == 1, ended.output
        (line,) = [text for text in ended.output.splitlines() if "no longer answers" in text]
        assert "To continue, run again: ablate sweep" in line
        assert "Traceback" not in ended.output
        assert re.match(r"lost: Ray's head at 10\.77\.0\.1:\d+ no longer answers", reasons(sweep.trial)[0])
    for machine in three.all:
        if machine is not three.head:
            machine.kill()
        three.boot(machine)
        three.start_ray(machine)
    again = sweep.run(three.all[0])
    assert again.code == 0, again.output
    check_like(sweep, control)


@pytest.mark.faults
def test_a_cluster_that_shrinks_to_nothing_and_grows_again_finishes(folder: Path) -> None:
    made = Machines()
    try:
        made.add("node-a", cpus=0)
        lost = made.add("node-b")
        for machine in made.all:
            made.start_ray(machine)
        control = undisturbed(made, folder, workers=1)
        sweep = Sweep(made, folder, "shrunk", STEPS, workers=1)
        running = sweep.start(made.head)
        sweep.wait_for_step(60, running)
        lost.kill()
        wait_until(lambda: bool(reasons(sweep.trial)) or running.ended(), "the loss", 120)
        made.start_ray(made.add("node-c"))
        ended = running.end()
        assert ended.code == 0, ended.output
        assert reasons(sweep.trial)[-1] == "finished"
        check_like(sweep, control)
    finally:
        made.close()


@pytest.mark.faults
def test_a_second_sweep_from_another_machine_is_told_who_holds_the_study(three: Machines, folder: Path) -> None:
    sweep = Sweep(three, folder, "held", STEPS, workers=1)
    running = sweep.start(three.head)
    sweep.wait_for_step(20, running)
    refused = sweep.run(three.all[1])
    assert refused.code == 2, refused.output
    assert re.search(r"base-s1 is being run by pid \d+ on node-a since ", refused.output), refused.output
    assert "Nothing was started." in refused.output
    running.signal(signal.SIGINT)
    assert running.end().code == 130
    elsewhere = sweep.run(three.all[1])
    assert elsewhere.code == 0, elsewhere.output
    began = [line["host"] for line in lines(sweep.trial / "attempts.jsonl") if "end" not in line]
    assert began == ["node-a", "node-b"]
    wait_until(lambda: not workers(three), "the end of all workers", 60)
