"""Our differences against the published ones: a verdict per row by a stated rule, and the agreement of the order.

The rule's numbers belong to the metric: `negligible` and `margin` (tracking/card.py).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tracking.card import Metric
from tracking.statistics.rank_agreement import RankAgreement, rank_agreement
from tracking.statistics.seed_tests import Family, RowTest
from tracking.words import signed

Word = Literal["agrees", "disagrees", "not shown", "not tested"]
WORDS: tuple[Word, ...] = ("agrees", "disagrees", "not shown", "not tested")
Published = Mapping[str, float | None]
"""Of one metric: row -> published value, the reference included."""


@dataclass(frozen=True)
class Verdict:
    """One row. ``published`` is a difference from the published reference, in the metric's own unit."""

    published: float
    none_in_paper: bool  # whether that difference is negligible
    word: Word
    reason: str = ""  # why it is not tested

    @property
    def text(self) -> str:
        """Such as "agrees", "agrees (none in the paper)", "not tested: 1 seed"."""
        if self.reason:
            return f"{self.word}: {self.reason}"
        return f"{self.word} (none in the paper)" if self.none_in_paper else self.word


@dataclass(frozen=True)
class MetricVerdict:
    """The verdicts of one metric by row, and the agreement of our order of rows with the published one."""

    metric: Metric
    rows: dict[str, Verdict]
    agreement: RankAgreement | None  # None with fewer than three tested rows

    def lines(self) -> list[str]:
        """The counts, the agreement of the order, and the rule, each one line of text."""
        counted = Counter(verdict.word for verdict in self.rows.values())
        counts = ", ".join(f"{word} {counted[word]}" for word in WORDS if counted[word])
        agreement = [self.agreement.text] if self.agreement else []
        return [f"{self.metric.label} against the paper, rows: {counts}.", *agreement, rule(self.metric)]


def verdict(metric: Metric, found: Family, published: Published) -> MetricVerdict | None:
    """Every row with a published difference. ``found`` is the family of ``metric``, or of its logarithm (`exp_of`).

    None if the reference has no published value, or no other row has one.
    """
    base = published.get(found.reference)
    others = {row: of for row, of in published.items() if of is not None and row != found.reference}
    if base is None or not others:
        return None
    known = [row for row in (*found.tests, *found.untested) if row in others]
    rows = {row: _verdict(metric, others[row] - base, found.tests.get(row), found.untested.get(row)) for row in known}
    return MetricVerdict(metric, rows, _agreement(metric, found, others)) if rows else None


def rule(metric: Metric) -> str:
    """The rule behind the verdicts of a metric, as one paragraph."""
    return " ".join(_rule(metric))


def _verdict(metric: Metric, published: float, test: RowTest | None, untested: str | None) -> Verdict:
    published = round(published, 9)  # 4.94 − 4.92 is 0.02, not 0.020000000000000462
    none = abs(published) <= metric.negligible
    if test is None:
        return Verdict(published, none, "not tested", untested or "")
    return Verdict(published, none, _within(metric.margin, test) if none else _same_sign(published, test))


def _same_sign(published: float, test: RowTest) -> Word:
    if test.low <= 0 <= test.high:
        return "not shown"
    return "agrees" if (test.difference > 0) == (published > 0) else "disagrees"


def _within(margin: float | None, test: RowTest) -> Word:
    if margin is not None and -margin <= test.low and test.high <= margin:
        return "agrees"
    if margin is not None and (test.low > margin or test.high < -margin):
        return "disagrees"
    return "not shown"


def _rule(metric: Metric) -> Iterator[str]:
    yield f"Rule for {metric.label}: a row agrees if our 95 % interval excludes 0 with the published sign."
    yield "It disagrees if the interval excludes 0 with the other sign. Otherwise the difference is not shown."
    yield f"A published |Δ| of at most {metric.negligible:g} is none in the paper."
    if metric.margin is None:
        yield "No margin is stated for it, so it is not shown."
        return
    yield f"It agrees if our whole interval lies within ± {_margin(metric)}, and disagrees if all of it lies outside."
    if metric.exp_of is not None:
        yield f"{metric.label} is compared as ln {metric.label}."


def _margin(metric: Metric) -> str:
    assert metric.margin is not None
    return f"{metric.margin:g} in ln {metric.label}" if metric.exp_of else f"{metric.margin:g} {metric.label}"


def _agreement(metric: Metric, found: Family, published: Mapping[str, float]) -> RankAgreement | None:
    """Over the tested rows. The reference moves all differences alike, so it changes no rank."""
    rows = [row for row in found.tests if row in published]
    if found.pooled_sd is None or len(rows) < 3:
        return None
    theirs = [math.log(published[row]) if metric.exp_of else published[row] for row in rows]
    errors = [found.pooled_sd / math.sqrt(found.seeds[row]) for row in rows]
    return rank_agreement([found.tests[row].difference for row in rows], errors, theirs)


def cells(metric: Metric, found: Family, row: str, given: Verdict) -> list[str]:
    """A row of the verdicts' table: published difference, ours with its interval on the compared scale, verdict."""
    test, places = found.tests.get(row), metric.places + 2 * bool(metric.exp_of)
    interval = f"[{signed(test.low, places)}, {signed(test.high, places)}]" if test else ""
    return [
        signed(given.published, metric.places),
        signed(test.difference, places) if test else "",
        interval,
        given.text,
    ]


def heads(metric: Metric) -> list[str]:
    """The headings of `cells`."""
    compared = f"ln {metric.label}" if metric.exp_of else metric.label
    return [f"paper Δ{metric.label}", f"our Δ{compared}", "95 % interval", f"{metric.label}: verdict"]
