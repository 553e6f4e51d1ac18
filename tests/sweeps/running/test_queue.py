"""Queue, retry, stop, silence and view of a sweep, against groups of workers that answer polls from
a list."""

import errno
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console
from small_task import write_task

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan_record import study_with_plan
from sweeps.processes.events import (
    Assignment,
    Event,
    Failed,
    Finished,
    Lost,
    Order,
    Printed,
    Report,
    Started,
    Stopped,
)
from sweeps.processes.interruption import Interrupted
from sweeps.processes.storage import give_sign_of_life
from sweeps.running.failures import STDERR, Silence, StackTimer
from sweeps.running.group import WorkerGroup
from sweeps.running.progress import Progress
from sweeps.running.queue import Queue
from sweeps.running.recording.recorder import Recorder
from sweeps.running.stopping import Stopping
from sweeps.running.trial_process import StepResult, Turn
from sweeps.status.live import Watched
from tracking.activity.look import Look, look
from tracking.study import write_study
from tracking.trial import TrialFolder

BEGUN: list[Event] = [Started("cpu"), Report(2, {"train/loss": 1.0})]
DONE: list[Event] = [
    Finished(4, {"params": 1, "flops": None, "seconds": 1.0}, {"dev": {"score": 1.0, "decode": {}}})
]
KILLED: list[Event] = [Lost("worker 0 was killed (SIGKILL)", "its last line")]
SHORT: list[Event] = [Lost("worker 0 ran out of memory", "", memory=True)]


@dataclass
class Listed:
    """A group that answers each poll with the next list; the attempt is over with the last one."""

    polls: list[Sequence[Event]]
    begun: bool = True
    stops: list[bool] = field(default_factory=list)
    closed: bool = False

    @property
    def over(self) -> bool:
        return self.begun and not self.polls

    def begin(self, assignment: Assignment) -> None:
        """Its workers work, or never do."""

    def poll(self, stop: bool, within_s: float) -> Sequence[Event]:
        self.stops.append(stop)
        return self.polls.pop(0)

    def close(self) -> None:
        self.closed = True


class Sweep:
    """A queue of four trials."""

    def __init__(self, folder: Path, max_failures: int = 2) -> None:
        write_task(folder)
        words = ["task=small", "sweep.name=s", "sweep.rows=[base,square]", "sweep.seeds=[1,2]"]
        self.plan = plan_sweep(words, here=folder)
        self.recorders = {planned.trial.name: Recorder(planned) for planned in self.plan.pending}
        self.output = io.StringIO()
        self.stopping = Stopping()
        progress = Progress(self.plan, Console(file=self.output, width=200))
        self.queue = Queue(self.recorders, progress, self.stopping, max_failures)
        self.began = 0

    def begin(self, *polls: Sequence[Event]) -> "Process":
        """A process that takes the next trial, whose workers answer so."""
        self.began += 1
        return Process(self, f"p{self.began}", Listed([*polls]))

    def reasons(self, name: str) -> list[str | None]:
        """How its attempts ended."""
        return [attempt.reason for attempt in self.recorders[name].folder.attempts.all()]


class Process:
    def __init__(self, sweep: Sweep, name: str, group: Listed) -> None:
        self.sweep = sweep
        self.name = name
        self.group = group
        self.turn = Turn(cast(WorkerGroup, group))
        self.orders = list[Order]()
        sweep.queue.start(name, self.orders.append)
        assignment = self.orders[0].assignment
        self.trial, self.attempt = (assignment.trial, assignment.attempt) if assignment else ("", 0)

    def step(self) -> StepResult:
        """One poll, whose events the queue takes."""
        self.turn.order = self.orders[-1]
        poll = self.turn.step()
        self.sweep.queue.take(self.name, poll.attempt, poll.events)
        if poll.lost is not None:
            self.sweep.queue.lose(self.name, lambda: Lost("nobody should ask", ""))
        elif poll.over:
            self.sweep.queue.end(self.name)
        return poll

    def run(self) -> "Process":
        while not self.step().over:
            pass
        return self


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def test_trials_begin_in_their_order_and_end(sweep: Sweep) -> None:
    names = [sweep.begin(BEGUN, DONE, [Printed(0, "bye\n")]).run().trial for _ in range(4)]
    assert names == list(sweep.recorders)
    assert sweep.queue.over
    assert {name: sweep.reasons(name) for name in names} == {name: ["finished"] for name in names}
    assert sweep.begin().step() == StepResult(0, over=True)  # nothing is left to do


