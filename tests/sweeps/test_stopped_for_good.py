"""A worker, the sweep and its syncer are stopped (SIGSTOP) for good: two workers still train the same bits."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import reasons
from leftovers import wait_for_end
from pairs import WORDS, check_nothing_left, check_same, finish, start, trial_in
from studies import ablate
from typed import refusal

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]


@pytest.fixture(scope="module")
def undisturbed(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(furnish(tmp_path_factory.mktemp("undisturbed").resolve()))


def check_stacks(text: str, stopped: int) -> None:
    """That the text has those of both workers, and why the one with the pid ``stopped`` has none."""
    parts = re.findall(r"^worker ([01]) \(pid (\d+) on .*\):\n((?:(?!^worker ).*\n)*)", text, re.MULTILINE)
    assert [rank for rank, _, _ in parts] == ["0", "1"], text
    stacks = {int(pid): stack for _, pid, stack in parts}
    assert stacks.pop(stopped).startswith(
        f"the process is stopped, so it has no stack; resume it with `kill -CONT {stopped}`"
    )
    assert text.count("the process is stopped") == 1
    (other,) = stacks.values()
    assert re.search(r'File "\S+", line \d+ in \w+', other), text


@pytest.mark.parametrize("nth", [0, 1])
def test_a_stopped_worker_is_named_and_replaced(nth: int, workplace: Path, undisturbed: Path) -> None:
    """Whichever of the two it is, by the order of their pids."""
    running = start(workplace, "sweep.stall_minutes=0.5")
    running.wait_for_step(40)
    stopped = sorted(running.workers(), key=lambda process: process.pid)[nth]
    stopped.suspend()
    code, output = running.finish()
    assert code == 0, output
    lost, end = reasons(trial_in(workplace))
    assert re.match(rf"worker lost: worker [01] \(pid {stopped.pid} on ", lost), lost
    assert " is stopped: no worker gave a sign of life for 0.5 min (sweep.stall_minutes)" in lost
    assert end == "finished"
    assert not stopped.is_running()
    check_stacks((trial_in(workplace) / "lost-a1.txt").read_text(), stopped.pid)
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_a_stopped_process_of_the_trial_is_killed(workplace: Path, undisturbed: Path) -> None:
    running = start(workplace, "sweep.stall_minutes=0.5")
    running.wait_for_step(40)
    (stopped,) = running.processes("ray::ImplicitFunc")
    stopped.suspend()
    code, output = running.finish()
    assert code == 0, output
    lost, end = reasons(trial_in(workplace))
    silent = "gave no sign of life for 0.5 min (sweep.stall_minutes)"
    assert (lost, end) == (f"worker lost: the trial's process (pid {stopped.pid}) {silent}", "finished")
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_a_stopped_worker_without_another_attempt_fails_its_trial_with_the_stacks_of_both(workplace: Path) -> None:
    running = start(workplace, "sweep.stall_minutes=0.3", "sweep.max_failures=0")
    running.wait_for_step(40)
    stopped = running.workers()[0]
    stopped.suspend()
    code, output = running.finish()
    assert code == 1, output
    error = (trial_in(workplace) / "error.txt").read_text()
    assert error.startswith(reasons(trial_in(workplace))[0].removeprefix("failed: "))
    check_stacks(error, stopped.pid)
    check_nothing_left(workplace)


def test_a_stopped_sweep_keeps_its_trial_until_it_is_killed(workplace: Path, undisturbed: Path) -> None:
    running = start(workplace)
    running.wait_for_step(40)
    running.suspend()
    assert f"base-s1 is being run by pid {running.process.pid} on " in refusal(workplace, "sweep", *WORDS)
    running.kill()
    wait_for_end(workplace)
    finish(workplace)
    assert reasons(trial_in(workplace)) == ["lost", "finished"]
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_a_stopped_syncer_does_not_outlive_its_sweep(workplace: Path, undisturbed: Path) -> None:
    running = start(workplace)
    running.wait_for_step(40)
    (syncer,) = running.processes("tracking.sync")
    syncer.suspend()
    code, output = running.finish()
    assert code == 0, output
    assert "MLflow is not up to date; run `ablate sync sweep.name=pair`" in output
    assert not syncer.is_running()
    done = ablate("sync", "sweep.name=pair", cwd=workplace)
    assert done.returncode == 0, done.stdout + done.stderr
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)


def test_the_stopped_syncer_of_a_killed_sweep_delays_only_mlflow(workplace: Path, undisturbed: Path) -> None:
    """It holds the lock on the journals. Once it goes on, it carries them, also those of the next sweep."""
    running = start(workplace)
    running.wait_for_step(40)
    (syncer,) = running.processes("tracking.sync")
    syncer.suspend()
    running.kill()
    done = ablate("sweep", *WORDS, cwd=workplace)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "MLflow is not up to date; another process syncs it now; then run `ablate sync sweep.name=pair`"
        in done.stdout + done.stderr
    )
    syncer.resume()
    check_nothing_left(workplace)
    check_same(trial_in(workplace), undisturbed)
