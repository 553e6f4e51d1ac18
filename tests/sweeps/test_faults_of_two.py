"""A trial of two workers, or of one, whose processes are killed: it ends with the bits of an undisturbed one."""

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from faulty_task import reasons
from one_line import only_line
from pairs import check_nothing_left, check_same, finish, start, trial_in
from studies import Running, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
LONG = "train.steps=800"
"""Some eight seconds, in which several faults strike."""


@pytest.fixture(scope="module")
def undisturbed(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(furnish(tmp_path_factory.mktemp("undisturbed").resolve()))


def named(running: Running, name: str) -> psutil.Process:
    """The process of this name, of the sweep that runs."""
    family = psutil.Process(running.process.pid).children(recursive=True)
    (found,) = [process for process in family if process.name() == name]
    return found


@pytest.mark.parametrize(("name", "words"), [("gcs_server", "head process"), ("raylet", "node process")])
def test_the_end_of_ray_is_one_line_and_the_same_command_finishes(
    name: str, words: str, workplace: Path, undisturbed: Path
) -> None:
    running = start(workplace)
    running.wait_for_step(40)
    named(running, name).kill()
    code, output = running.finish()
    assert code == 1, output
    line = only_line(output, "ended; the trials resume")
    assert f"Ray's {words} ({name}) ended; the trials resume from their last checkpoints. To continue, run" in line
    finish(workplace)
    assert reasons(trial_in(workplace)) == [f"lost: Ray's {words} ({name}) ended", "finished"]
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_the_same_command_right_after_the_kill_of_a_sweep_finishes(workplace: Path, undisturbed: Path) -> None:
    """The workers of the killed sweep still end, and may still write."""
    running = start(workplace)
    running.wait_for_step(40)
    running.kill()
    finish(workplace)
    assert reasons(trial_in(workplace)) == ["lost", "finished"]
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_a_killed_syncer_is_started_again(workplace: Path, undisturbed: Path) -> None:
    running = start(workplace)
    running.wait_for_step(40)
    running.processes("tracking.sync")[0].kill()
    code, output = running.finish()
    assert code == 0, output
    assert "ended with SIGKILL; it starts again in 1 s" in output
    assert reasons(trial_in(workplace)) == ["finished"]
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def kill_the_trials_process_twice(running: Running) -> int:
    """While it starts, and while it trains; returns how many attempts it has lost after both."""
    wait_until(lambda: running.ended() or bool(running.processes("ray::ImplicitFunc")), "the trial's process")
    assert not running.ended(), running.finish()[1]
    for process in running.processes("ray::ImplicitFunc"):
        process.kill()
    running.wait_for_step(40)
    (trial,) = running.processes("ray::ImplicitFunc")
    before = len(reasons(running.trial))
    trial.kill()
    return before + 1


def test_the_trials_process_killed_while_it_starts_and_while_it_trains(
    workplace: Path, furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed = finish(furnish(tmp_path_factory.mktemp("long").resolve()), LONG)
    running = start(workplace, LONG)
    times = kill_the_trials_process_twice(running)
    code, output = running.finish()
    assert code == 0, output
    *lost, end = reasons(trial_in(workplace))
    assert end == "finished"
    assert all(reason.startswith("worker lost: the trial's process") for reason in lost), lost
    assert len(lost) == times <= 2, "the first one may have died before it counted as an attempt"
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_each_process_of_one_worker_killed_in_turn(
    workplace: Path, furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The trial's process while it starts and while it trains, the worker, the sweep."""
    words = ["cluster.workers=1", LONG]
    undisturbed = finish(furnish(tmp_path_factory.mktemp("one").resolve()), *words)
    running = start(workplace, *words)
    times = kill_the_trials_process_twice(running)
    running.wait_for_step(240)
    (worker,) = running.workers()
    worker.kill()
    running.wait_for_step(440)
    running.kill()
    finish(workplace, *words)
    *of_trial, of_worker, of_sweep, end = reasons(trial_in(workplace))
    assert all(reason.startswith("worker lost: the trial's process") for reason in of_trial), of_trial
    assert len(of_trial) == times <= 2, "the first one may have died before it counted as an attempt"
    assert of_worker.startswith(f"worker lost: worker 0 (pid {worker.pid} on "), of_worker
    assert (of_sweep, end) == ("lost", "finished")
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)
