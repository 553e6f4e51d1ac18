"""What a trial of a command costs besides the command: ``python -m benchmarks.command_trials``.

Twenty trials of ``date``, whose score is the time at which it ran: from the moment at which the
queue gives a trial to a process until ``date`` runs, and from there until the result is on disk.
Then the processor time of watching one command that prints a line per second.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tracking.attempts import AttemptRecords

ALLELSE = str(Path(sys.executable).with_name("allelse"))
SEEDS = list(range(1, 21))
DATE = 'command: [date, "+score: %s.%N"]\nmetrics: {score: up}\n'
WATCHED_S = 30
LINES = f"""\
command:
  - sh
  - -c
  - for i in $(seq {WATCHED_S}); do echo "step: $i loss: 0.5"; sleep 1; done; echo "score: 1"
metrics: {{score: up}}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conf" / "task").mkdir(parents=True)
        (folder / "conf" / "task" / "date.yaml").write_text(DATE)
        (folder / "conf" / "task" / "lines.yaml").write_text(LINES)
        _run(folder, "sweep", "task=date", f"sweep.seeds={SEEDS}")
        starts, ends = _delays(folder / "runs" / "date-full")
        print("| part of a trial | median of 20 | longest |\n| --- | --- | --- |")
        for part, delays in (("from queue to exec", starts), ("from exit to result", ends)):
            print(f"| {part} | {median(delays):.3f} s | {max(delays):.3f} s |")
