"""What a trial costs if its training is interrupted, diverges or ends early: one worker in this
process, by a clock that stands still unless the work moves it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest
from driven_trial import driver_of

from sweeps.processes.events import Event, Finished, Noticed
from sweeps.worker.pace import CpuTime

Costs = dict[str, Any]
CostsOf = Callable[..., Costs]
STEPS = """\
for step in range(trial.saved.step + 1 if trial.saved else 1, {last} + 1):
    trial.notice("10 s")
    trial.report(step, {{"train/loss": 1.0}})
"""
CHECKPOINT = """\
trial.checkpoint(step, step)
list(trial.states([]))  # waits until it is written
"""
EVALUATION = 'trial.notice("500 s")\ntrial.evaluated("dev", {"score": 1.0})\n'
DIVERGENCE = "from sweeps.task import DivergedError\nraise DivergedError('loss is nan', {step})\n"
INTERRUPTION = "raise RuntimeError('lost')\n"
PLANNED = "Costs(params=7, flops=1e9 * config.train.steps)"


@pytest.fixture
def costs_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CostsOf:
    """Runs a work of these lines, and returns what its trial costs. A notice of "10 s" takes so
    long, by the clock and by the CPU; nothing else takes time."""
    now = 100.0

    def tell(event: Event) -> None:
        nonlocal now
        events.append(event)
        if isinstance(event, Noticed) and event.text.endswith(" s"):
            now += float(event.text.removesuffix(" s"))

    events = list[Event]()
    clock = SimpleNamespace(monotonic=lambda: now, process_time=lambda: now)
    for module in ("attempt_costs", "pace"):
        monkeypatch.setattr(f"sweeps.worker.{module}.time", clock)
    monkeypatch.setattr("sweeps.worker.pace._used", lambda: now)
    monkeypatch.setattr("sweeps.worker.pace._used_by_children", lambda: 0.0)

    def run(body: str, **settings: Any) -> Costs:
        driver = driver_of(tmp_path, body, tell, **{"steps": 8, "costs": PLANNED, **settings})
        driver.newest()
        driver.work(0, 1, "", lambda: False)
        finished = events[-1]
        assert isinstance(finished, Finished)
        return finished.costs

    return run


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_trial_that_ends_early_has_the_flops_of_the_steps_that_it_trained(
    costs_of: CostsOf, early_stop: bool
) -> None:
    costs = costs_of(STEPS.format(last=2) + EVALUATION, early_stop=early_stop)
    assert (costs["params"], costs["flops"]) == (7, 2e9)


@pytest.mark.parametrize("reported", [3, 0])
def test_a_trial_that_diverges_has_the_flops_of_the_steps_until_then(
    costs_of: CostsOf, reported: int
) -> None:
    """Also if none of its steps was reported."""
    body = STEPS.format(last=reported) + 'trial.notice("10 s")\n' + DIVERGENCE.format(step=4)
    costs = costs_of(body)
    assert (costs["params"], costs["flops"]) == (7, 4e9)


def test_flops_that_the_work_has_counted_are_taken_as_they_are(costs_of: CostsOf) -> None:
    counted = "trial.spent(Costs(params=5, flops=3e9))\n"
    costs = costs_of(STEPS.format(last=2) + counted + EVALUATION)
    assert (costs["params"], costs["flops"]) == (5, 3e9)


@pytest.mark.parametrize("last", [8, 0])
def test_a_whole_training_has_the_planned_flops_also_if_it_reports_no_step(
    costs_of: CostsOf, last: int
) -> None:
    body = STEPS.format(last=last) + EVALUATION
    assert str(costs_of(body, costs="Costs(flops=6)")["flops"]) == "6"


def test_the_scoring_of_a_resumed_trial_is_all_but_its_training(costs_of: CostsOf) -> None:
    with pytest.raises(RuntimeError, match="lost"):
        costs_of(STEPS.format(last=5) + CHECKPOINT + INTERRUPTION)
    costs = costs_of(STEPS.format(last=8) + EVALUATION, attempt=2)
    assert (costs["seconds"], costs["pace"]["scoring_seconds"]) == (80.0, 500.0)


@pytest.mark.parametrize("last", [3, 8])
def test_the_evaluation_after_the_last_step_is_no_training(costs_of: CostsOf, last: int) -> None:
    """Also if training ends before the planned steps."""
    costs = costs_of(STEPS.format(last=last) + EVALUATION)
    assert (costs["seconds"], costs["cpu_seconds"]) == (10.0 * last, 10.0 * last)
    assert costs["pace"]["scoring_seconds"] == 500.0


def test_an_evaluation_before_the_last_step_is_training(costs_of: CostsOf) -> None:
    second_step = 'trial.notice("10 s")\ntrial.report(step + 1, {})\n'
    costs = costs_of(STEPS.format(last=1) + EVALUATION + second_step + EVALUATION)
    assert costs["seconds"] == costs["cpu_seconds"] == 520.0


def test_training_that_diverges_or_reports_no_step_takes_until_its_end(costs_of: CostsOf) -> None:
    unreported = 'trial.notice("500 s")\n'
    costs = costs_of(STEPS.format(last=3) + unreported + DIVERGENCE.format(step=4))
    assert costs["seconds"] == costs["cpu_seconds"] == 530.0
    costs = costs_of(EVALUATION)
    assert costs["seconds"] == costs["cpu_seconds"] == 500.0


def test_an_attempt_that_only_evaluates_what_ended_early_trains_nothing(costs_of: CostsOf) -> None:
    with pytest.raises(RuntimeError, match="lost"):
        costs_of(STEPS.format(last=3) + CHECKPOINT + 'trial.notice("90 s")\n' + INTERRUPTION)
    costs = costs_of(EVALUATION, attempt=2)
    assert costs["seconds"] == costs["cpu_seconds"] == 30.0
    assert costs["flops"] == 3e9
    assert "pace" not in costs


BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True)\ninput()"
IN_ITS_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"


@pytest.mark.parametrize("program", [BURN, IN_ITS_CHILD], ids=["a child", "a grandchild"])
def test_cpu_seconds_count_processes_that_still_run_and_each_once(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.worker.pace.CHILDREN_S", 0.0)
    cpu = CpuTime()
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        while_running = cpu.own
        child.communicate("\n")
    assert while_running >= 0.45, "the system counts in clock ticks"
    after_its_end = cpu.own
    assert after_its_end >= while_running
    assert after_its_end < while_running + 0.45, "not once more"
