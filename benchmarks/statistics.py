"""How often the table's mark errs, and what it finds: ``python -m benchmarks.statistics [--noise
FILE]``.

Studies without any true difference are drawn, so that every mark is false. They go through the very
function behind the table, `tracking.statistics.seeds.seed_tests.differences`, thousands at a time.
Neither place nor unit of a metric matters. Rows that are compared seed by seed follow
(`benchmarks.paired_statistics`). Shapes: S studies, R rows with base first, n seeds of a row.
"""

import json
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from benchmarks.paired_statistics import paired_findings, paired_sheets
from benchmarks.record import RESULTS, Result, heading, provenance, write
from benchmarks.sheet import MET, MISSED, Sheet, to_markdown, to_terminal
from tracking.card import Metric
from tracking.statistics.seeds.family import SeedScores, family
from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.seeds.seed_tests import (
    CANDIDATES,
    POWER,
    Power,
    differences,
    exponential_intervals,
    intervals,
)

ROWS, FEW = 20, 3  # with base: a whole study, and the smallest with a family
DESIGNS = ((3, 3), (3, 9), (4, 12))  # seeds of each row, and of base
EFFECT = 3.5  # sd, of the one row that differs where power is measured
CHECKED = 2  # studies of each case whose marks are compared with those of a table
EQUAL = "equal sds"
WITHIN = "rows of one list"
# %, what docs/statistics.md promises
EVEN_ERROR = 6.0
ERROR = 11.0
LEAST_POWER = {(3, 3): 65.0, (3, 9): 85.0}
Sizes = Sequence[int]  # seeds of each row, base first
Draw = Callable[[int, Sizes, np.random.Generator], list[Any]]
"""Studies, sizes, chance -> for each row [S, n]."""
Sds = Callable[[tuple[int, int], np.random.Generator], Any]
"""[S, R], chance -> standard deviations."""


def normal(sds: Sds) -> Draw:
    """Normal values with these standard deviations."""

    def draw(studies: int, row_seeds: Sizes, chance: np.random.Generator) -> list[Any]:
        spread = sds((studies, len(row_seeds)), chance)
        return [
            spread[:, row, None] * chance.normal(size=(studies, n))
            for row, n in enumerate(row_seeds)
        ]

    return draw


def one_apart(row: int, times: float) -> Sds:
    return lambda shape, _: np.broadcast_to(np.where(np.arange(shape[1]) == row, times, 1.0), shape)


def of_rows(sds: Sds) -> Sds:
    """Drawn for every row but base, whose sd is 1: the harder case, since base's enters every
    difference."""
    return lambda shape, chance: np.hstack(
        [np.ones((shape[0], 1)), sds((shape[0], shape[1] - 1), chance)]
    )


CASES: dict[str, Draw] = {
    EQUAL: normal(one_apart(0, 1.0)),
    "one row's sd × 5": normal(one_apart(2, 5.0)),
    "base's sd × 3": normal(one_apart(0, 3.0)),
    "base's sd × 6": normal(one_apart(0, 6.0)),
    "sds uniform from 0.5 to 2": normal(
        of_rows(lambda shape, chance: chance.uniform(0.5, 2.0, shape))
    ),
    "sds lognormal (0.5)": normal(
        of_rows(lambda shape, chance: np.exp(0.5 * chance.normal(size=shape)))
    ),
}


def noise_cases(lists: Sequence[Sequence[float]]) -> dict[str, Draw]:
    """Rows drawn from lists of real results, each list less its mean, so that no row differs."""
    centered = [np.asarray(values) - np.mean(values) for values in lists]
    scaled = [values / values.std(ddof=1) for values in centered]

    def alike(studies: int, row_seeds: Sizes, chance: np.random.Generator) -> list[Any]:
        """All rows of a study from one list; every list has as many studies."""
        parts = np.array_split(np.arange(studies), len(centered))
        draws = []
        for n in row_seeds:
            rows = [
                chance.choice(group, (len(part), n))
                for group, part in zip(centered, parts, strict=True)
            ]
            draws.append(np.concatenate(rows))
        return draws

    def mixed(pool: Sequence[Any]) -> Draw:
        def draw(studies: int, row_seeds: Sizes, chance: np.random.Generator) -> list[Any]:
            lengths = np.array([len(group) for group in pool])
            table = np.full((len(pool), lengths.max()), np.nan)
            for index, values in enumerate(pool):
                table[index, : len(values)] = values
            draws = []
            for n in row_seeds:
                chosen = chance.integers(len(pool), size=(studies, 1))
                draws.append(
                    table[chosen, (chance.random((studies, n)) * lengths[chosen]).astype(int)]
                )
            return draws

        return draw

    return {
        WITHIN: alike,
        "rows of any list, scaled to one sd": mixed(scaled),
        "rows of any list": mixed(centered),
    }


