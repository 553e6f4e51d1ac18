"""Calibration runs the real work of some trials for some steps, in separate processes. It doesn't
touch the study."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.settings import Cluster
from sweeps.costs.calibrated_trial import Limits, Timings, to_request
from sweeps.costs.estimate import version_of, work_to_predict
from sweeps.costs.measurement import Measurement, keep_calibrated
from sweeps.costs.slots import VISIBLE, slots_of, this_machine, visible_gpus
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.problems import Problem, refuse
from sweeps.running.recording.recorder import Recorder
from sweeps.worker.pace import machine

MODULE = ("-P", "-m", "sweeps.costs.calibrated_trial")
"""``-P`` keeps files in the current folder from hiding our modules."""
LOOK_S = 0.1
SILENT_S = 600.0
"""How long a process may take to answer. Besides training and scoring, it only imports modules and
opens its data."""
PREFIX = "allelse-calibration-"
THREADS = "OMP_NUM_THREADS"


class CalibrationError(RuntimeError):
    """The work of a trial failed. ``details`` holds the traceback."""

    def __init__(self, name: str, cause: str, details: str) -> None:
        super().__init__(f"{name}: {cause}")
        self.name = name
        self.cause = cause
        self.details = details


@dataclass(frozen=True)
class Process:
    """A trial that is being measured."""

    planned: PlannedTrial
    popen: "subprocess.Popen[bytes]"
    answer: Path
    log: Path


def refuse_calibration(plan: Plan) -> None:
    """Raise RefusedError if calibration could not predict the sweep's times, or would disturb
    running trials."""
    problems = list(_plan_problems(plan)) or list(_size_problems(plan.shared.cluster))
    refuse(problems)


def _plan_problems(plan: Plan) -> Iterator[Problem]:
    cluster = plan.shared.cluster
    if not plan.pending:
        fault = "has nothing to measure: all trials are finished"
        yield Problem("--calibrate", fault, "leave it out")
    elif plan.trials[0].stated_steps is None:
        fault = "needs the number of steps, which the command's file doesn't state"
        allowed = 'add a line such as `steps: 1000` or `steps: "{args.steps}"` to it'
        yield Problem("--calibrate", fault, allowed)
    if cluster.address is not None:
        fault = f"is {cluster.address}, but --calibrate measures only on this machine"
        allowed = "train one row there: plans then read its time from its result"
        yield Problem("cluster.address", fault, allowed)
    if cluster.workers > 1:
        fault = f"is {cluster.workers}, but --calibrate runs one process per trial"
        allowed = "train one row: plans then read its time from its result"
        yield Problem("cluster.workers", fault, allowed)
    if plan.running:
        name = plan.running[0].trial.name
        fault = f"would share this machine with {name}, which is running or waiting"
        allowed = "wait for it: plans then read its time from its result"
        yield Problem("--calibrate", fault, allowed)


def _size_problems(cluster: Cluster) -> Iterator[Problem]:
    """A problem if not even one trial fits on this machine."""
    if slots_of(cluster, [this_machine()]) >= 1:
        return
    need = f"{cluster.cpus_per_worker} CPUs per worker"
    if cluster.gpus_per_worker:
        need = f"{need} and {cluster.gpus_per_worker:g} GPUs"
    fault = f"needs {need}, which this machine does not have"
    allowed = "set cluster.cpus_per_worker or cluster.gpus_per_worker lower"
    yield Problem("--calibrate", fault, allowed)


def calibrate(plan: Plan, say: Callable[[str], None]) -> list[Measurement]:
    """Measure the cheapest, a middle and the dearest pending trial, and save the results for later
    plans.

    Runs as many trials at a time as the sweep will, since concurrent trials slow each other down.
    The plan's data must be prepared. Raises CalibrationError, KeyboardInterrupt.
    """
    chosen = trials_to_measure([planned for planned in plan.pending if planned.host is None])
    slots = min(slots_of(plan.shared.cluster, [this_machine()]), len(plan.pending))
    measurements = list[Measurement]()
    with _interruptible(), TemporaryDirectory(prefix=PREFIX) as folder:
        for number, wave in enumerate(waves(chosen, slots)):
            rows = ", ".join(dict.fromkeys(planned.trial.row for planned in wave))
            say(f"Calibrating {rows}")
            measurements += _measure(wave, plan, Path(folder, str(number)))
    runs = Path(plan.shared.paths.runs)
    keep_calibrated(runs, merge_by_row(measurements))
    return measurements


def trials_to_measure(pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
    """At most three trials under the same conditions: the cheapest, a middle and the dearest row by
    FLOPs per step, or else by parameters. Rows under other conditions are measured, too."""
    rows_of_conditions: dict[str, dict[str, PlannedTrial]] = {}
    for planned in pending:
        work = work_to_predict(planned)
        rows = rows_of_conditions.setdefault(work.conditions, {})
        rows.setdefault(work.work, planned)
    chosen = list[PlannedTrial]()
    for rows in rows_of_conditions.values():
        chosen += _cheapest_middle_and_dearest([*rows.values()])
    return chosen


def _cheapest_middle_and_dearest(rows: Sequence[PlannedTrial]) -> list[PlannedTrial]:
    """The middle is base if base is neither the cheapest nor the dearest, since most rows resemble
    it."""
    ordered = sorted(rows, key=_step_cost)
    if len(ordered) <= 3:
        return ordered
    inner = ordered[1:-1]
    middle = inner[len(inner) // 2]
    for planned in inner:
        if planned.trial.row == BASE:
            middle = planned
            break
    return [ordered[0], middle, ordered[-1]]


def _step_cost(planned: PlannedTrial) -> float:
    """FLOPs per step, or the number of parameters if FLOPs are unknown."""
    if planned.costs.flops is not None:
        return planned.costs.flops / planned.steps
    return float(planned.costs.params or 0)


def waves(chosen: Sequence[PlannedTrial], slots: int) -> Iterator[list[PlannedTrial]]:
    """The trials in groups of ``slots``. Trials from the start of ``chosen`` fill up the last
    group."""
    for start in range(0, len(chosen), slots):
        wave = list(chosen[start : start + slots])
        for number in range(slots - len(wave)):
            wave.append(chosen[number % len(chosen)])
        yield wave


def merge_by_row(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement per row: the means of its times, and its highest peak memory."""
    rows: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in measurements:
        row = (measurement.work, measurement.conditions)
        rows.setdefault(row, []).append(measurement)
    return [_mean(runs) for runs in rows.values()]


