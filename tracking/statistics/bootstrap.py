"""Chance over the samples of a set: a paired bootstrap of two trials, and of every row against one, seed by seed.

It says whether another choice of samples could turn the difference between two trained models, and nothing of other
seeds: that is `family.py`, and the two are never mixed. After Koehn (EMNLP 2004, aclanthology.org/W04-3250); the draws
are those of sacreBLEU: the same generator, seed and order, so that with as many draws both resample the same sets.

Shapes: D draws, N samples, C columns of counts, T trials.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tracking.card import Metric
from tracking.statistics.finding import ALPHA
from tracking.statistics.samples import (
    Evaluated,
    Floats,
    UntestedError,
    evaluated,
    of_reference,
    other_settings,
    samples,
    scores,
)
from tracking.statistics.seed_tests import holm
from tracking.study import Study

SEED = 12345  # sacreBLEU's default
DRAWS = 10_000
CELLS_AT_ONCE = 4_000_000  # of a block of draws: 32 MB
Pair = tuple[Evaluated, Evaluated]
Place = tuple[str, int]  # row and seed
Found = TypeVar("Found")


@dataclass(frozen=True)
class SampleTest:
    """One trial against another. ``low`` and ``high``: the 95 % interval."""

    difference: float
    low: float
    high: float
    p: float  # two-sided
    samples: int  # of the set
    p_holm: float | None = None  # p adjusted over the rows with one seed; None of a pair alone

    @property
    def marked(self) -> bool:
        return self.p_holm is not None and self.p_holm <= ALPHA


def resampled_scores(formula: str, counts_TNC: Sequence[Floats], draws: int) -> Floats:
    """[T, D]: the score of each trial on each draw of N samples with replacement; all trials share the draws."""
    samples, columns = counts_TNC[0].shape
    side_by_side = np.concatenate(counts_TNC, axis=1)  # [N, T * C]
    blocks: list[Floats] = []
    for drawn_KN in _draws(samples, draws, max(1, CELLS_AT_ONCE // max(samples, side_by_side.shape[1]))):
        sums_KTC = (drawn_KN @ side_by_side).reshape(-1, columns)
        blocks.append(scores(formula, sums_KTC, samples).reshape(len(drawn_KN), -1))
    return np.concatenate(blocks).T


def resampled(ours_D: Floats, theirs_D: Floats, difference: float, samples: int) -> SampleTest | None:
    """The difference of two trials over the same draws, with a percentile interval.

    p is the share of draws whose difference, shifted to mean zero, is at least as large as the measured one: a
    two-sided test of no difference, where sacreBLEU's is nearly one-sided (it takes absolute values before it shifts).
    Both counts have one added, as in sacreBLEU, so that p is never 0. None if a draw has no score.
    """
    differences_D = ours_D - theirs_D
    if not np.isfinite(differences_D).all():
        return None
    low, high = np.quantile(differences_D, (0.025, 0.975))
    shifted_D = np.abs(differences_D - differences_D.mean())
    larger = int(np.count_nonzero(shifted_D >= abs(difference)))
    return SampleTest(difference, float(low), float(high), (larger + 1) / (len(differences_D) + 1), samples)


def _draws(samples: int, draws: int, at_once: int) -> Iterator[Floats]:
    """Blocks of at most ``at_once`` draws, [K, N]: how often each sample is in each draw."""
    random = np.random.default_rng(SEED)
    for start in range(0, draws, at_once):
        block = min(at_once, draws - start)
        places = random.integers(0, samples, size=(block, samples)) + samples * np.arange(block)[:, None]
        yield np.bincount(places.ravel(), minlength=block * samples).reshape(block, samples).astype(np.float64)


def paired_tests(metric: Metric, set_name: str, pairs: Sequence[Pair], noun: str) -> list[SampleTest | str]:
    """The test of each pair, or why it has none. Trials with as many samples share their draws.

    ``noun`` is what a sample is called."""
    counted, unread = dict[Evaluated, Floats](), dict[Evaluated, str]()
    for trial in dict.fromkeys(each for pair in pairs for each in pair):
        try:
            counted[trial] = samples(metric, set_name, trial)
        except UntestedError as error:
            unread[trial] = str(error)
    faults = {pair: _fault(metric.from_counts[0], pair, counted, unread, noun) for pair in pairs}
    tests = _tests(metric.from_counts[0], [pair for pair in pairs if not faults[pair]], counted)
    return [faults[pair] or tests[pair] for pair in pairs]


def _fault(
    formula: str, pair: Pair, counted: Mapping[Evaluated, Floats], unread: Mapping[Evaluated, str], noun: str
) -> str:
    """Why the two have no samples in common, if they have none."""
    if why := next((unread[each] for each in pair if each in unread), ""):
        return why
    ours, theirs = (counted[each] for each in pair)
    if len(ours) != len(theirs):
        return f"{len(ours)} {noun}s, but {pair[1].trial.name} has {len(theirs)}"
    fixed, expected = of_reference(formula, ours), of_reference(formula, theirs)
    other_data = pair[0].data != pair[1].data and pair[0].data and pair[1].data
    if not np.array_equal(fixed, expected) or (other_data and fixed.shape[1] == 0):
        return f"other {noun}s than {pair[1].trial.name}, or counted in other units"
    return ""


def _tests(formula: str, pairs: Sequence[Pair], counted: Mapping[Evaluated, Floats]) -> dict[Pair, SampleTest | str]:
    """Of pairs with samples in common."""
    found: dict[Pair, SampleTest | str] = {}
    for size in {len(counted[ours]) for ours, _ in pairs}:
        of_size = [pair for pair in pairs if len(counted[pair[0]]) == size]
        trials = list(dict.fromkeys(each for pair in of_size for each in pair))
        drawn = dict(zip(trials, resampled_scores(formula, [counted[each] for each in trials], DRAWS), strict=True))
        for ours, theirs in of_size:
            test = resampled(drawn[ours], drawn[theirs], ours.score - theirs.score, size)
            found[ours, theirs] = test or "not every draw of the set has a score"
    return found


@dataclass(frozen=True)
class SampleTests:
    """All tests of one metric on its set, each against the reference row's trial of the same seed.

    Both by row, then seed. ``untested`` says why a trial has no test."""

    metric: str
    set_name: str
    tests: dict[str, dict[int, SampleTest]]
    untested: dict[str, dict[int, str]]

    @property
    def seeds(self) -> list[int]:
        """The seeds with any test."""
        return sorted({seed for of_row in self.tests.values() for seed in of_row})


def sample_tests(study: Study, metric: Metric, reference: str) -> SampleTests:
    """The tests of every row but ``reference``, of a metric with counts."""
    known, untested = dict[Place, Evaluated](), dict[Place, str]()
    for trial in study.trials:
        try:
            known[trial.row, trial.seed] = evaluated(study, trial, metric, metric.set)
        except UntestedError as error:
            untested[trial.row, trial.seed] = str(error)
    pairs = _pairs(study, metric, reference, known, untested)
    tests = dict[Place, SampleTest]()
    for place, test in zip(pairs, paired_tests(metric, metric.set, [*pairs.values()], study.task.sample), strict=True):
        if isinstance(test, str):
            untested[place] = test
        else:
            tests[place] = test
    told = {place: why for place, why in untested.items() if place[0] != reference}
    return SampleTests(metric.name, metric.set, _by_row(_adjusted(tests)), _by_row(told))


def _pairs(
    study: Study, metric: Metric, reference: str, known: Mapping[Place, Evaluated], untested: dict[Place, str]
) -> dict[Place, Pair]:
    """Each finished trial with the reference's trial of its seed. Adds to ``untested`` why another one has none."""
    pairs: dict[Place, Pair] = {}
    for (row, seed), ours in known.items():
        theirs = known.get((reference, seed))
        if row == reference:
            continue
        if theirs is None:
            untested[row, seed] = untested.get((reference, seed), f"{reference} has no seed {seed}")
        elif other := other_settings(study.task, metric, ours, theirs, study.cells.get(row, {})):
            untested[row, seed] = other
        else:
            pairs[row, seed] = ours, theirs
    return pairs


def _adjusted(tests: Mapping[Place, SampleTest]) -> dict[Place, SampleTest]:
    """With Holm's p over the rows of each seed."""
    found: dict[Place, SampleTest] = {}
    for seed in dict.fromkeys(seed for _, seed in tests):
        of_seed = {place: test for place, test in tests.items() if place[1] == seed}
        adjusted = holm(np.array([test.p for test in of_seed.values()]))
        found |= {
            place: replace(test, p_holm=float(p)) for (place, test), p in zip(of_seed.items(), adjusted, strict=True)
        }
    return found


def _by_row(found: Mapping[Place, Found]) -> dict[str, dict[int, Found]]:
    rows: dict[str, dict[int, Found]] = {}
    for (row, seed), value in found.items():
        rows.setdefault(row, {})[seed] = value
    return rows
