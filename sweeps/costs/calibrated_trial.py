"""A process that runs the work of one trial for some steps, and tells how long they took.

It is the worker of a trial in all but this: it belongs to no study, and its checkpoints lie in a temporary folder. It
ends with the process that has started it.
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

from sweeps.worker.attempt import Driver
from sweeps.worker.calls import cause, printable
from sweeps.worker.code_imports import enter_code
from sweeps.worker.events import Assignment, Event, Finished, Report
from sweeps.worker.pace import peak_memory
from tracking.code import Code

BYTES = "latin-1"
"""An encoding in which each byte is a character."""
CONNECTION_BYTES = 40_000_000
"""What a worker of Ray holds for its connections, which this process has not. Measured."""


@dataclass(frozen=True)
class Limits:
    """Training goes on for at least this long and so many steps, and for at most that long; scoring has its own."""

    least_seconds: float = 20.0
    least_steps: int = 30
    most_seconds: float = 90.0
    scoring_seconds: float = 90.0


@dataclass(frozen=True)
class Mark:
    """A moment: the wall clock and this process's CPU seconds, after ``step``."""

    step: int
    wall: float = field(default_factory=time.monotonic)
    cpu: float = field(default_factory=time.process_time)


@dataclass(frozen=True)
class Spent:
    """Seconds of the wall clock, and CPU seconds."""

    wall: float
    cpu: float

    @staticmethod
    def between(first: Mark, last: Mark) -> "Spent":
        return Spent(last.wall - first.wall, last.cpu - first.cpu)


class EnoughError(BaseException):
    """The work has reported often enough. No Exception: the work could take it for one of its own."""