def _mean(runs: Sequence[Measurement]) -> Measurement:
    return replace(
        runs[0],
        seconds_per_step=fmean(run.seconds_per_step for run in runs),
        setup_seconds=fmean(run.setup_seconds for run in runs),
        start_seconds=fmean(run.start_seconds for run in runs),
        first_seconds=fmean(run.first_seconds for run in runs),
        scoring_seconds=_mean_if_measured(run.scoring_seconds for run in runs),
        peak_bytes=max(run.peak_bytes or 0 for run in runs),
    )


def _mean_if_measured(seconds: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None if all are."""
    measured = [value for value in seconds if value is not None]
    return fmean(measured) if measured else None


def _measure(wave: Sequence[PlannedTrial], plan: Plan, folder: Path) -> list[Measurement]:
    """Measure the trials of a wave at the same time, one process each. Raises CalibrationError."""
    processes = list[Process]()
    try:
        for slot, planned in enumerate(wave):
            processes.append(_start(planned, plan, folder / str(slot), slot))
        answers = _wait_for_answers(processes)
    finally:
        for process in processes:
            _end(process.popen)
    answered = zip(wave, answers, strict=True)
    return [_measurement(planned, plan, answer) for planned, answer in answered]


def _start(planned: PlannedTrial, plan: Plan, folder: Path, slot: int) -> Process:
    """Start the trial in its own process group. The trial writes all its files in ``folder``."""
    folder.mkdir(parents=True)
    assignment = replace(
        Recorder(planned).assignment(),
        attempt=1,
        checkpoints=str(folder / "checkpoints"),
        evaluated={},
    )
    answer = folder / "answer.json"
    log = folder / "log.txt"
    request = folder / "request.json"
    request.write_text(to_request(assignment, plan.code, Limits(), answer), "utf-8")
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [sys.executable, *MODULE, str(request)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=planned.settings.source.folder,
            env=_environment(planned, slot) | {"TMPDIR": str(folder)},  # removed with the folder
            start_new_session=True,
        )
    return Process(planned, popen, answer, log)


def _environment(planned: PlannedTrial, slot: int) -> dict[str, str]:
    """This process's variables, with the threads and GPUs that Ray would assign to a worker."""
    cluster = planned.settings.cluster
    gpus = visible_gpus()
    first = int(slot * cluster.gpus_per_worker)
    count = max(1, round(cluster.gpus_per_worker)) if cluster.gpus_per_worker else 0
    return {
        **os.environ,
        THREADS: os.environ.get(THREADS, str(cluster.cpus_per_worker)),
        VISIBLE: ",".join(gpus[first : first + count]),
    }


def _wait_for_answers(processes: Sequence[Process]) -> list[Timings]:
    """The answer of each process. Raises CalibrationError as soon as one fails, or if they take too
    long."""
    deadline = time.monotonic() + SILENT_S
    while True:
        waiting = 0
        for process in processes:
            # Checked before the answer: a process writes its answer before it ends.
            has_ended = process.popen.poll() is not None
            if process.answer.exists():
                _refuse_failure(process)
            elif has_ended:
                raise _death(process)
            else:
                waiting += 1
        if not waiting:
            return [_read_answer(process) for process in processes]
        if time.monotonic() > deadline:
            cause = f"it neither ended nor reported enough within {SILENT_S:g} s"
            raise CalibrationError(processes[0].planned.name, cause, "")
        time.sleep(LOOK_S)


def _read_answer(process: Process) -> Timings:
    answer: Timings = json.loads(process.answer.read_text("utf-8"))
    return answer


def _refuse_failure(process: Process) -> None:
    """Raise CalibrationError if the process answered with an error."""
    answer = _read_answer(process)
    if "error" in answer:
        raise CalibrationError(process.planned.name, answer["error"], answer["details"])


def _death(process: Process) -> CalibrationError:
    """The error for a process that ended without an answer."""
    code = process.popen.returncode
    cause = f"its process ended with {code}"
    if code < 0:
        cause = f"its process was ended by {signal.Signals(-code).name}"
    log = process.log.read_text("utf-8", "replace")
    return CalibrationError(process.planned.name, cause, log)


def _end(popen: "subprocess.Popen[bytes]") -> None:
    """Kill the process and its children, and wait for its end."""
    with suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()
    assert popen.stdin
    popen.stdin.close()


def _measurement(planned: PlannedTrial, plan: Plan, answer: Mapping[str, Any]) -> Measurement:
    work = work_to_predict(planned)
    return Measurement(
        work=work.work,
        conditions=work.conditions,
        machine=machine(planned.settings.cluster.gpus_per_worker > 0),
        source="calibrated",
        flops_per_step=work.flops_per_step,
        version=version_of(plan),
        **answer,
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that this process cleans up before it
    ends."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ending = (signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, interrupt) for number in ending}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
