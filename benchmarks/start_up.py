"""How long a command takes to refuse a mistake or to show a plan: ``python -m
benchmarks.start_up``.

Each is compared with an interpreter that only imports the libraries of the command line, in the
same rounds.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.timing import Rounds, in_rounds

ALLELSE = str(Path(sys.executable).with_name("allelse"))
COMMANDS = {
    "import typer, rich": [sys.executable, "-c", "import typer, rich"],
    "--version": [ALLELSE, "--version"],
    "a mistyped key": [ALLELSE, "plan", "modle.heads=4"],
    "four mistakes": [
        ALLELSE,
        "plan",
        "modle.heads=4",
        "model.d_ff=0",
        "scale=tny",
        "sweep.rows=[base,bgi]",
    ],
    "plan of 20 rows": [ALLELSE, "plan"],
    "plan at scale half": [ALLELSE, "plan", "scale=half"],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = partial(subprocess.run, cwd=folder, capture_output=True, check=False)
        tasks: list[Callable[[], object]] = [partial(run, words) for words in COMMANDS.values()]
        seconds = [median(times) for times in in_rounds(tasks, Rounds(11, 11), time.perf_counter)]
    print("| command | median of 11 | × the imports |\n| --- | --- | --- |")
    for name, duration in zip(COMMANDS, seconds, strict=True):
        print(f"| {name} | {duration:.2f} s | {duration / seconds[0]:.1f} |")


if __name__ == "__main__":
    main()
