"""What trials cost the process of their sweep: ``python -m benchmarks.polling [--trials N]``,
without joined clusters.

Trials that only wait, on a Ray of this machine that is told to have a CPU for each of them. CPU
seconds of the sweep's process in the time in which all of them run; from one trial's last step to
the next one's first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil

WAITS_S = 40
"""How long each trial waits, after the last one has begun."""
PORT = 26379
TASK = f"""
import time
from dataclasses import dataclass
from pathlib import Path
from sweeps.task import Metric, Task, Trial

@dataclass(frozen=True)
class Train:
    trials: int

@dataclass(frozen=True)
class Config:
    train: Train

def work(trial):
    trial.report(1, {{"train/loss": 1.0}})
    runs = Path(__file__).parent / "runs" / "s"
    trials = trial.config.train.trials
    while len(list(runs.glob("*/journal.jsonl"))) < trials and not trial.stopping():
        time.sleep(0.5)
    end = time.monotonic() + {WAITS_S} * (trial.config.train.trials > 1)
    while time.monotonic() < end and not trial.stopping():
        time.sleep(0.5)
    trial.report(2, {{"train/loss": 0.5}})
    trial.evaluated("dev", {{"score": 1.0}})

task = Task("waiting", 1, Config, (Metric("score"),), steps=lambda config: 2, work=work)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.polling", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--trials", type=int, default=30, help="at once, besides 2; default: 30")
    most = parser.parse_args().trials
    os.environ["RAY_AUTH_MODE"] = "disabled"  # of this machine's own Ray
    print("| trials at once | CPU of the sweep's process, of one core |\n| --- | --- |")
    for trials in (2, most):
        print(f"| {trials} | {cpu_share(trials):.1%} |", flush=True)
    print(
        "\nFrom one trial's last report to the next one's first: "
        f"{between_trials():.2f} s (longest of 5)."
    )


def cpu_share(trials: int) -> float:
    """Of the sweep's process, while all of them run."""
    with _sweep(trials, trials) as (process, runs):
        sweep = psutil.Process(process.pid)
        while len([*runs.glob("*/journal.jsonl")]) < trials:
            assert process.poll() is None
            time.sleep(0.5)
        start_times = sweep.cpu_times()
        began = time.monotonic()
        time.sleep(0.75 * WAITS_S)
        end_times = sweep.cpu_times()
        ended = time.monotonic()
        assert process.wait() == 0
        return (end_times.user + end_times.system - start_times.user - start_times.system) / (
            ended - began
        )


def between_trials() -> float:
    """Seconds, of six trials one after another."""
    with _sweep(1, 6) as (process, runs):
        assert process.wait() == 0
        journals = [path.read_text().splitlines() for path in runs.glob("*/journal.jsonl")]
    spans = sorted((json.loads(lines[0])["ts"], json.loads(lines[-1])["ts"]) for lines in journals)
    return float(max(begin - end for (_, end), (begin, _) in pairwise(spans)))


@contextmanager
def _sweep(at_once: int, seeds: int) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """A sweep of one row on a Ray with so many CPUs, which ends with it; and the folder of its
    trials."""
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        (folder / "waiting.py").write_text(TASK)
        (folder / "conf/task/waiting").mkdir(parents=True)
        (folder / "conf/task/waiting/base.yaml").write_text(f"train: {{trials: {at_once}}}\n")
        options = (
            f"--head --port={PORT} --num-cpus={at_once} --include-dashboard=false "
            "--disable-usage-stats"
        )
        ray = [
            str(Path(sys.executable).with_name("ray")),
            "start",
            *options.split(),
            f"--temp-dir={folder / 'ray'}",
        ]
        subprocess.run(ray, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sweep = [
            "-P",
            "-m",
            "sweeps.cli",
            "sweep",
            "task=waiting",
            "sweep.name=s",
            f"cluster.address=127.0.0.1:{PORT}",
        ]
        try:
            override = f"sweep.seeds={[*range(1, seeds + 1)]}"
            yield (
                subprocess.Popen([sys.executable, *sweep, override], cwd=folder, stdout=2),
                folder / "runs" / "s",
            )
        finally:
            _end(folder_name)


def _end(folder_name: str) -> None:
    """The processes of the Ray whose files are there."""
    for process in psutil.process_iter(["cmdline"]):
        if any(folder_name in word for word in process.info["cmdline"] or ()):
            process.kill()


if __name__ == "__main__":
    main()