class Stopwatch:
    """Times the steps of a work, and asks it to stop. A work that never asks is ended at a report."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.began = Mark(0)
        self.first: Mark | None = None
        self.last: Mark | None = None
        self.stopped: Mark | None = None
        self.finished: Mark | None = None
        self._questions = 0

    def stop(self) -> bool:
        """The answer to ``trial.stopping()``, which a work asks once per step."""
        self._questions += 1
        if self.first is None:
            self.first = Mark(1)
        if self.stopped is None and self._is_enough(self._questions):
            self.stopped = Mark(0)
        return self.stopped is not None

    def tell(self, event: Event) -> None:
        """Take an event of the work. Raises EnoughError."""
        if isinstance(event, Finished):
            self.finished = Mark(event.step)
        if not isinstance(event, Report):
            return
        self.last = Mark(event.step)
        if self.first is None:
            self.first = self.last
        if not self._questions and self._is_enough(event.step):
            raise EnoughError

    def _is_enough(self, steps: int) -> bool:
        seconds = time.monotonic() - (self.first or self.began).wall
        enough = seconds >= self.limits.least_seconds and steps >= self.limits.least_steps
        return enough or seconds >= self.limits.most_seconds

    def answer(self) -> dict[str, Any]:
        """Steps, and seconds per step. Raises LookupError for a work that told too little."""
        if self.first is None or self.last is None:
            raise LookupError("the work reported no step")
        end = self._end(self.last)
        steps = end.step - self.first.step
        if steps > 0:
            wall = (end.wall - self.first.wall) / steps
            cpu = (end.cpu - self.first.cpu) / steps
            setup = max(0.0, self.first.wall - self.began.wall - self.first.step * wall)
            setup_cpu = max(0.0, self.first.cpu - self.began.cpu - self.first.step * cpu)
        else:
            wall = (end.wall - self.began.wall) / end.step
            cpu = (end.cpu - self.began.cpu) / end.step
            setup = setup_cpu = 0.0
        return {
            "steps": end.step,
            "seconds_per_step": wall,
            "cpu_seconds_per_step": cpu,
            "setup_seconds": setup,
            "other_cpu_seconds": setup_cpu,
        }

    def _end(self, last: Mark) -> Mark:
        """The moment of the last step: a report follows the request to stop, and may follow an evaluation."""
        return replace(self.stopped, step=last.step) if self.stopped else last


def main() -> None:
    """Reads the request from the file that is named, and writes the answer beside it."""
    request = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        answer = _measured(request)
    except (Exception, SystemExit) as error:
        answer = {"error": cause(error), "details": printable(traceback.format_exc())}
    answer_path = Path(request["answer"])
    temporary = answer_path.with_suffix(".part")
    temporary.write_text(json.dumps(answer), "utf-8")
    temporary.rename(answer_path)


def _end_with_parent() -> None:
    """Standard input ends when the process ends that holds its other side."""
    sys.stdin.buffer.read()
    os._exit(1)


def _measured(request: dict[str, Any]) -> dict[str, Any]:
    """Begin the work once, to import what it needs, then measure it from its start."""
    import sweeps.running.group  # noqa: F401 — a worker has it in its memory, too

    limits = Limits(**request["limits"])
    assignment = Assignment(**request["assignment"])
    task_folder = enter_code(_code_of(request), Path(assignment.study_folder), lasting=False)
    if task_folder is not None:
        assignment = replace(assignment, folder=str(task_folder))
    warm_up = replace(assignment, checkpoints=f"{assignment.checkpoints}-warm-up")
    started = time.time() - request["started"]
    first = _run(warm_up, Stopwatch(replace(limits, least_seconds=0.0, least_steps=1)))
    whole = first.watch.finished is not None  # it never asked whether to stop, and was shorter than the limit
    run = first if whole else _run(assignment, Stopwatch(limits))
    answer = run.watch.answer()
    if run.watch.finished is not None and run.watch.last is not None:
        scoring: Spent | None = Spent.between(run.watch.last, run.watch.finished)
        peak = run.peak_bytes
    else:
        scoring = _scoring(assignment, limits, Spent(answer["setup_seconds"], answer["other_cpu_seconds"]))
        peak = max(run.peak_bytes, peak_memory())
    if not whole:
        answer |= _of_first_trial(first.watch, answer)
    if scoring is not None:
        answer |= {"scoring_seconds": scoring.wall}
        answer["other_cpu_seconds"] += scoring.cpu
    return answer | {"peak_bytes": peak + CONNECTION_BYTES, "start_seconds": started}


def _code_of(request: dict[str, Any]) -> Code | None:
    code = request["code"]
    if code is None:
        return None
    files = {name: text.encode(BYTES) for name, text in code["files"].items()}
    return Code(files, code["roots"])


def _of_first_trial(watch: Stopwatch, answer: dict[str, Any]) -> dict[str, float]:
    """What the first trial of a process takes beyond the next ones: it imports what the work needs."""
    if watch.first is None:
        return {}
    to_first_step = Spent.between(watch.began, watch.first)
    wall = to_first_step.wall - answer["setup_seconds"] - answer["seconds_per_step"]
    cpu = to_first_step.cpu - answer["other_cpu_seconds"] - answer["cpu_seconds_per_step"]
    return {"first_seconds": max(0.0, wall), "first_cpu_seconds": max(0.0, cpu)}


@dataclass(frozen=True)
class Run:
    """A run of the work, timed, and the most memory that the process held."""

    watch: Stopwatch
    peak_bytes: int


def _run(assignment: Assignment, watch: Stopwatch, as_trained: bool = False) -> Run:
    """Let the work run until the watch stops it. ``as_trained``: what it has saved counts as its last step.

    Raises what the work raises, and LookupError if it was to go on from a checkpoint and there is none.
    """
    driver = Driver(assignment, watch.tell)
    driver.newest()
    if as_trained:
        if driver.restored is None:
            raise LookupError("the work saved nothing")
        steps = driver.task.steps(driver.config)
        driver.restored = replace(driver.restored, saved=replace(driver.restored.saved, step=steps))
    watch.began = Mark(0)
    with suppress(EnoughError):
        driver.work(0, 1, "", watch.stop)
    return Run(watch, peak_memory())


def _scoring(assignment: Assignment, limits: Limits, setup: Spent) -> Spent | None:
    """What the work takes to score the weights that it has saved, as if they were those of the last step.

    None if nothing was saved, if it fails, or if it takes longer than the limit.
    """
    watch = Stopwatch(replace(limits, least_seconds=limits.scoring_seconds, most_seconds=limits.scoring_seconds))
    try:
        _run(replace(assignment, attempt=assignment.attempt + 1), watch, as_trained=True)
    except Exception:  # such as checkpoints to average, which are not there
        return None
    if watch.finished is None:
        return None
    whole = Spent.between(watch.began, watch.finished)
    return Spent(max(0.0, whole.wall - setup.wall), max(0.0, whole.cpu - setup.cpu))


def to_request(assignment: Assignment, code: Code | None, limits: Limits, answer: Path) -> str:
    """The request as ``main`` reads it. The process starts now."""
    files = {} if code is None else {name: content.decode(BYTES) for name, content in code.files.items()}
    sent = code and {"files": files, "roots": dict(code.roots)}
    plain = asdict(assignment)
    del plain["lineage"]  # it belongs to no study
    request = {
        "assignment": plain,
        "code": sent,
        "limits": asdict(limits),
        "answer": str(answer),
        "started": time.time(),
    }
    return json.dumps(request)


if __name__ == "__main__":
    main()
