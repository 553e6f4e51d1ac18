"""How often marks by bucket err: ``python -m benchmarks.bucket_marks``.

Studies without any true difference are drawn with four buckets, whose scores correlate by 0.5 within
a trial. Either every bucket and *last minus first* are tested (Bonferroni over the five, Holm over
the rows), or only *last minus first*, as `allelse table --by` does. Both go through the function
behind the table. Shapes: B buckets and their contrast, S studies, R rows with base first, n seeds.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from benchmarks.record import RESULTS, Result, heading, provenance, write
from benchmarks.sheet import Sheet, to_markdown, to_terminal
from benchmarks.statistics import DESIGNS, FEW, ROWS, moments, sizes
from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.seeds.seed_tests import differences

BUCKETS = 4
CORRELATION = 0.5
NOISY_ROW = 2
TIMES = (1.0, 5.0)


@dataclass(frozen=True)
class BucketMarks:
    """% of the studies of one case in which a row is marked, though none differs."""

    sd_of_one_row: float
    rows: int
    seeds: int
    base_seeds: int
    every_bucket: float
    last_less_first: float


def bucket_marks(times: float, each: Sequence[int], studies: int) -> BucketMarks:
    """One row's sd is ``times`` that of the others. With a fixed seed of chance."""
    chance = np.random.default_rng(1)
    values_of_row = []
    for row, seeds in enumerate(each):
        sd = times if row == NOISY_ROW else 1.0
        values_of_row.append(sd * _values(studies, seeds, chance))
    p_holm = []
    for place in range(BUCKETS + 1):
        means, variances = moments([values_BSn[place] for values_BSn in values_of_row])
        p_holm.append(differences(means, variances, np.array(each)).p_holm)
    p_BSR = np.stack(p_holm)
    any_mark_S = (p_BSR * len(p_BSR) <= ALPHA).any(axis=(0, 2))
    drift_mark_S = (p_BSR[-1] <= ALPHA).any(axis=1)
    every_bucket = 100 * float(any_mark_S.mean())
    last_less_first = 100 * float(drift_mark_S.mean())
    return BucketMarks(times, len(each), each[1], each[0], every_bucket, last_less_first)


def _values(studies: int, seeds: int, chance: np.random.Generator) -> Any:
    """[B, S, n]: a row's scores in each bucket, then the last less the first."""
    shared_1Sn = chance.normal(size=(1, studies, seeds))
    alone_BSn = chance.normal(size=(BUCKETS, studies, seeds))
    values_BSn = np.sqrt(CORRELATION) * shared_1Sn + np.sqrt(1 - CORRELATION) * alone_BSn
    return np.concatenate([values_BSn, values_BSn[-1:] - values_BSn[:1]])


def marks_sheet(cases: Sequence[BucketMarks]) -> Sheet:
    rows = [
        (
            f"{case.rows} rows",
            f"× {case.sd_of_one_row:g}",
            f"{case.seeds} + {case.base_seeds}",
            f"{case.every_bucket:.1f}",
            f"{case.last_less_first:.1f}",
        )
        for case in cases
    ]
    note = (
        "% of studies with a false mark; none of the rows differs. Seeds of each row + of base. "
        f"{BUCKETS} buckets correlate by {CORRELATION}."
    )
    columns = ("rows", "one row's sd", "seeds", "every bucket", "last minus first only")
    return Sheet("Marks by bucket", note, columns, rows, words=3)


def main(studies: int = 8_000, out: Path = RESULTS) -> None:
    """Simulate every case, print the shares and write them below ``out``."""
    began = time.monotonic()
    result: Result = provenance("benchmarks.bucket_marks", ["numpy", "scipy"])
    cases = [
        bucket_marks(times, sizes(*design, rows), studies)
        for rows, times, design in product((ROWS, FEW), TIMES, DESIGNS)
    ]
    result["marks"] = [asdict(case) for case in cases]
    result["seconds"] = time.monotonic() - began
    sheet = marks_sheet(cases)
    Console(width=120).print(to_terminal(sheet))
    head = "\n".join(heading("Marks by bucket, simulated", result))
    print(write("bucket-marks", f"{head}\n\n{to_markdown(sheet)}", result, [], out))


if __name__ == "__main__":
    typer.run(main)