def sizes(seeds: int, base: int, rows: int = ROWS) -> list[int]:
    return [base, *[seeds] * (rows - 1)]


@dataclass(frozen=True)
class Shares:
    """Of the studies of one case, in %."""

    case: str
    rows: int
    seeds: int
    base_seeds: int
    error: float  # some row is marked, though none differs
    coverage: float  # every interval holds its true difference
    # a false "disagrees": some row is marked as worse than base where the paper has a better one
    against: float
    # the row that lies 3.5 sd away is marked; None for real noise, whose sds differ
    power: float | None

    @property
    def kept(self) -> bool:
        """Whether every promise of docs/statistics.md holds."""
        if self.rows < ROWS:
            return True
        bound = EVEN_ERROR if self.case in (EQUAL, WITHIN) else ERROR
        enough = self.case != EQUAL or (self.power or 0) >= LEAST_POWER.get(
            (self.seeds, self.base_seeds), 0
        )
        return (
            enough and self.error <= bound and self.coverage >= 100 - bound and self.against <= 10
        )


def shares(case: str, draw: Draw, row_seeds: Sizes, studies: int) -> Shares:
    """Simulated, with a fixed seed of chance."""
    means, variances = moments(draw(studies, row_seeds, np.random.default_rng(1)))
    number = np.array(row_seeds)
    rows = len(row_seeds)
    tested = differences(means, variances, number)
    shifted = differences(means + EFFECT * (np.arange(rows) == 1), variances, number)
    wrong = tested.p_holm <= ALPHA
    covered = tested.p * (rows - 1) > ALPHA  # as intervals() says: checked in tests
    percent = {
        "error": wrong.any(axis=1),
        "coverage": covered.all(axis=1),
        "against": (wrong & (tested.difference < 0)).any(axis=1),
    }
    power = 100 * float((shifted.p_holm[:, 0] <= ALPHA).mean()) if case in CASES else None
    percentages = {name: 100 * float(flags.mean()) for name, flags in percent.items()}
    return Shares(case, rows, row_seeds[1], row_seeds[0], power=power, **percentages)


def moments(values: Sequence[Any]) -> tuple[Any, Any]:
    """[S, R] means and sample variances."""
    return np.stack([row.mean(axis=1) for row in values], 1), np.stack(
        [row.var(axis=1, ddof=1) for row in values], 1
    )


def check_against_table(draw: Draw, row_seeds: Sizes) -> None:
    """Raises AssertionError unless a table of the same values has the same marks and intervals."""
    values = draw(CHECKED, row_seeds, np.random.default_rng(1))
    means, variances = moments(values)
    tested = differences(means, variances, np.array(row_seeds))
    low, _ = intervals(tested)
    for study in range(CHECKED):
        rows = {
            f"r{row}": dict(enumerate(row_values[study].tolist()))
            for row, row_values in enumerate(values)
        }
        table_family = family(SeedScores(Metric("score"), rows), "r0")
        assert table_family is not None
        rows_tested = table_family.tests.values()
        assert np.allclose(
            [test.p for test in rows_tested], tested.p_holm[study], rtol=1e-9, atol=0
        )
        assert np.allclose([test.low for test in rows_tested], low[study], rtol=1e-9, atol=1e-12)


@dataclass(frozen=True)
class Needed:
    """Seeds that a table with equal sds would say, and the share of studies with so many that mark
    the difference."""

    difference: float  # sd
    base_seeds: int
    seeds: int
    marked: float


def told_seeds(difference: float, base: int) -> int:
    """Seeds that every row must have, base at least as many as now."""
    power = Power([1.0] * ROWS)

    def is_enough(seeds: int) -> bool:
        return bool(power.of(sizes(seeds, max(seeds, base)), difference)[0] >= POWER)

    return int(CANDIDATES[bisect_left(CANDIDATES, True, key=is_enough)])


def needed(difference: float, base: int, studies: int) -> Needed:
    seeds = told_seeds(difference, base)
    number = np.array(sizes(seeds, max(seeds, base)))
    chance = np.random.default_rng(2)  # of normal values, mean and variance are independent
    means = chance.normal(size=(studies, ROWS)) / np.sqrt(number) + difference * (
        np.arange(ROWS) == 1
    )
    tested = differences(
        means, chance.chisquare(number - 1, (studies, ROWS)) / (number - 1), number
    )
    return Needed(difference, base, seeds, 100 * float((tested.p_holm[:, 0] <= ALPHA).mean()))


@dataclass(frozen=True)
class Exponential:
    """Coverage of the intervals of perplexities, whose logarithms are normal with this sd."""

    sd: float
    seeds: int
    base_seeds: int
    coverage: float


