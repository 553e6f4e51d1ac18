"""Predicted against actual hours and memory: plans that are calibrated, then run.

    python -m benchmarks.plan_hours                      # tiny and the starter task
    python -m benchmarks.plan_hours tiny half starter    # half needs Multi30k: --mirror FOLDER

Prints a table: per trial and in all, predicted ÷ actual of seconds, CPU seconds and peak memory. On
a busy machine compare CPU seconds: they hardly depend on other processes.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALLELSE = Path(sys.executable).parent / "allelse"
HALF = (
    "scale=half",
    "data=multi30k",
    "sweep.rows=[base,c_layers_2]",
    "train.steps=120",
    "train.warmup_steps=60",
)
CASES: dict[str, tuple[str, ...]] = {
    "tiny": ("sweep.rows=[base,a_heads_1,b_key_16,c_layers_2,c_ff_4096,big]",),
    "half": (*HALF, "train.evaluate_every=60"),
    "starter": ("task=mine",),
}
"""What is typed after `allelse plan` and `allelse sweep`."""
HEAD = (
    "case",
    "trial",
    "plan",
    "seconds",
    "predicted ÷",
    "CPU seconds",
    "predicted ÷",
    "memory MB",
    "predicted ÷",
)


@dataclass(frozen=True)
class Compared:
    """One trial, or a whole sweep: what was predicted and what it took. NaN is unknown."""

    case: str
    trial: str
    source: str
    seconds: tuple[float, float]
    cpu_seconds: tuple[float, float] = (math.nan, math.nan)
    megabytes: tuple[float, float] = (math.nan, math.nan)

    def cells(self) -> list[str]:
        cells = [self.case, self.trial, self.source]
        for predicted, actual in (self.seconds, self.cpu_seconds, self.megabytes):
            cells += (
                ["", ""] if math.isnan(actual) else [f"{actual:.1f}", f"{predicted / actual:.2f}"]
            )
        return cells


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "cases", nargs="*", default=["tiny", "starter"], metavar="CASE", help=", ".join(CASES)
    )
    options.add_argument("--mirror", help="folder or address of Multi30k's files")
    typed = options.parse_args()
    for case in typed.cases:
        mirror = [f"data.mirror={typed.mirror}"] if case == "half" and typed.mirror else []
        print("\n".join(table([*compared(case, [*CASES[case], *mirror])])), flush=True)


def compared(case: str, overrides: Sequence[str]) -> Iterator[Compared]:
    """Calibrate, run and compare in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="plan-hours-") as name:
        folder = Path(name)
        if case == "starter":
            allelse(folder, "init", "mine")
        plan = json.loads(allelse(folder, "plan", *overrides, "--calibrate", "--json"))
        allelse(folder, "sweep", *overrides)
        results = {f"{line['row']}-s{line['seed']}": line for line in plan}
        for trial, line in results.items():
            if not line["weights"]:  # the others train nothing
                yield of_trial(case, trial, line, next(folder.glob(f"runs/*/{trial}")))
        ends = max(line["ends_after_seconds"] for line in plan)
        yield Compared(case, "all, side by side", "", (ends, wall_seconds(folder)))


def of_trial(case: str, trial: str, line: dict[str, Any], folder: Path) -> Compared:
    result = json.loads((folder / "result.json").read_text("utf-8"))
    pace = result["pace"]
    return Compared(
        case,
        trial,
        "interpolated" if line["interpolated"] else line["seconds_source"],
        (line["seconds"], result["seconds"] + pace["scoring_seconds"]),
        (line["cpu_seconds"], pace["cpu_seconds"]),
        (line["memory_bytes"] / 1e6, pace["peak_bytes"] / 1e6),
    )


def wall_seconds(folder: Path) -> float:
    """From the first attempt's beginning to the last one's end."""
    lines = [
        line
        for path in folder.glob("runs/*/*/attempts.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    moments = [json.loads(line)["ts"] for line in lines]
    return float(max(moments) - min(moments))


def allelse(folder: Path, *words: str) -> str:
    """The output of a command. Its messages stay visible."""
    process = subprocess.run(
        [ALLELSE, *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return process.stdout


def table(lines: Sequence[Compared]) -> Iterator[str]:
    """In Markdown."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"|---|---|---|{'--:|' * (len(HEAD) - 3)}"
    for line in lines:
        yield f"| {' | '.join(line.cells())} |"


if __name__ == "__main__":
    main()
