"""What a study of a thousand trials costs those who start and watch it: ``python -m
benchmarks.large_study``.

First a study whose trials have ended, with a journal of a thousand lines each: CPU and wall seconds
of commands that read it, once after the system forgot its files, and again. Then a real sweep of as
many trials of the task that `allelse init` writes: wall seconds until its first report, and the CPU
time of its process and of a watching one.
"""

import argparse
import contextlib
import os
import pty
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from sweeps.planning.continuation import plan_sweep
from sweeps.planning.plan_record import study_with_plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.user_code.origin import keep_origin, origin_of
from sweeps.processes.events import Finished, Started
from sweeps.running.recording.recorder import Recorder
from sweeps.verbs.setup import create
from tracking.files import to_json
from tracking.json_lines.journal import journal_line
from tracking.study import STUDY_FILE, write_study
from tracking.trial import TrialFolder
from transformer.card import CARD

ALLELSE = [sys.executable, "-m", "sweeps.cli"]
READERS = (
    *("status", "status --json", "plan", "studies"),
    *("table", "table --format csv", "table --format json", "report --no-figures", "report"),
)
SEEDS = 10
PATIENCE_S = 600.0
STARTED_S = 15.0
WATCHED_S = 30.0
"""Seconds that a watching process has for its start, and those over which its CPU time is
measured."""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        create("curve", Path.cwd())
        finish(overrides("ended", options.trials), options.lines)
        print(
            f"| {options.trials} finished trials of {options.lines} lines | first: CPU, "
            "wall | again: CPU, wall |"
        )
        print("| --- | --- | --- |")
        for verb in READERS:
            words = [*verb.split(), *([] if verb == "studies" else ["sweep.name=ended"])]
            forget(Path("runs"))
            print(f"| `allelse {verb}` | {_taken(words)} | {_taken(words)} |")
        print(f"\n| a sweep of {options.pending} trials | |\n| --- | --- |")
        for name, value in started(overrides("begun", options.pending)).items():
            print(f"| {name} | {value} |")


def overrides(study: str, trials: int) -> list[str]:
    """Of a study with so many trials: base and learning rates, ten seeds each."""
    rates = ", ".join(f"{0.001 + 1e-5 * number:.5f}" for number in range(trials // SEEDS - 1))
    rows = f"sweep.vary={{train.lr: [{rates}]}}"
    seeds = f"sweep.seeds=[{','.join(map(str, range(1, SEEDS + 1)))}]"
    return [
        "task=curve",
        f"sweep.name={study}",
        rows,
        seeds,
        "train.steps=100000",
        "train.save_every=1000",
    ]


def finish(words: list[str], lines: int) -> None:
    """The study as a sweep leaves it, without training."""
    plan = plan_sweep(words)
    write_study(study_with_plan(plan, ["allelse", "sweep", *words]))
    keep_origin(plan.folder, origin_of(plan.composition.shared.source, plan.code), plan.code)
    for planned in plan.pending:
        _finish(planned, lines)


def _finish(planned: PlannedTrial, lines: int) -> None:
    recorder = Recorder(planned)
    step = planned.steps // lines
    recorder.begin()
    recorder.take(1, Started("cpu"))
    metrics = {f"train/{name}": 1 / 3 for name in ("loss", "accuracy", "rate")}
    reports = (
        journal_line(time.time(), 1, step * line, metrics, step * line)
        for line in range(1, lines + 1)
    )
    planned.folder.journal_path.write_text("".join(f"{to_json(report)}\n" for report in reports))
    costs = {"params": 6, "flops": None, "seconds": 1.0}
    recorder.take(
        1, Finished(planned.steps, costs, {"test": {"mse": 1 / planned.trial.seed, "decode": {}}})
    )


def forget(folder: Path) -> None:
    """Let the system drop what it holds of these files in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _taken(words: list[str]) -> str:
    """Such as "1.02 s, 1.10 s"."""
    start_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run([*ALLELSE, *words], check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    end_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    user_s = end_usage.ru_utime - start_usage.ru_utime
    system_s = end_usage.ru_stime - start_usage.ru_stime
    return f"{user_s + system_s:.2f} s, {wall:.2f} s"


def started(words: list[str]) -> dict[str, str]:
    """Start a sweep, watch it from another process, and stop it."""
    began = time.time()
    study = Path("runs", "begun")
    with in_terminal(["sweep", *words]) as sweep:
        written = _until(lambda: _modified(study / STUDY_FILE), sweep)
        first = _until(lambda: _first_report(study), sweep)
        with in_terminal(["status", "--watch", "sweep.name=begun"]) as watching:
            time.sleep(STARTED_S)
            processes = [psutil.Process(child.pid) for child in (sweep, watching)]
            start_cpu = [_cpu(process) for process in processes]
            time.sleep(WATCHED_S)
            shares = [
                (_cpu(process) - used) / WATCHED_S
                for process, used in zip(processes, start_cpu, strict=True)
            ]
    return {
        "typed until study.json is written": f"{written - began:.1f} s",
        "study.json until the first report": f"{first - written:.1f} s",
        "CPU of the sweep's process, with its live view": f"{shares[0]:.1%} of a core",
        "CPU of `allelse status --watch`": f"{shares[1]:.1%} of a core",
    }


@contextmanager
def in_terminal(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """`allelse` in a terminal of its own, which draws its live view; stopped by SIGTERM at the
    end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ALLELSE, *words], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _drain(terminal: int) -> None:
    with contextlib.suppress(OSError):  # the process has ended
        while os.read(terminal, 1 << 16):
            pass


def _until(probe: Callable[[], float | None], process: subprocess.Popen[bytes]) -> float:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if (value := probe()) is not None:
            return value
        time.sleep(0.05)
    raise RuntimeError(f"the sweep ended, with exit code {process.returncode}, or took too long")


def _modified(path: Path) -> float | None:
    return path.stat().st_mtime if path.exists() else None


def _first_report(study: Path) -> float | None:
    journals = [TrialFolder(path.parent, CARD).journal() for path in study.glob("*/journal.jsonl")]
    return min((journal[0].ts for journal in journals if journal), default=None)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_study", description=(__doc__ or "").split("\n")[0]
    )
    for name, value in {"trials": 1000, "lines": 1000, "pending": 1040}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
