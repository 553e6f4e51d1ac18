"""A worker, the sweep and its syncer are stopped (SIGSTOP) for good: two workers still train the same bits."""

from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import reasons
from leftovers import wait_for_end
from pairs import WORDS, check_nothing_left, check_same, finish, start, trial_in
from studies import allelse
from typed import refusal

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]


@pytest.fixture(scope="module")
def undisturbed(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(furnish(tmp_path_factory.mktemp("undisturbed").resolve()))


def test_a_stopped_worker_counts_as_hung_and_is_replaced(workplace: Path, undisturbed: Path) -> None:
    running = start(workplace, "sweep.stall_minutes=0.5")
    running.wait_for_step(40)
    stopped = running.workers()[0]
    stopped.suspend()
    code, output = running.finish()
    assert code == 0, output
    silent = "worker lost: no worker gave a sign of life for 0.5 min (sweep.stall_minutes)"
    assert reasons(trial_in(workplace)) == [silent, "finished"]
    assert not stopped.is_running()
    check_same(trial_in(workplace), undisturbed)
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
    (syncer,) = running.processes("tracking.mlflow.sync")
    syncer.suspend()
    code, output = running.finish()
    assert code == 0, output
    assert "MLflow is not up to date; run `allelse sync sweep.name=pair`" in output
    assert not syncer.is_running()
    done = allelse("sync", "sweep.name=pair", cwd=workplace)
    assert done.returncode == 0, done.stdout + done.stderr
    check_same(trial_in(workplace), undisturbed)
    check_nothing_left(workplace)
