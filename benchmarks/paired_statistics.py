"""How often the paired mark errs, and what it finds: rows that are compared with their reference
seed by seed.

A part of ``python -m benchmarks.statistics``. Differences are drawn and go through the function
behind the table, `tracking.statistics.seeds.paired_tests.paired_differences`. Shapes: S studies, K
compared rows, N seeds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from benchmarks.sheet import MET, MISSED, Sheet
from tracking.card import Metric
from tracking.statistics.seeds.family import SeedScores
from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.seeds.paired_family import paired_families
from tracking.statistics.seeds.paired_tests import paired_differences, paired_exponential_intervals
from tracking.statistics.seeds.seed_tests import differences, intervals

COMPARED = (1, 3, 8, 19)
SEEDS = (3, 5, 9)
# correlations of two rows' differences over seeds: 0.5 where all noise is scoring's own
ALIKE = (0.0, 0.5, 0.9)
EFFECT = 5.0  # sd of the difference at one seed, of the row that differs
ERROR = 6.0  # %, what docs/statistics.md promises
CHECKED = 2
# BLEU: over seeds, of the paired difference, the true one
SEED_SD = 0.45
DIFFERENCE_SD = 0.08
DIFFERENCE = -0.4
LUCK = (0.0, 0.3, 0.5, 0.7, 0.9)  # correlations of trained rows over seeds
DESIGNS = ((3, 3), (3, 9), (5, 5), (9, 9))  # seeds of each row, and of base
TRAINED_ROWS = 20  # with base
TRAINED_EFFECT = 2.5  # sd over seeds, of a trained row
Spreads = Callable[[tuple[int, int], np.random.Generator], Any]
"""[S, K], chance -> standard deviations of differences."""
CASES: dict[str, Spreads] = {
    "equal sds": lambda shape, _: np.ones(shape),
    "one row's sd × 5": lambda shape, _: np.broadcast_to(
        np.where(np.arange(shape[1]) == 0, 5.0, 1.0), shape
    ),
    "sds lognormal (0.5)": lambda shape, chance: np.exp(0.5 * chance.normal(size=shape)),
    "sds lognormal (1)": lambda shape, chance: np.exp(chance.normal(size=shape)),
}


@dataclass(frozen=True)
class PairedShares:
    """Of the studies of one case, in %."""

    case: str
    rows: int
    seeds: int
    alike: float
    error: float  # some row is marked, though none differs
    coverage: float  # every interval holds its true difference
    power: float  # the row that lies 5 sd away is marked

    @property
    def kept(self) -> bool:
        """Whether the promises of docs/statistics.md hold."""
        return self.error <= ERROR and self.coverage >= 100 - ERROR


def drawn(
    case: str, rows: int, seeds: int, alike: float, studies: int, chance: np.random.Generator
) -> Any:
    """[S, K, N] differences without a true one; rows of a study are ``alike`` over seeds."""
    shared_noise = chance.normal(size=(studies, 1, seeds))
    row_noise = chance.normal(size=(studies, rows, seeds))
    values = math.sqrt(alike) * shared_noise + math.sqrt(1 - alike) * row_noise
    return CASES[case]((studies, rows), chance)[..., None] * values


def paired_shares(case: str, rows: int, seeds: int, alike: float, studies: int) -> PairedShares:
    """Simulated, with a fixed seed of chance."""
    values = drawn(case, rows, seeds, alike, studies, np.random.default_rng(1))
    paired = paired_differences(values)
    low, high = intervals(paired)
    covered = ((low <= 0) & (high >= 0)).all(axis=1)
    shifted_values = values.copy()
    shifted_values[:, -1] += EFFECT
    shifted = paired_differences(shifted_values)
    shares = [(paired.p_holm <= ALPHA).any(axis=1), covered, shifted.p_holm[:, -1] <= ALPHA]
    error, coverage, power = (100 * float(share.mean()) for share in shares)
    return PairedShares(case, rows, seeds, alike, error, coverage, power)


def check_against_paired_table(case: str, rows: int, seeds: int) -> None:
    """Raises AssertionError unless a table of the same values has the same marks and intervals."""
    drawn_values = drawn(case, rows, seeds, 0.5, CHECKED, np.random.default_rng(1))
    paired = paired_differences(drawn_values)
    low, _ = intervals(paired)
    for study in range(CHECKED):
        row_scores = {
            f"r{row}": dict(enumerate((30.0 + scores).tolist()))
            for row, scores in enumerate(drawn_values[study])
        }
        values = {"base": dict.fromkeys(range(seeds), 30.0), **row_scores}
        families = paired_families(
            SeedScores(Metric("score"), values), dict.fromkeys(row_scores, "base")
        )
        tests = families["base"].tests.values()
        assert np.allclose([test.p for test in tests], paired.p_holm[study], rtol=1e-6, atol=0)
        assert np.allclose([test.low for test in tests], low[study], rtol=1e-6, atol=1e-9)


@dataclass(frozen=True)
class ScoringPower:
    """In how many studies, in %, one true difference of −0.4 BLEU is marked, of rows that score one
    host."""

    rows: int
    seeds: int
    usual: float  # by the test of trained rows
    paired: float


def scoring_power(rows: int, seeds: int, studies: int) -> ScoringPower:
    chance = np.random.default_rng(4)
    host = SEED_SD * chance.normal(size=(studies, 1, seeds))
    scored = host + DIFFERENCE_SD * chance.normal(size=(studies, rows, seeds))
    scored[:, 0] += DIFFERENCE
    everything = np.concatenate([host, scored], axis=1)
    return ScoringPower(rows, seeds, *_both_tests(everything, [seeds] * (rows + 1)))


def _both_tests(values: Any, seeds: Sequence[int]) -> tuple[float, float]:
    """In how many studies the first compared row is marked, in %: by the usual test, and by the
    paired one.

    Args: [S, R, N] values, base first; each row's first ``seeds`` count.
    """
    counts = np.array(seeds)
    groups = [values[:, row, :number] for row, number in enumerate(seeds)]
    means = np.stack([group.mean(axis=1) for group in groups], axis=1)
    variances = np.stack([group.var(axis=1, ddof=1) for group in groups], axis=1)
    unpaired = differences(means, variances, counts).p_holm[:, 0] <= ALPHA
    common = min(seeds)
    paired = (
        paired_differences(values[:, 1:, :common] - values[:, :1, :common]).p_holm[:, 0] <= ALPHA
    )
    return 100 * float(unpaired.mean()), 100 * float(paired.mean())


@dataclass(frozen=True)
class TrainedPower:
    """In how many studies, in %, a trained row that lies 2.5 sd away is marked, where rows share
    luck by seed."""

    luck: float
    seeds: int
    base_seeds: int
    usual: float
    paired: float
    usual_error: float
    paired_error: float


def trained_power(luck: float, seeds: int, base_seeds: int, studies: int) -> TrainedPower:
    chance = np.random.default_rng(5)
    shared_noise = chance.normal(size=(studies, 1, base_seeds))
    row_noise = chance.normal(size=(studies, TRAINED_ROWS, base_seeds))
    values = math.sqrt(luck) * shared_noise + math.sqrt(1 - luck) * row_noise
    counts = [base_seeds, *[seeds] * (TRAINED_ROWS - 1)]
    errors = _any_marked(values, counts)
    values[:, 1] += TRAINED_EFFECT
    return TrainedPower(luck, seeds, base_seeds, *_both_tests(values, counts), *errors)


def _any_marked(values: Any, seeds: Sequence[int]) -> tuple[float, float]:
    """In how many studies any row is marked, in %: by the usual test, and by the paired one."""
    groups = [values[:, row, :number] for row, number in enumerate(seeds)]
    means = np.stack([group.mean(axis=1) for group in groups], axis=1)
    variances = np.stack([group.var(axis=1, ddof=1) for group in groups], axis=1)
    unpaired = differences(means, variances, np.array(seeds)).p_holm.min(axis=1) <= ALPHA
    common = min(seeds)
    paired = (
        paired_differences(values[:, 1:, :common] - values[:, :1, :common]).p_holm.min(axis=1)
        <= ALPHA
    )
    return 100 * float(unpaired.mean()), 100 * float(paired.mean())


@dataclass(frozen=True)
class PairedPerplexity:
    """Coverage of the intervals of perplexities, whose logarithms have this sd over seeds."""

    sd: float
    seeds: int
    coverage: float


def paired_perplexity(sd: float, seeds: int, studies: int, rows: int = 8) -> PairedPerplexity:
    """Differences of logarithms lie from −5 to 5 of their own sd, which is a fifth of that over
    seeds."""
    chance = np.random.default_rng(6)
    host = 1.5 + sd * chance.normal(size=(studies, 1, seeds))
    truth = np.linspace(-sd, sd, rows)
    values = truth[:, None] + sd / 5 * chance.normal(size=(studies, rows, seeds))
    paired = paired_differences(values)
    residuals = host - host.mean(axis=2, keepdims=True)
    row_residuals = values - values.mean(axis=2, keepdims=True)
    error = host.std(axis=2, ddof=1) / math.sqrt(seeds)
    scale = np.sqrt((residuals**2).sum(axis=2) * (row_residuals**2).sum(axis=2))
    correlation = (residuals * row_residuals).sum(axis=2) / scale
    low, high = paired_exponential_intervals(paired, host.mean(axis=2), error, correlation)
    true = math.exp(1.5) * np.expm1(truth)
    return PairedPerplexity(
        sd, seeds, 100 * float(((low <= true) & (true <= high)).all(axis=1).mean())
    )


@dataclass(frozen=True)
class PairedFindings:
    shares: Sequence[PairedShares]
    scoring: Sequence[ScoringPower]
    trained: Sequence[TrainedPower]
    perplexities: Sequence[PairedPerplexity]

    @property
    def kept(self) -> bool:
        return all(share.kept for share in self.shares)


def paired_findings(studies: int) -> PairedFindings:
    """Every case."""
    for case in CASES:
        check_against_paired_table(case, 8, 3)
    cases = [case for case in product(CASES, COMPARED, SEEDS, ALIKE) if case[1] > 1 or case[3] == 0]
    return PairedFindings(
        [paired_shares(*case, studies) for case in cases],
        [scoring_power(rows, seeds, studies) for rows, seeds in product((1, 3, 8), SEEDS)],
        [trained_power(luck, *design, studies // 2) for luck, design in product(LUCK, DESIGNS)],
        [paired_perplexity(sd, seeds, studies) for sd, seeds in product((0.003, 0.03, 0.3), SEEDS)],
    )


def paired_sheets(findings: PairedFindings) -> Iterator[Sheet]:
    """Tables of every case."""
    yield _shares_sheet(findings.shares)
    note = (
        "% of studies in which a true difference of −0.4 BLEU of the first of these rows is "
        "marked; sd over seeds 0.45,"
        " of the paired difference 0.08."
    )
    power = [
        (str(e.rows), str(e.seeds), f"{e.usual:.1f}", f"{e.paired:.1f}") for e in findings.scoring
    ]
    yield Sheet(
        "Rows that score one host",
        note,
        ("rows", "seeds", "test of trained rows", "paired test"),
        power,
        0,
    )
    yield _trained_sheet(findings.trained)
    note = (
        "% of studies in which the intervals of all 8 paired differences of perplexities hold "
        "the true ones."
    )
    interval_rows = [
        (f"{e.sd:g}", str(e.seeds), f"{e.coverage:.1f}") for e in findings.perplexities
    ]
    yield Sheet(
        "Paired perplexities",
        note,
        ("sd of the logarithm", "seeds", "intervals all hold"),
        interval_rows,
        2,
    )


def _shares_sheet(shares: Sequence[PairedShares]) -> Sheet:
    lines = [
        (
            *(share.case, str(share.rows), str(share.seeds), f"{share.alike:g}"),
            *(f"{share.error:.1f}", f"{share.coverage:.1f}", f"{share.power:.1f}"),
            MET if share.kept else MISSED,
        )
        for share in shares
    ]
    note = (
        "% of studies; no row differs from its reference. Alike: "
        "the correlation of two rows' differences over seeds. "
        "False mark: any is marked. Covered: all intervals hold. Found: "
        "a row whose difference is 5 of its sd."
    )
    heads = ("case", "rows", "seeds", "alike", "false mark", "covered", "5 sd found", "bounds")
    return Sheet("The paired mark", note, heads, lines, 1)


def _trained_sheet(trained: Sequence[TrainedPower]) -> Sheet:
    lines = [
        (
            *(f"{power.luck:g}", f"{power.seeds} + {power.base_seeds}"),
            *(f"{power.usual:.1f}", f"{power.paired:.1f}"),
            *(f"{power.usual_error:.1f}", f"{power.paired_error:.1f}"),
        )
        for power in trained
    ]
    note = (
        f"% of studies of {TRAINED_ROWS} trained rows in which a row that lies "
        f"{TRAINED_EFFECT:g} sd away is marked. "
        "Correlation: of two rows over seeds. Seeds of each row + of base."
    )
    heads = (
        "correlation",
        "seeds",
        "found",
        "found, sweep.paired",
        "false mark",
        "false mark, sweep.paired",
    )
    return Sheet("Seeds as blocks", note, heads, lines, 2)
