"""A process that runs the work of one trial for some steps and measures how long they take.

It works like the worker of a trial, but belongs to no study and keeps its checkpoints in a
temporary folder. It ends when the process that started it ends.
"""

import json
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeps.command_task.command_task import CommandTask
from sweeps.preflight.sent_code import from_plain, to_plain
from sweeps.processes.events import Assignment, Event, Finished, Report, Stopped
from sweeps.worker.attempt import Driver
from sweeps.worker.calls import cause, printable
from sweeps.worker.pace import peak_memory, peak_memory_of
from sweeps.worker.user_code.imports import enter_code
from tracking.code import Code

CONNECTION_BYTES = 40_000_000
"""Memory that a Ray worker needs for its connections, and this process does not. Measured."""
Timings = dict[str, Any]
"""What the process measured, by the names of a ``Measurement``; or its error."""


@dataclass(frozen=True)
class Limits:
    """Training runs for at least ``least_seconds`` and ``least_steps``, and for at most
    ``most_seconds``.

    Scoring runs for at most ``scoring_seconds``.
    """

    least_seconds: float = 20.0
    least_steps: int = 30
    most_seconds: float = 90.0
    scoring_seconds: float = 90.0


@dataclass(frozen=True)
class Mark:
    """The moment after ``step``, by a clock that only runs forward."""

    step: int
    seconds: float = field(default_factory=time.monotonic)

    def since(self, earlier: "Mark") -> float:
        """The seconds between the two."""
        return self.seconds - earlier.seconds


class EnoughError(BaseException):
    """The work has reported often enough. Not an Exception: the work could catch that as its
    own."""


class Stopwatch:
    """Times the steps of the work and asks it to stop. Work that never checks is ended at a report.

    ``first`` marks the first report, or the first check for a stop if the work checks after each
    step, ``last`` the last report, ``stopped`` the request to stop, ``saved`` the newest checkpoint
    of work that obeyed it, and ``finished`` the end of the work. Each is None until then.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.checks_each_step = True  # a command's worker checks by the clock
        self.start = Mark(0)
        self.first: Mark | None = None
        self.last: Mark | None = None
        self.stopped: Mark | None = None
        self.saved: Mark | None = None
        self.finished: Mark | None = None
        self._stop_checks = 0

    def stop(self) -> bool:
        """Whether the work should stop: the answer to ``trial.stopping()``."""
        self._stop_checks += 1
        steps = self._stop_checks
        if not self.checks_each_step:
            steps = self.last.step if self.last else 0
        elif self.first is None:
            self.first = Mark(1)
        if self.stopped is None and self._is_enough(steps):
            self.stopped = Mark(0)
        return self.stopped is not None

    def handle(self, event: Event) -> None:
        """Note the time of an event. Raises EnoughError if work that never checks ran long
        enough."""
        if isinstance(event, Finished):
            self.finished = Mark(event.step)
        elif isinstance(event, Stopped):
            self.saved = Mark(event.step)
        elif isinstance(event, Report):
            self.last = Mark(event.step)
            if self.first is None:
                self.first = self.last
            if not self._stop_checks and self._is_enough(event.step):
                raise EnoughError

    def _is_enough(self, steps: int) -> bool:
        seconds = Mark(steps).since(self.first or self.start)
        reached_least = seconds >= self.limits.least_seconds and steps >= self.limits.least_steps
        return reached_least or seconds >= self.limits.most_seconds

    def answer(self) -> Timings:
        """Steps, seconds per step, and setup seconds. Work that ended without a step is measured as
        a whole. Raises LookupError if it did not even end."""
        end = self._end()
        if end is None:
            if self.finished is None:
                limit = self.limits.most_seconds
                raise LookupError(f"the work neither reported nor saved a step within {limit:g} s")
            whole = self.finished.since(self.start)
            return {"steps": 0, "seconds_per_step": whole, "setup_seconds": 0.0}
        first = self.first or end
        steps = end.step - first.step
        if steps > 0:
            per_step = end.since(first) / steps
            setup = max(0.0, first.since(self.start) - first.step * per_step)
        else:
            per_step = end.since(self.start) / end.step
            setup = 0.0
        return {"steps": end.step, "seconds_per_step": per_step, "setup_seconds": setup}

    def _end(self) -> Mark | None:
        """The end of the last step that is known; None without one.

        Work that checks after each step reports or saves that step after the request, maybe after
        an evaluation. So the step ended at the request.
        """
        marks = [mark for mark in (self.last, self.saved) if mark is not None and mark.step > 0]
        newest = max(marks, key=lambda mark: mark.step, default=None)
        if newest is None or self.stopped is None or newest.seconds < self.stopped.seconds:
            return newest
        if not self.checks_each_step:
            return newest
        return replace(self.stopped, step=newest.step)


def main() -> None:
    """Read the request from the file named on the command line, and write the answer next to it."""
    request = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer = _measure(request)
    except (Exception, SystemExit) as error:
        answer = {"error": cause(error), "details": printable(traceback.format_exc())}
    answer_path = Path(request["answer"])
    temporary = answer_path.with_suffix(".part")
    temporary.write_text(json.dumps(answer), "utf-8")
    temporary.rename(answer_path)


def _end_with_parent() -> None:
    """Wait until the parent process ends, which closes standard input, then end this process."""
    sys.stdin.buffer.read()
    os._exit(1)


def _measure(request: dict[str, Any]) -> dict[str, Any]:
    """Start the work once so that it imports what it needs, then measure it from its start."""
    import sweeps.running.group  # noqa: F401 — a worker has it in its memory, too

    limits = Limits(**request["limits"])
    assignment = _assignment(request)
    warm_up = replace(assignment, checkpoints=f"{assignment.checkpoints}-warm-up")
    start_seconds = time.time() - request["started"]
    first = _run(warm_up, Stopwatch(replace(limits, least_seconds=0.0, least_steps=1)))
    # Work that never checks for a stop and is shorter than the limit has finished by now.
    is_complete = first.watch.finished is not None
    run = first if is_complete else _run(assignment, Stopwatch(limits))
    answer = run.watch.answer()
    if run.watch.finished is not None:  # without a report, the whole counts as training
        last = run.watch.last or run.watch.finished
        scoring_seconds: float | None = run.watch.finished.since(last)
        peak_bytes = run.peak_bytes
    else:
        scoring_seconds = _scoring_seconds(assignment, limits, answer["setup_seconds"])
        peak_bytes = run.peak_bytes and max(run.peak_bytes, peak_memory())
    if not is_complete:
        answer["first_seconds"] = _first_trial_extra(first.watch, answer)
    if scoring_seconds is not None:
        answer["scoring_seconds"] = scoring_seconds
    answer["peak_bytes"] = peak_bytes and peak_bytes + CONNECTION_BYTES
    answer["start_seconds"] = start_seconds
    return answer


def _assignment(request: dict[str, Any]) -> Assignment:
    """The assignment of the request, with the folder from which this process imports the task."""
    assignment = Assignment(**request["assignment"])
    study_folder = Path(assignment.study_folder)
    task_folder = enter_code(from_plain(request["code"]), study_folder, lasting=False)
    if task_folder is None:
        return assignment
    return replace(assignment, folder=str(task_folder))


def _first_trial_extra(watch: Stopwatch, answer: Timings) -> float:
    """The extra seconds of a process's first trial, which imports what the work needs."""
    if watch.first is None:
        return 0.0
    usual_seconds: float = answer["setup_seconds"] + answer["seconds_per_step"]
    return max(0.0, watch.first.since(watch.start) - usual_seconds)


