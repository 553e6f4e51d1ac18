"""Chance over the sentences of a set: a paired bootstrap of each row against the reference row, seed by seed.

It says whether another choice of sentences could turn the difference between two trained models. It says nothing of
other seeds: that is ``seed_tests.py``, and the two are never mixed.
"""

from dataclasses import dataclass, field

from tracking.metrics import Metric
from tracking.rows import BASE
from tracking.study import Study

DRAWS = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class SentenceTest:
    """One trial against the reference row's trial of the same seed. ``low`` and ``high``: the 95 % interval."""

    difference: float  # the row's score minus the reference's
    low: float
    high: float
    p: float  # two-sided
    p_holm: float  # the same, adjusted over the rows with this seed


@dataclass(frozen=True)
class SentenceTests:
    """All tests of one metric on one set. ``untested`` says why a trial has none, ``note`` why no trial has one."""

    metric: str
    set_name: str
    reference: str
    tests: dict[str, dict[int, SentenceTest]] = field(default_factory=dict)  # by row, then seed
    untested: dict[str, dict[int, str]] = field(default_factory=dict)  # by row, then seed
    note: str = ""
    sentences: int = 0  # of the set
    draws: int = DRAWS


def sentence_tests(study: Study, metric: Metric, reference: str = BASE, set_name: str | None = None) -> SentenceTests:
    """The tests of every row but the reference; on the metric's own set unless another one is named."""
    raise NotImplementedError
