"""Chance over the samples of a set: a paired bootstrap of two trials, and of every row against one, seed by seed.

It says whether another choice of samples could turn the difference between two trained models, and nothing of other
seeds: that is `family.py`, and the two are never mixed. After Koehn (EMNLP 2004, aclanthology.org/W04-3250); the draws
are those of sacreBLEU: the same generator, seed and order, so that with as many draws both resample the same sets.

Shapes: D draws, N samples, C columns of counts, T trials.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from tracking.card import Metric
from tracking.statistics.finding import ALPHA
from tracking.statistics.moderated_tests import holm
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
from tracking.study import Study, Trial

SEED = 12345  # sacreBLEU's default
CELLS_AT_ONCE = 4_000_000  # of a block of draws: 32 MB


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


Pair = tuple[Evaluated, Evaluated]
Read = Callable[[Evaluated], Floats]
Counted = Mapping[Evaluated, Floats | str]


def paired_tests(formula: str, pairs: Sequence[Pair], read: Read, noun: str, draws: int) -> list[SampleTest | str]:
    """The test of each pair, or why it has none. Trials with as many samples share their draws.

    ``read`` returns [N, C] counts, and raises UntestedError. ``noun`` is what a sample is called.
    """
    counted = _read({each for pair in pairs for each in pair}, read)
    faults = [_fault(formula, pair, counted, noun) for pair in pairs]
    tested = [pair for pair, fault in zip(pairs, faults, strict=True) if not fault]
    tests = _tests(formula, tested, counted, draws)
    return [fault or tests[pair] for pair, fault in zip(pairs, faults, strict=True)]


def _read(trials: Iterable[Evaluated], read: Read) -> Counted:
    found: dict[Evaluated, Floats | str] = {}
    for trial in trials:
        try:
            found[trial] = read(trial)
        except UntestedError as error:
            found[trial] = str(error)
    return found


def _fault(formula: str, pair: Pair, counted: Counted, noun: str) -> str | None:
    """Why the two have no samples in common, if they have none."""
    ours, theirs = (counted[each] for each in pair)
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours if isinstance(ours, str) else str(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} {noun}s, but {pair[1].trial.name} has {len(theirs)}"
    fixed, expected = of_reference(formula, ours), of_reference(formula, theirs)
    other_data = pair[0].data != pair[1].data and pair[0].data and pair[1].data
    if not np.array_equal(fixed, expected) or (other_data and fixed.shape[1] == 0):
        return f"other {noun}s than {pair[1].trial.name}, or counted in other units"
    return None


def _tests(formula: str, pairs: Sequence[Pair], counted: Counted, draws: int) -> dict[Pair, SampleTest | str]:
    """Of pairs with samples in common."""
    found: dict[Pair, SampleTest | str] = {}
    by_size: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_size.setdefault(len(counted[pair[0]]), []).append(pair)
    for size, of_size in by_size.items():
        trials = list(dict.fromkeys(each for pair in of_size for each in pair))
        arrays = [array for trial in trials if not isinstance(array := counted[trial], str)]
        drawn = dict(zip(trials, resampled_scores(formula, arrays, draws), strict=True))
        for ours, theirs in of_size:
            difference = ours.score - theirs.score
            test = resampled(drawn[ours], drawn[theirs], difference, size)
            found[ours, theirs] = test or "not every draw of the set has a score"
    return found


DRAWS = 10_000
Place = tuple[str, int]  # row and seed
Found = TypeVar("Found")


@dataclass(frozen=True)
class SampleTests:
    """All tests of one metric on one set, each against the reference row's trial of the same seed.

    ``untested`` says why a trial has none, ``note`` why no trial has one."""

    metric: str
    set_name: str
    reference: str
    tests: dict[str, dict[int, SampleTest]] = field(default_factory=dict)  # by row, then seed
    untested: dict[str, dict[int, str]] = field(default_factory=dict)  # by row, then seed
    note: str = ""
    draws: int = DRAWS

    @property
    def seeds(self) -> list[int]:
        """The seeds with any test."""
        return sorted({seed for of_row in self.tests.values() for seed in of_row})


def sample_tests(study: Study, metric: Metric, reference: str, set_name: str | None = None) -> SampleTests:
    """The tests of every row but ``reference``; on the metric's own set unless another one is named."""
    of_set, noun = set_name or metric.set, study.task.sample
    blank = SampleTests(metric.name, of_set, reference)
    if not metric.from_counts:
        return replace(blank, note=f"{metric.label} is not tested over {noun}s: trials keep no counts of it")
    known, untested = _evaluated(study, metric, of_set)
    pairs = _pairs(study, metric, reference, known, untested)
    computed = paired_tests(metric.from_counts[0], pairs, partial(samples, metric, of_set), noun, DRAWS)
    tests: list[tuple[Trial, SampleTest]] = []
    for (ours, _), test in zip(pairs, computed, strict=True):
        if isinstance(test, str):
            untested[ours.trial.row, ours.trial.seed] = test
        else:
            tests.append((ours.trial, test))
    told = {place: why for place, why in untested.items() if place[0] != reference}
    return replace(blank, tests=_by_row(_adjusted(tests)), untested=_by_row(told))


def _evaluated(study: Study, metric: Metric, set_name: str) -> tuple[dict[Place, Evaluated], dict[Place, str]]:
    """The finished trials by row and seed, and why the others are not tested."""
    known, untested = dict[Place, Evaluated](), dict[Place, str]()
    for trial in study.trials:
        try:
            known[trial.row, trial.seed] = evaluated(study, trial, metric, set_name)
        except UntestedError as error:
            untested[trial.row, trial.seed] = str(error)
    return known, untested


def _pairs(
    study: Study, metric: Metric, reference: str, known: Mapping[Place, Evaluated], untested: dict[Place, str]
) -> list[tuple[Evaluated, Evaluated]]:
    """Each finished trial with the reference's trial of its seed. Adds to ``untested`` why another one has none."""
    pairs: list[tuple[Evaluated, Evaluated]] = []
    for (row, seed), ours in known.items():
        theirs = known.get((reference, seed))
        if row == reference:
            continue
        if theirs is None:
            untested[row, seed] = untested.get((reference, seed), f"{reference} has no seed {seed}")
        elif other := other_settings(study.task, metric, ours, theirs, study.cells.get(row, {})):
            untested[row, seed] = other
        else:
            pairs.append((ours, theirs))
    return pairs


def _adjusted(tests: Sequence[tuple[Trial, SampleTest]]) -> dict[Place, SampleTest]:
    """With Holm's p over the rows of each seed."""
    found: dict[Place, SampleTest] = {}
    for seed in dict.fromkeys(trial.seed for trial, _ in tests):
        of_seed = [(trial.row, test) for trial, test in tests if trial.seed == seed]
        adjusted = holm(np.array([test.p for _, test in of_seed]))
        found |= {(row, seed): replace(test, p_holm=float(p)) for (row, test), p in zip(of_seed, adjusted, strict=True)}
    return found


def _by_row(found: Mapping[Place, Found]) -> dict[str, dict[int, Found]]:
    rows: dict[str, dict[int, Found]] = {}
    for (row, seed), value in found.items():
        rows.setdefault(row, {})[seed] = value
    return rows