def exponential(sd: float, seeds: int, base: int, studies: int) -> Exponential:
    truth = 1.5 + np.linspace(-5 * sd, 5 * sd, ROWS)
    means, variances = moments(CASES[EQUAL](studies, sizes(seeds, base), np.random.default_rng(3)))
    means = truth + sd * means
    variances = sd**2 * variances
    low, high = exponential_intervals(
        differences(means, variances, np.array(sizes(seeds, base))), means
    )
    true = np.exp(truth[1:]) - np.exp(truth[0])
    return Exponential(
        sd, seeds, base, 100 * float(((low <= true) & (true <= high)).all(axis=1).mean())
    )


def shares_sheet(all_shares: Sequence[Shares]) -> Sheet:
    rows = [
        (
            case_shares.case,
            f"{case_shares.seeds} + {case_shares.base_seeds}",
            *(
                f"{case_shares.error:.1f}",
                f"{case_shares.coverage:.1f}",
                f"{case_shares.against:.1f}",
            ),
            "" if case_shares.power is None else f"{case_shares.power:.1f}",
            ("" if case_shares.rows < ROWS else MET) if case_shares.kept else MISSED,
        )
        for case_shares in all_shares
    ]
    heads = ("false mark", "covered", "disagrees", "3.5 sd found")
    note = (
        f"% of studies; {all_shares[0].rows} rows, none differs; seeds of each row + of base. "
        "False mark: any is marked. "
        "Covered: all intervals hold. Disagrees: a false one against the paper."
    )
    return Sheet(
        f"The mark, {all_shares[0].rows} rows", note, ("case", "seeds", *heads, "bounds"), rows, 2
    )


def more_sheets(seeds: Sequence[Needed], ends: Sequence[Exponential]) -> Iterator[Sheet]:
    needed_rows = [
        (f"{e.difference:g} sd", str(e.base_seeds), str(e.seeds), f"{e.marked:.1f}") for e in seeds
    ]
    note = (
        f"Seeds of each of {ROWS} rows (base: at least as many) at which the difference "
        "should be marked in 80 %."
    )
    yield Sheet(
        "Seeds needed",
        note,
        ("difference", "seeds of base now", "seeds needed", "marked, %"),
        needed_rows,
        1,
    )
    interval_rows = [
        (f"{e.sd:g}", f"{e.seeds} + {e.base_seeds}", f"{e.coverage:.1f}") for e in ends
    ]
    note = (
        "% of studies in which the intervals of all 19 differences of perplexities hold the "
        "true ones."
    )
    yield Sheet(
        "Perplexities",
        note,
        ("sd of the logarithm", "seeds", "intervals all hold"),
        interval_rows,
        2,
    )


def cases(noise: Path | None) -> Mapping[str, Draw]:
    """``noise``: {"values": {name: [results of repeated trainings]}}."""
    values = json.loads(noise.read_text("utf-8"))["values"].values() if noise else None
    return noise_cases(list(values)) if values else CASES


def main(
    studies: int = 20_000,
    noise: Annotated[
        Path | None, typer.Option(help="Lists of real results in place of normal values.")
    ] = None,
    out: Path = RESULTS,
) -> None:
    """Simulate every case, print the shares and write them below ``out``. Exit code 1 if a bound is
    missed."""
    began = time.monotonic()
    result: Result = provenance("benchmarks.statistics", ["numpy", "scipy"])
    all_cases = cases(noise)
    for draw, design in product(all_cases.values(), DESIGNS):
        check_against_table(draw, sizes(*design))
    designs = product((ROWS, FEW), all_cases.items(), DESIGNS)
    all_shares = [
        shares(name, draw, sizes(*design, rows), studies) for rows, (name, draw), design in designs
    ]
    sheets = []
    for rows in (ROWS, FEW):
        sheets.append(shares_sheet([share for share in all_shares if share.rows == rows]))
    result["shares"] = [*map(asdict, all_shares)]
    promises_kept = all(case_shares.kept for case_shares in all_shares)
    if noise is None:
        needed_seeds = [needed(*pair, studies) for pair in product((1.0, 2.0, 3.5), (3, 9))]
        ends = [
            exponential(sd, seeds, base, studies)
            for sd, (seeds, base) in product((0.003, 0.03, 0.3), DESIGNS[:2])
        ]
        sheets += more_sheets(needed_seeds, ends)
        result |= {"needed": [*map(asdict, needed_seeds)], "perplexities": [*map(asdict, ends)]}
        paired = paired_findings(studies // 2)
        sheets += paired_sheets(paired)
        result["paired"] = asdict(paired)
        promises_kept = promises_kept and paired.kept
    result["seconds"] = time.monotonic() - began
    for sheet in sheets:
        Console(width=150).print(to_terminal(sheet))
    document = "\n\n".join(
        ["\n".join(heading("The mark of the table, simulated", result)), *map(to_markdown, sheets)]
    )
    print(write("statistics", document, result, ["noise"] if noise else (), out))
    raise typer.Exit(0 if promises_kept else 1)


if __name__ == "__main__":
    typer.run(main)