def test_a_trial_that_lost_its_workers_comes_before_those_that_have_not_begun(sweep: Sweep) -> None:
    first = sweep.begin(BEGUN, KILLED).run()
    second = sweep.begin(BEGUN, DONE)
    assert (second.trial, second.attempt, first.group.closed) == (first.trial, 2, True)
    assert second.run().sweep.reasons("base-s1") == [
        "worker lost: worker 0 was killed (SIGKILL)",
        "finished",
    ]
    assert sweep.begin().trial == "square-s1"


def test_a_process_that_dies_unheard_costs_an_attempt_whose_late_events_are_dropped(
    sweep: Sweep,
) -> None:
    first = sweep.begin(BEGUN, [Report(4, {"train/loss": 0.5})])
    first.step()
    sweep.queue.lose(first.name, lambda: Lost("the trial's process was killed", ""))
    second = sweep.begin(BEGUN, DONE)
    first.step()
    assert [report.step for report in sweep.recorders["base-s1"].folder.journal()] == [2]
    second.run()
    assert sweep.reasons("base-s1") == ["worker lost: the trial's process was killed", "finished"]


@pytest.mark.parametrize(
    ("ends", "allowed", "cause"),
    [
        ([KILLED, KILLED], 1, "worker 0 was killed (SIGKILL)"),
        ([SHORT, SHORT], 2, "worker 0 ran out of memory, for the second time"),
        ([[Failed("ValueError: no", "its traceback")]], 2, "ValueError: no"),
    ],
)
def test_what_another_attempt_would_not_mend_fails(
    ends: list[Sequence[Event]], allowed: int, cause: str, tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path, allowed)
    for end in ends:
        assert sweep.begin(BEGUN, end).run().trial == "base-s1"
    assert sweep.reasons("base-s1")[-1] == f"failed: {cause}"
    assert (sweep.recorders["base-s1"].folder.path / "error.txt").read_text().startswith(cause)
    assert sweep.begin().trial == "square-s1"


def test_a_stop_reaches_what_runs_and_nothing_else_begins(sweep: Sweep) -> None:
    running = sweep.begin(BEGUN, [], [Stopped(2)])
    running.step()
    sweep.stopping.note(15)
    sweep.queue.tick()
    late_process = sweep.begin()
    assert (late_process.trial, late_process.step().over) == ("", True)
    running.run()
    assert running.group.stops == [False, True, True]
    with pytest.raises(Interrupted) as interruption:
        sweep.queue.tick()
    assert (interruption.value.exit_code, sweep.reasons("base-s1")) == (143, ["interrupted"])
    assert not sweep.recorders["square-s1"].folder.attempts.all()


def test_a_stop_does_not_wait_for_workers_that_start(sweep: Sweep) -> None:
    starting = sweep.begin([])
    starting.group.begun = False
    assert not starting.step().over
    sweep.stopping.note(2)
    sweep.queue.tick()
    assert starting.step().over
    assert (starting.group.closed, sweep.reasons("base-s1")) == (True, ["interrupted"])


def test_single_trials_can_be_stopped(sweep: Sweep) -> None:
    first = sweep.begin(BEGUN, [], [Stopped(2)])
    second = sweep.begin(BEGUN, [], DONE)
    first.step()
    sweep.stopping.trials = frozenset({"base-s1", "base-s2"})
    sweep.queue.tick()
    assert (first.run().group.stops, second.run().group.stops) == ([False, True, True], [False] * 3)
    assert [sweep.begin(BEGUN, DONE).run().trial, sweep.begin().trial] == ["square-s2", ""]
    assert "base-s2: it will not start" in sweep.output.getvalue()


def failing(number: int, line: int) -> list[Event]:
    """After a report, with a traceback that ends at this line."""
    calls = f'  File "/library.py", line 7, in load\n  File "/task.py", line {line}, in work\n'
    return [
        *BEGUN,
        Failed(f"RuntimeError: no such file: {number}", f"Traceback:\n{calls}RuntimeError: no"),
    ]


def test_a_sweep_that_cannot_succeed_ends_after_three_trials(sweep: Sweep) -> None:
    """Whatever they reported before."""
    for number in range(3):
        sweep.begin(failing(number, line=33)).run()
    with pytest.raises(Interrupted) as interruption:
        sweep.queue.tick()
    cause = "3 trials in a row failed with the same error: RuntimeError: no such file: 2"
    assert (interruption.value.exit_code, interruption.value.fault) == (1, cause)
    assert sweep.output.getvalue().count(cause) == 1
    assert sweep.begin().trial == ""


@pytest.mark.parametrize(
    "ends",
    [
        [failing(1, 33), failing(2, 33), failing(3, 34)],  # at another place
        [failing(1, 33), failing(2, 33), [*BEGUN, *DONE], failing(3, 33)],  # one succeeds
    ],
)
def test_a_sweep_goes_on_after_trials_that_fail_otherwise(
    ends: list[list[Event]], sweep: Sweep
) -> None:
    for events in ends:
        sweep.begin(events).run()
    sweep.queue.tick()
    assert sweep.stopping.fault == ""


