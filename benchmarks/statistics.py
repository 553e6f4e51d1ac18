"""How often the tests over seeds err, and what they find: ``python -m benchmarks.statistics [--studies 20000]``.

Studies are drawn from normal distributions, so that the truth is known. Tests do not depend on a metric's unit or
place, so one simulation stands for every metric.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from scipy import special

from benchmarks.record import RESULTS, Result, heading, provenance, write
from benchmarks.sheet import Sheet, to_markdown, to_terminal
from tracking.statistics.distributions import critical_t, loadings
from tracking.statistics.seed_tests import ALPHA, family

ROWS, SEEDS = 20, 3  # the rows include base, which is row 0
FIRST = 1000
CHECKED = 50  # studies of each case whose marks are compared with those of `tracking.statistics.seed_tests`


@dataclass(frozen=True)
class Case:
    """Rows that differ from the others: their sd, which is otherwise 1, and their mean, which is otherwise 0."""

    name: str
    sds: Mapping[int, float] = field(default_factory=dict)
    means: Mapping[int, float] = field(default_factory=dict)

    def draw(self, studies: int, chance: np.random.Generator) -> Any:
        """Studies × rows × seeds."""
        sds, means = (
            [given.get(row, usual) for row in range(ROWS)] for given, usual in ((self.sds, 1), (self.means, 0))
        )
        return chance.normal(size=(studies, ROWS, SEEDS)) * np.array(sds)[:, None] + np.array(means)[:, None]


CASES = (
    Case("equal variances"),
    Case("one row's sd × 5", sds={1: 5.0}),
    Case("base's sd × 3", sds={0: 3.0}),
    Case("one row 3.5 sd away", means={1: 3.5}),
)
TRUE_DIFFERENCE = 1


@dataclass(frozen=True)
class Shares:
    """Of the studies of one case. ``errors``: some row without a difference is flagged. ``found``: the other row is."""

    case: str
    studies: int
    errors: dict[str, float]  # by test: Dunnett, Welch + Holm, both
    found: dict[str, float]  # the same; empty without a row that differs
    unequal_seen: float  # Brown–Forsythe's test rejects equal variances


def shares(case: Case, studies: int, seed: int = 1) -> Shares:
    """Simulated, with a fixed seed."""
    values = case.draw(studies, np.random.default_rng(seed))
    dunnett, welch = by_dunnett(values), by_welch(values)
    flagged = {"Dunnett": dunnett, "Welch + Holm": welch, "both": dunnett & welch}
    null = [row - 1 for row in range(1, ROWS) if row not in case.means]
    errors = {name: float(rows[:, null].any(axis=1).mean()) for name, rows in flagged.items()}
    differing = [row - 1 for row in case.means]
    found = {name: float(rows[:, differing].mean()) for name, rows in flagged.items()} if differing else {}
    return Shares(case.name, studies, errors, found, float(unequal_variances(values).mean()))


def by_dunnett(values: Any) -> Any:
    """Studies × tested rows: whether Dunnett's test flags them. ``values`` are studies × rows × seeds, base first."""
    _, rows, seeds = values.shape
    means, pooled = values.mean(axis=2), np.sqrt(values.var(axis=2, ddof=1).mean(axis=1))
    t = np.abs(means[:, 1:] - means[:, :1]) / (pooled * sqrt(2 / seeds))[:, None]
    return t >= critical_t(loadings(seeds, [seeds] * (rows - 1)), rows * (seeds - 1), ALPHA)


def by_welch(values: Any) -> Any:
    """The same by Welch's t-test with Holm's adjustment."""
    seeds = values.shape[2]
    means, parts = values.mean(axis=2), values.var(axis=2, ddof=1) / seeds
    error = parts[:, 1:] + parts[:, :1]
    df = error**2 * (seeds - 1) / (parts[:, 1:] ** 2 + parts[:, :1] ** 2)
    p = 2 * special.stdtr(df, -np.abs(means[:, 1:] - means[:, :1]) / np.sqrt(error))
    return holm_rejects(p)


def holm_rejects(p: Any) -> Any:
    """Studies × tests: Holm goes on from the smallest p until one is too large."""
    order = np.argsort(p, axis=1)
    tests = p.shape[1]
    passed = np.take_along_axis(p, order, axis=1) * (tests - np.arange(tests)) <= ALPHA
    rejected = np.zeros_like(passed)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(passed, axis=1), axis=1)
    return rejected


def unequal_variances(values: Any) -> Any:
    """Of each study: whether Brown–Forsythe's test rejects equal variances at 5 %."""
    _, rows, seeds = values.shape
    apart = np.abs(values - np.median(values, axis=2, keepdims=True))
    means = apart.mean(axis=2)
    between = seeds * ((means - means.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / (rows - 1)
    within = ((apart - means[:, :, None]) ** 2).sum(axis=(1, 2)) / (rows * (seeds - 1))
    return special.fdtrc(rows - 1, rows * (seeds - 1), between / within) <= 0.05


def marks(values: Any) -> list[list[str]]:
    """Studies × tested rows: the marks of the table itself."""
    found = [family(_rows(study), "row 0") for study in values]
    return [[test.mark for test in each.tests.values()] for each in found if each]


def _rows(study: Any) -> dict[str, dict[int, float | None]]:
    return {f"row {row}": {seed: float(value) for seed, value in enumerate(each)} for row, each in enumerate(study)}


def check_against_table(case: Case, studies: int, seed: int = 1) -> None:
    """Raises AssertionError unless the simulation flags what the table marks."""
    values = case.draw(studies, np.random.default_rng(seed))
    dunnett, welch = by_dunnett(values), by_welch(values)
    expected = [
        ["*" if both else "†" if alone else "" for alone, both in zip(*of, strict=True)]
        for of in zip(dunnett, dunnett & welch, strict=True)
    ]
    assert marks(values) == expected


def sheet(found: Sequence[Shares]) -> Sheet:
    rows = [
        (each.case, kind, *(f"{100 * share:.1f} %" for share in of.values()))
        for each in found
        for kind, of in (("a false flag", each.errors), ("the row found", each.found))
        if of
    ]
    unseen = "; ".join(f"{each.case} {100 * each.unequal_seen:.1f} %" for each in found)
    note = (
        f"{found[0].studies} studies per case, {ROWS} rows × {SEEDS} seeds, at 5 %. Brown–Forsythe rejects: {unseen}."
    )
    return Sheet("Tests over seeds", note, ("case", "studies with", *found[0].errors), rows, 2)


def main(studies: int = 20_000, out: Path = RESULTS) -> None:
    """Simulate every case, print the shares and write them below ``out``."""
    began = time.monotonic()
    result: Result = provenance("benchmarks.statistics", ["numpy", "scipy"])
    for case in CASES:
        check_against_table(case, CHECKED)
    found = [shares(case, studies) for case in CASES]
    first = shares(CASES[0], FIRST)
    result |= {"seconds": time.monotonic() - began, "cases": [*map(asdict, found)], "first_1000": asdict(first)}
    Console().print(to_terminal(sheet(found)))
    Console().print(f"Of the first {FIRST} studies with equal variances {100 * first.errors['Dunnett']:.1f} % flag.")
    document = "\n\n".join(
        ["\n".join(heading("Error rates of the tests over seeds", result)), to_markdown(sheet(found))]
    )
    print(write("statistics", document, result, (), out))


if __name__ == "__main__":
    typer.run(main)
