"""What a trial of a command costs besides the command: ``python -m benchmarks.command_trials``.

Twenty trials of ``date``, whose score is the time at which it runs: from the moment at which the
queue gives the trial to a process until then, and from then until the result is on disk. Then the
CPU time of watching a command that prints a line per second.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psutil

ALLELSE = str(Path(sys.executable).with_name("allelse"))
N_TRIALS = 20
WATCHED_S = 30
DATE = 'command: [date, "+score: %s.%N"]\nmetrics: {score: up}\n'
LINES = f"""\
command:
  - sh
  - -c
  - for i in $(seq {2 * WATCHED_S}); do echo "step $i loss 0.5"; sleep 1; done
metrics: {{loss: down}}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conf" / "task").mkdir(parents=True)
        (folder / "conf" / "task" / "date.yaml").write_text(DATE)
        (folder / "conf" / "task" / "lines.yaml").write_text(LINES)
        seeds = f"sweep.seeds={list(range(1, N_TRIALS + 1))}"
        words = ["task=date", seeds, "tracking=off", "sweep.share=false"]
        subprocess.run([ALLELSE, "sweep", *words], cwd=folder, check=True, stdout=sys.stderr)
        delays = list(_delays(folder / "runs" / "date-full"))
        print(f"| part of a trial | median of {len(delays)} | longest |\n| --- | --- | --- |")
        for number, part in enumerate(("from queue to exec", "from exit to result")):
            seconds = [delay[number] for delay in delays]
            print(f"| {part} | {median(seconds):.3f} s | {max(seconds):.3f} s |")
        print(f"\nWatching takes {100 * _watching(folder):.2f} % of a core.")


def _delays(study: Path) -> Iterator[tuple[float, float]]:
    """Of each trial, the seconds from its beginning to ``date``, and from there to its result."""
    trials: list[tuple[float, float, float]] = []
    for result in study.glob("base-s*/result.json"):
        ran = json.loads(result.read_text())["scores"]["dev"]["score"]
        attempts = (result.parent / "attempts.jsonl").read_text().splitlines()
        trials.append((json.loads(attempts[0])["ts"], ran, result.stat().st_mtime))
    for began, ran, ended in trials:
        yield ran - began, ended - ran


def _watching(folder: Path) -> float:
    """The share of a core that the worker of a running trial uses."""
    words = ["sweep", "task=lines", "tracking=off"]
    sweep = subprocess.Popen([ALLELSE, *words], cwd=folder, stdout=subprocess.DEVNULL)
    journal = folder / "runs" / "lines-full" / "base-s1" / "journal.jsonl"
    while not journal.exists():
        time.sleep(0.1)
    worker = next(_workers(psutil.Process(sweep.pid)))
    start_cpu = _cpu(worker)
    time.sleep(WATCHED_S)
    share = (_cpu(worker) - start_cpu) / WATCHED_S
    sweep.wait()
    return share


def _workers(sweep: psutil.Process) -> Iterator[psutil.Process]:
    """The process whose descendants run the command."""
    for process in sweep.children(recursive=True):
        if any("guard.py" in " ".join(child.cmdline()) for child in process.children()):
            yield process


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