@pytest.mark.parametrize(
    ("polls", "noticed"),
    [
        ([BEGUN, []], "worker 0 ended without a result"),
        (
            [BEGUN, DONE, KILLED],
            "a worker did not exit cleanly after the result: worker 0 was killed (SIGKILL)",
        ),
        (
            [BEGUN, [*DONE, Failed("worker 1 raised", "")]],
            "a worker did not exit cleanly after the result: worker 1 raised",
        ),
    ],
)
def test_workers_that_end_oddly_are_not_used_again(
    polls: list[Sequence[Event]], noticed: str, sweep: Sweep
) -> None:
    group = sweep.begin(*polls).run().group
    assert group.closed
    assert noticed in sweep.output.getvalue()


@pytest.mark.parametrize(
    ("signs", "looks", "stalls_at"),
    [
        ([[1], [2], [2], [2], [2], [2]], [5, 10, 30, 50, 69, 75], 75),
        (
            [[1], [1], [1], [1], [1], [1]],
            [5, 30, 60, 90, 119, 126],
            126,
        ),  # until its first sign it may import torch
        (
            [[1], [2], [2], [2], [2], [2]],
            [5, 10, 100, 130, 155, 161],
            161,
        ),  # nobody looked for a while
        (
            [[0, 1], [0, 2], [0, 3], [0, 3], [0, 3], [0, 3]],
            [10, 35, 60, 85, 110, 125],
            125,
        ),  # all of them are silent
    ],
)
def test_silence_counts_while_somebody_looks(
    signs: list[list[int]], looks: list[float], stalls_at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock: list[float] = [0.0]
    monkeypatch.setattr("sweeps.running.failures.time.monotonic", lambda: clock[0])
    silence = Silence(60.0)
    stalls = []
    for sign, at in zip(signs, looks, strict=True):
        clock[0] = at
        stalls.append(silence.stalled(sign))
    assert stalls == [at == stalls_at for at in looks]


def test_no_stacks_are_written_after_the_end_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll that waits for the end looks once more."""
    timers: list[float] = []
    monkeypatch.setattr(
        "faulthandler.dump_traceback_later", lambda after_s, file: timers.append(after_s)
    )
    monkeypatch.setattr("faulthandler.cancel_dump_traceback_later", timers.clear)
    stacks = StackTimer(60.0, STDERR)
    stacks.look()
    assert timers == [45.0]
    stacks.close()
    give_sign_of_life()
    stacks.look()
    assert timers == []


def drawn(progress: Progress) -> str:
    """The view in a terminal."""
    terminal = io.StringIO()
    Console(file=terminal, width=100).print(progress.view.draw())
    return terminal.getvalue()


def test_a_trial_that_finishes_during_a_look_is_looked_at_again(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread takes the events, and another one draws the view."""
    monkeypatch.setattr(Watched, "is_due", lambda watched: True)
    write_study(study_with_plan(sweep.plan, ["allelse", "sweep"]))
    first = sweep.begin(BEGUN, DONE)
    first.step()
    progress = sweep.queue.progress
    assert "1 running" in drawn(progress)
    ends = [first.run]

    def look_before_the_end(folder: TrialFolder, key: str) -> Look:
        trial_look = look(folder, key)
        while ends:
            ends.pop()()
        return trial_look

    monkeypatch.setattr("sweeps.status.standings.look", look_before_the_end)
    assert "0 of 4 finished" in drawn(progress)
    assert "1 of 4 finished" in drawn(progress)


def test_the_last_view_stays_while_the_folder_cannot_be_read(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(study: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(study))

    write_study(study_with_plan(sweep.plan, ["allelse", "sweep"]))
    last_view = drawn(sweep.queue.progress)
    assert "0 of 4 finished" in last_view
    monkeypatch.setattr("sweeps.status.live.runners", fail)
    assert drawn(sweep.queue.progress) == last_view


def test_the_time_left_is_known_once_a_trial_has_finished(sweep: Sweep) -> None:
    def seconds_left() -> float | None:
        return Progress(sweep.plan, Console(file=io.StringIO())).seconds_left()

    write_study(study_with_plan(sweep.plan, ["allelse", "sweep"]))
    first = sweep.begin(BEGUN, DONE)
    first.step()
    assert seconds_left() is None
    first.run()
    seconds = seconds_left()
    assert seconds is not None
    assert seconds >= 3.0, "it took a second, and three others are to come"
