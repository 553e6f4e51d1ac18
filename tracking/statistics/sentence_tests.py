"""Chance over the sentences of a set: a paired bootstrap of each row against the reference row, seed by seed.

It says whether another choice of sentences could turn the difference between two trained models. It says nothing of
other seeds: that is ``seed_tests.py``, and the two are never mixed. Tasks whose samples are no sentences have the same
test; tasks that keep no counts of their samples have none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from tracking.card import Metric
from tracking.statistics.holm import holm
from tracking.statistics.kept_results import fingerprint, kept
from tracking.statistics.scored_samples import Evaluated, UntestedError, evaluated, other_settings, samples
from tracking.study import Study, Trial

DRAWS = 10_000
VERSION = 1
"""Raise it when the same inputs give other results: older results are then computed again."""
Place = tuple[str, int]  # row and seed
Numbers = tuple[float, float, float, float, int]  # of a SentenceTest, before Holm
Found = TypeVar("Found")


@dataclass(frozen=True)
class SentenceTest:
    """One trial against the reference row's trial of the same seed. ``low`` and ``high``: the 95 % interval."""

    difference: float  # the row's score minus the reference's
    low: float
    high: float
    p: float  # two-sided
    sentences: int  # of the set
    p_holm: float  # p adjusted over the rows with this seed


@dataclass(frozen=True)
class SentenceTests:
    """All tests of one metric on one set. ``untested`` says why a trial has none, ``note`` why no trial has one."""

    metric: str
    set_name: str
    reference: str
    tests: dict[str, dict[int, SentenceTest]] = field(default_factory=dict)  # by row, then seed
    untested: dict[str, dict[int, str]] = field(default_factory=dict)  # by row, then seed
    note: str = ""
    draws: int = DRAWS

    @property
    def seeds(self) -> list[int]:
        """The seeds with any test."""
        return sorted({seed for of_row in self.tests.values() for seed in of_row})


def sentence_tests(study: Study, metric: Metric, reference: str, set_name: str | None = None) -> SentenceTests:
    """The tests of every row but ``reference``; on the metric's own set unless another one is named.

    They are kept in the study's folder under a fingerprint of their inputs, where that can be written.
    """
    of_set, noun = set_name or metric.set, study.task.sample
    blank = SentenceTests(metric.name, of_set, reference)
    if not metric.from_counts:
        return replace(blank, note=f"{metric.label} is not tested over {noun}s: trials keep no counts of it")
    known, untested = _evaluated(study, metric, of_set)
    pairs = _pairs(study, metric, reference, known, untested)
    computed = _kept(study, metric, f"{of_set} {reference}", pairs, partial(samples, metric, of_set))
    reasons = {
        (ours.trial.row, ours.trial.seed): test
        for (ours, _), test in zip(pairs, computed, strict=True)
        if isinstance(test, str)
    }
    tests = [(ours.trial, test) for (ours, _), test in zip(pairs, computed, strict=True) if not isinstance(test, str)]
    told = {place: why for place, why in (untested | reasons).items() if place[0] != reference}
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


def _kept(
    study: Study, metric: Metric, name: str, pairs: Sequence[tuple[Evaluated, Evaluated]], read: Callable[..., Any]
) -> list[Numbers | str]:
    """The test of each pair, or why it has none."""

    def compute() -> list[Any]:
        from tracking.statistics.paired_tests import paired_tests  # NumPy, which kept results do not need

        found = paired_tests(metric.from_counts[0], pairs, read, study.task.sample, DRAWS)
        return [each if isinstance(each, str) else astuple(each) for each in found]

    inputs = [[_input(ours), _input(theirs)] for ours, theirs in pairs]
    key = fingerprint([VERSION, DRAWS, list(metric.from_counts), inputs])
    found = kept(study.folder, f"sentences {metric.name} {name}", key, compute) if pairs else []
    return [each if isinstance(each, str) else tuple(each) for each in found]


def _input(trial: Evaluated) -> list[Any]:
    """All that its tests depend on."""
    return [trial.trial.key, trial.trial.name, trial.step, trial.score, trial.data, trial.digest]


def _adjusted(tests: Sequence[tuple[Trial, Numbers]]) -> dict[Place, SentenceTest]:
    """With Holm's p over the rows of each seed."""
    found: dict[Place, SentenceTest] = {}
    for seed in dict.fromkeys(trial.seed for trial, _ in tests):
        of_seed = {trial.row: numbers for trial, numbers in tests if trial.seed == seed}
        adjusted = holm({row: numbers[3] for row, numbers in of_seed.items()})
        found |= {(row, seed): SentenceTest(*numbers, adjusted[row]) for row, numbers in of_seed.items()}
    return found


def _by_row(found: Mapping[Place, Found]) -> dict[str, dict[int, Found]]:
    rows: dict[str, dict[int, Found]] = {}
    for (row, seed), value in found.items():
        rows.setdefault(row, {})[seed] = value
    return rows