@dataclass(frozen=True)
class Run:
    """A timed run of the work, and the process's peak memory."""

    watch: Stopwatch
    peak_bytes: int | None


def _run(assignment: Assignment, watch: Stopwatch, as_trained: bool = False) -> Run:
    """Run the work until the watch stops it. With ``as_trained``, its checkpoint counts as the last
    step.

    Raises what the work raises, and LookupError if ``as_trained`` finds no checkpoint.
    """
    driver = Driver(assignment, watch.handle)
    driver.newest()
    if as_trained:
        if driver.restored is None:
            raise LookupError("the work saved nothing")
        last_step = driver.task.steps(driver.config)
        saved = replace(driver.restored.saved, step=last_step)
        driver.restored = replace(driver.restored, saved=saved)
    watch.checks_each_step = not isinstance(driver.task, CommandTask)
    watch.start = Mark(0)
    with suppress(EnoughError):
        driver.work(0, 1, "", watch.stop)
    return Run(watch, peak_memory_of(driver.task))


def _scoring_seconds(assignment: Assignment, limits: Limits, setup_seconds: float) -> float | None:
    """The seconds to score the saved weights as if they were those of the last step.

    None if nothing was saved, if scoring fails, or if it takes longer than the limit.
    """
    seconds = limits.scoring_seconds
    watch = Stopwatch(replace(limits, least_seconds=seconds, most_seconds=seconds))
    next_attempt = replace(assignment, attempt=assignment.attempt + 1)
    try:
        _run(next_attempt, watch, as_trained=True)
    except Exception:  # for example, checkpoints to average are missing
        return None
    if watch.finished is None:
        return None
    return max(0.0, watch.finished.since(watch.start) - setup_seconds)


def to_request(assignment: Assignment, code: Code | None, limits: Limits, answer: Path) -> str:
    """The request that ``main`` reads, as JSON. It counts the process as started now."""
    assignment_fields = asdict(assignment)
    del assignment_fields["lineage"]  # it belongs to no study
    request = {
        "assignment": assignment_fields,
        "code": to_plain(code),
        "limits": asdict(limits),
        "answer": str(answer),
        "started": time.time(),
    }
    return json.dumps(request)


if __name__ == "__main__":
    main()
