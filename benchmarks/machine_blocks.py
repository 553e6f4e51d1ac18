"""How often marks err if trials ran on two kinds of machine: ``python -m benchmarks.machine_blocks``.

Studies of 20 rows are drawn in which the second kind raises each score by the same amount. They are
tested as the table does, and again with a block for each kind, by the functions behind the table.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from benchmarks.record import RESULTS, Result, heading, provenance, write
from benchmarks.sheet import Sheet, to_markdown, to_terminal
from tracking.card import Metric
from tracking.statistics.seeds.blocks import BlockTest, block_tests
from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.seeds.seed_tests import differences

BASE = "base"
ROWS = [f"r{number}" for number in range(1, 20)]
SEEDS = {BASE: 9} | dict.fromkeys(ROWS, 3)
DIFFERING = ("r16", "r19")  # in the second layout, of the second kind alone, and of both
DIFFERENCE = 3.5  # sd over seeds, of the row that differs
SHIFTS = (0.0, 1.0, 3.0)  # sd over seeds, of the second kind
NOISY = (None, "r1", "r17")  # in the second layout, of the first kind alone, and of both
TIMES = 5.0  # the noisy row's sd over that of the others
METRIC = Metric("score")

LAYOUTS: dict[str, Mapping[str, int]] = {
    "seeds 1 and 2 of each row on the first kind": dict.fromkeys(SEEDS, 2),
    "base and 8 rows, 2 seeds of 3 rows, nothing of 8": (
        {BASE: 9}
        | dict.fromkeys(ROWS[:8], 3)
        | dict.fromkeys(ROWS[8:16], 0)
        | dict.fromkeys(ROWS[16:], 2)
    ),
}
"""By name, how many seeds of each row the first kind trained."""


@dataclass(frozen=True)
class Marks:
    """% of studies in which any row is marked though none differs, and in which each of two rows
    is that differs by 3.5 sd."""

    false: float
    true: tuple[float, float]

    @property
    def text(self) -> str:
        return " / ".join(f"{share:.1f}" for share in (self.false, *self.true))


@dataclass(frozen=True)
class BlockMarks:
    """The marks of one case, by the table's test and with a block for each kind."""

    layout: str
    shift: float
    noisy: str | None
    plain: Marks
    with_blocks: Marks


def block_marks(layout: str, shift: float, noisy: str | None, studies: int) -> BlockMarks:
    """Simulated, with a fixed seed of chance."""
    chance = np.random.default_rng(1)
    blocks = blocks_of(layout)
    counts_23 = np.zeros((2, 1 + len(DIFFERING)))
    for _ in range(studies):
        values = _drawn(blocks, shift, noisy, chance)
        counts_23[:, 0] += [any(marks.values()) for marks in _both_marks(values, blocks)]
        for place, row in enumerate(DIFFERING, 1):
            shifted = {**values, row: values[row] + DIFFERENCE}
            counts_23[:, place] += [marks[row] for marks in _both_marks(shifted, blocks)]
    plain, with_blocks = (
        Marks(false, (first, second)) for false, first, second in 100 * counts_23 / studies
    )
    return BlockMarks(layout, shift, noisy, plain, with_blocks)


def blocks_of(layout: str) -> dict[str, list[str]]:
    """By row, the kind of machine of each of its seeds."""
    first = LAYOUTS[layout]
    return {row: ["A"] * first[row] + ["B"] * (n - first[row]) for row, n in SEEDS.items()}


def _drawn(
    blocks: Mapping[str, Sequence[str]],
    shift: float,
    noisy: str | None,
    chance: np.random.Generator,
) -> dict[str, Any]:
    values = {}
    for row, kinds in blocks.items():
        sd = TIMES if row == noisy else 1.0
        effects = np.array([shift if kind == "B" else 0.0 for kind in kinds])
        values[row] = sd * chance.normal(size=len(kinds)) + effects
    return values


def _both_marks(
    values: Mapping[str, Any], blocks: Mapping[str, Sequence[str]]
) -> tuple[dict[str, bool], dict[str, bool]]:
    """Whether each row is marked: by the table's test, and with blocks."""
    means = np.array([row.mean() for row in values.values()])
    variances = np.array([row.var(ddof=1) for row in values.values()])
    seeds = np.array([len(row) for row in values.values()])
    p_holm = differences(means, variances, seeds).p_holm.tolist()
    plain = {row: p <= ALPHA for row, p in zip(ROWS, p_holm, strict=True)}
    tests = block_tests(METRIC, values, blocks, dict.fromkeys(ROWS, BASE))
    return plain, {row: _is_marked(test) for row, test in tests.items()}


def _is_marked(test: BlockTest | None) -> bool:
    return test is not None and test.p <= ALPHA


def marks_sheet(cases: Sequence[BlockMarks]) -> Sheet:
    rows = [
        (
            case.layout,
            f"{case.shift:g}",
            case.noisy or "none",
            case.plain.text,
            case.with_blocks.text,
        )
        for case in cases
    ]
    note = (
        "% of studies in which any row is marked though none differs / in which r16 is marked, if "
        f"it differs by {DIFFERENCE:g} sd / the same for r19. 3 seeds of each of r1 to r19 and 9 of "
        "base. Shift: what the second kind of machine adds to each score, in sd over seeds. The "
        f"noisy row's sd is {TIMES:g} times that of the others."
    )
    columns = ("trained on the first kind", "shift", "noisy row", "table's test", "with blocks")
    return Sheet("Two kinds of machine", note, columns, rows, words=1)


def main(studies: int = 4_000, out: Path = RESULTS) -> None:
    """Simulate every case, print the shares and write them below ``out``."""
    began = time.monotonic()
    result: Result = provenance("benchmarks.machine_blocks", ["numpy", "scipy"])
    cases = [block_marks(*case, studies) for case in product(LAYOUTS, SHIFTS, NOISY)]
    result["marks"] = [asdict(case) for case in cases]
    result["seconds"] = time.monotonic() - began
    sheet = marks_sheet(cases)
    Console(width=120).print(to_terminal(sheet))
    head = "\n".join(heading("Marks of trials from two kinds of machine, simulated", result))
    print(write("machine-blocks", f"{head}\n\n{to_markdown(sheet)}", result, [], out))


if __name__ == "__main__":
    typer.run(main)
