"""Calibration: the real work of some trials, for some steps, in processes of their own; the study stays untouched."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, Any

from sweeps.config.files import BASE
from sweeps.costs.calibrated_trial import Limits, to_request
from sweeps.costs.estimate import version_of, work_to_predict
from sweeps.costs.measurement import Measurement, keep_calibrated
from sweeps.costs.slots import slots_of, this_machine
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.running.recorder import Recorder
from sweeps.schema import Problem, RefusedError
from sweeps.worker.pace import machine

MODULE = (
    "-P",
    "-m",
    "sweeps.costs.calibrated_trial",
)  # -P: files of the current folder hide none of ours
LOOK_S = 0.1
SILENT_S = 600.0
"""Until a process has answered: beyond the limits of training and scoring it only imports and opens its data."""
PREFIX = "allelse-calibration-"
VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"


class CalibrationError(RuntimeError):
    """The work of a trial failed: its name, the cause, and the traceback."""

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
    """Raises RefusedError where the steps of this machine would say nothing of the sweep, or disturb one."""
    cluster = plan.composition.shared.cluster
    problems = list[Problem]()
    if not plan.pending:
        problems.append(Problem("--calibrate", "has nothing to measure: all trials are finished", "leave it out"))
    if cluster.address is not None:
        fault = f"is {cluster.address}, but --calibrate measures on this machine alone"
        allowed = "train one row there: plans then read its time from its result"
        problems.append(Problem("cluster.address", fault, allowed))
    if cluster.workers > 1:
        fault = f"is {cluster.workers}, but --calibrate runs one process per trial"
        problems.append(Problem("cluster.workers", fault, "train one row: plans then read its time from its result"))
    if plan.running:
        fault = f"would share this machine with {plan.running[0].trial.name}, which is running or waiting"
        problems.append(Problem("--calibrate", fault, "wait for it: plans then read its time from its result"))
    if not problems and slots_of(cluster, [this_machine()]) < 1:
        need = f"{cluster.cpus_per_worker} CPUs per worker"
        if cluster.gpus_per_worker:
            need = f"{need} and {cluster.gpus_per_worker:g} GPUs"
        fault = f"needs {need}, which this machine does not have"
        problems.append(Problem("--calibrate", fault, "set cluster.cpus_per_worker or cluster.gpus_per_worker lower"))
    if problems:
        raise RefusedError(problems)


def calibrate(plan: Plan, say: Callable[[str], None], limits: Limits | None = None) -> list[Measurement]:
    """Measure the cheapest, a middle and the dearest pending trial, and keep what was found for later plans.

    As many run at a time as a sweep runs: trials side by side slow each other down. The plan's data must be prepared.
    Raises CalibrationError, KeyboardInterrupt.
    """
    chosen = trials_to_measure([planned for planned in plan.pending if planned.host is None])
    slots = min(slots_of(plan.composition.shared.cluster, [this_machine()]), len(plan.pending))
    measured = list[Measurement]()
    with _interruptible(), TemporaryDirectory(prefix=PREFIX) as folder:
        for number, wave in enumerate(waves(chosen, slots)):
            names = ", ".join(dict.fromkeys(planned.trial.row for planned in wave))
            say(f"Calibrating {names}")
            measured += _measured(wave, plan, Path(folder, str(number)), limits or Limits())
    keep_calibrated(Path(plan.composition.shared.paths.runs), merged(measured))
    return measured


def trials_to_measure(pending: Sequence[PlannedTrial]) -> list[PlannedTrial]:
    """The cheapest, the middle and the dearest by FLOPs per step; without FLOPs by parameters. One per row.

    Where base is neither the cheapest nor the dearest, it is the middle: most rows are like it.
    """
    rows: dict[str, PlannedTrial] = {}
    for planned in pending:
        rows.setdefault(work_to_predict(planned).work, planned)
    ordered = sorted(rows.values(), key=_cost_of_a_step)
    if len(ordered) <= 3:
        return ordered
    inner = ordered[1:-1]
    middle = next((planned for planned in inner if planned.trial.row == BASE), inner[len(inner) // 2])
    return [ordered[0], middle, ordered[-1]]


def _cost_of_a_step(planned: PlannedTrial) -> float:
    if planned.costs.flops is not None:
        return planned.costs.flops / planned.steps
    return float(planned.costs.params or 0)


def waves(chosen: Sequence[PlannedTrial], slots: int) -> Iterator[list[PlannedTrial]]:
    """The trials in groups of ``slots``; the last group is filled up with those that were measured before."""
    for start in range(0, len(chosen), slots):
        wave = list(chosen[start : start + slots])
        for place in range(slots - len(wave)):
            wave.append(chosen[place % len(chosen)])
        yield wave


def merged(measured: Sequence[Measurement]) -> list[Measurement]:
    """One per row: of one that was measured more than once, the means of its times, and its highest memory."""
    rows: dict[tuple[str, str], list[Measurement]] = {}
    for one in measured:
        rows.setdefault((one.work, one.conditions), []).append(one)
    return [_mean(of_row) for of_row in rows.values()]


def _mean(measured: Sequence[Measurement]) -> Measurement:
    scoring = [one.scoring_seconds for one in measured if one.scoring_seconds is not None]
    cpu = [one.cpu_seconds_per_step for one in measured if one.cpu_seconds_per_step is not None]
    return replace(
        measured[0],
        seconds_per_step=fmean(one.seconds_per_step for one in measured),
        setup_seconds=fmean(one.setup_seconds for one in measured),
        start_seconds=fmean(one.start_seconds for one in measured),
        first_seconds=fmean(one.first_seconds for one in measured),
        first_cpu_seconds=fmean(one.first_cpu_seconds for one in measured),
        other_cpu_seconds=fmean(one.other_cpu_seconds for one in measured),
        scoring_seconds=fmean(scoring) if scoring else None,
        cpu_seconds_per_step=fmean(cpu) if cpu else None,
        peak_bytes=max(one.peak_bytes or 0 for one in measured),
    )


def _measured(wave: Sequence[PlannedTrial], plan: Plan, folder: Path, limits: Limits) -> list[Measurement]:
    processes = list[Process]()
    try:
        for place, planned in enumerate(wave):
            processes.append(_started(planned, plan, folder / str(place), limits, place))
        answers = _answers(processes)
    finally:
        for process in processes:
            _end(process.popen)
    return [_measurement(planned, plan, answer) for planned, answer in zip(wave, answers, strict=True)]


def _started(planned: PlannedTrial, plan: Plan, folder: Path, limits: Limits, place: int) -> Process:
    """The process, in a group of its own, with all that the trial writes in ``folder``."""
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
    request.write_text(to_request(assignment, plan.code, limits, answer), "utf-8")
    with log.open("wb") as output:
        popen = subprocess.Popen(
            [sys.executable, *MODULE, str(request)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=planned.settings.source.folder,
            env=_environment(planned, place) | {"TMPDIR": str(folder)},  # all that it leaves goes with it
            start_new_session=True,
        )
    return Process(planned, popen, answer, log)


def _environment(planned: PlannedTrial, place: int) -> dict[str, str]:
    """As Ray gives a worker its threads and GPUs."""
    cluster = planned.settings.cluster
    visible = os.environ.get(VISIBLE)
    names = visible.split(",") if visible else [str(number) for number in range(int(this_machine()["GPU"]))]
    first = int(place * cluster.gpus_per_worker)
    count = max(1, round(cluster.gpus_per_worker)) if cluster.gpus_per_worker else 0
    devices = {VISIBLE: ",".join(names[first : first + count])}
    return {**os.environ, THREADS: os.environ.get(THREADS, str(cluster.cpus_per_worker)), **devices}


def _answers(processes: Sequence[Process]) -> list[dict[str, Any]]:
    """Of all of them. Raises CalibrationError as soon as one has failed."""
    deadline = time.monotonic() + SILENT_S
    while True:
        waiting = 0
        for process in processes:
            ended = process.popen.poll() is not None  # before the look: the answer is written first
            if process.answer.exists():
                _refuse_failure(process)
            elif ended:
                raise _death(process)
            else:
                waiting += 1
        if not waiting:
            return [json.loads(process.answer.read_text("utf-8")) for process in processes]
        if time.monotonic() > deadline:
            cause = f"it neither ended nor reported enough within {SILENT_S:g} s"
            raise CalibrationError(processes[0].planned.trial.name, cause, "")
        time.sleep(LOOK_S)


def _refuse_failure(process: Process) -> None:
    answer = json.loads(process.answer.read_text("utf-8"))
    if "error" in answer:
        raise CalibrationError(process.planned.trial.name, answer["error"], answer["details"])


def _death(process: Process) -> CalibrationError:
    code = process.popen.returncode
    cause = f"its process was ended by {signal.Signals(-code).name}" if code < 0 else f"its process ended with {code}"
    return CalibrationError(process.planned.trial.name, cause, process.log.read_text("utf-8", "replace"))


def _end(popen: "subprocess.Popen[bytes]") -> None:
    """The process, and what it has begun."""
    with suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()
    stdin: IO[bytes] | None = popen.stdin
    if stdin is not None:
        stdin.close()


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
    """Within it, signals that end this process end it in order, so that nothing stays behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
