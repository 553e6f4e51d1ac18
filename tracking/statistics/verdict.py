"""Our differences against the published ones: a verdict per row by a stated rule, and the agreement
of the order.

The rule's numbers belong to the metric: `negligible` and `agrees_within` (tracking/card.py).
Whether we show a difference is what the table's mark says.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.family import Family, RowTest
from tracking.statistics.rows import published_minus

VERSION_OF_RULE = 1
"""Rises when the same numbers come to another verdict: the lock of a study names it."""
WORDS = ("agrees", "disagrees", "not shown", "not tested")
PublishedNumbers = Mapping[str, float | None]
"""Of one metric: row -> published value, the reference included."""
PERMUTATIONS = 10_000
PERMUTATION_SEED = 20_170_612
AT_ONCE = 2_000_000  # pairs compared at one time: 16 MB
LEAST_ROWS = 3


@dataclass(frozen=True)
class MetricVerdict:
    """The verdicts of one metric, and the order of the rows."""

    metric: Metric
    reference: str
    rows: dict[
        str, str
    ]  # one of WORDS, and more: "agrees (none in the paper)", "not tested: 1 seed"
    order: Sequence[
        tuple[float, float]
    ]  # of each tested row our difference, and the published value

    def lines(self) -> list[str]:
        """The counts, the agreement of the order, and the rule, each one line of text."""
        counted = Counter(
            word for text in self.rows.values() for word in WORDS if text.startswith(word)
        )
        counts = ", ".join(f"{word} {counted[word]}" for word in WORDS if counted[word])
        told = [f"{self.metric.label} against the paper, rows: {counts}."]
        if found := rank_agreement(self.order):
            rho, tau = (f"{_coefficient(value)} (p {_p(p)})" for value, p in found)
            told.append(
                f"Order of the {len(self.order)} tested rows against the published order: "
                f"Spearman's ρ {rho}, Kendall's τ {tau}; "
                f"p: share of {PERMUTATIONS:,} random orders that agree or oppose as strongly."
            )
        return [*told, rule(self.metric, self.reference)]


def verdict(found: Family, published: PublishedNumbers) -> MetricVerdict | None:
    """Every row with a published difference. None if the reference has no published value, or no
    other row has one."""
    metric = found.metric
    base = published.get(found.reference)
    if base is None:
        return None
    others = {row: of for row, of in published.items() if of is not None}
    deltas = {row: published_minus(others[row], base) for row in found.rows if row in others}
    rows = {
        row: _verdict(metric, delta, found.rows[row])
        for row, delta in deltas.items()
        if delta is not None
    }
    order = [(test.difference, others[row]) for row, test in found.tests.items() if row in others]
    return MetricVerdict(metric, found.reference, rows, order) if rows else None


def rule(metric: Metric, reference: str) -> str:
    """The rule behind the verdicts of a metric, as one paragraph."""
    said = [
        f"Rule for {metric.label}: a row agrees if it is marked as different on the published side of {reference}.",
        "It disagrees if it is marked on the other side. Otherwise the difference is not shown.",
        f"A published |Δ| of at most {metric.negligible:g} is none in the paper.",
    ]
    if metric.agrees_within is None:
        return " ".join([*said, "No margin is stated for it, so it is not shown."])
    margin = f"{metric.agrees_within:g} {'in ln ' if metric.exp_of else ''}{metric.label}"
    said.append(
        f"It agrees if our whole interval lies within ± {margin}, and disagrees if all of it lies outside."
    )
    if metric.exp_of:
        said.append(f"For that, {metric.label} is compared as ln {metric.label}.")
    return " ".join(said)


def rank_agreement(
    order: Sequence[tuple[float, float]],
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Spearman's ρ and Kendall's τ-b, each with its two-sided p by permutation, between our
    difference and the published value of each row.

    p is the share of random orders that agree or oppose as strongly. It says how surely there is
    any agreement, not how strong it is: chance moves our means, and nobody knows how far. None with
    fewer than 3 rows, or if all values are equal.
    """
    values, theirs = np.array(order, float).reshape(-1, 2).T
    if len(order) < LEAST_ROWS or np.ptp(theirs) == 0 or np.ptp(values) == 0:
        return None
    found = _both(values[None], theirs)[:, 0]
    chance = np.random.default_rng(PERMUTATION_SEED)
    larger = np.ones(2)
    at_once = max(1, AT_ONCE // len(values) ** 2)
    for start in range(0, PERMUTATIONS, at_once):
        number = min(at_once, PERMUTATIONS - start)
        drawn = _both(chance.permuted(np.tile(values, (number, 1)), axis=1), theirs)
        larger += (np.abs(drawn) >= np.abs(found)[:, None] - 1e-12).sum(axis=1)
    p = larger / (PERMUTATIONS + 1)
    return (float(found[0]), float(p[0])), (float(found[1]), float(p[1]))


def _both(rows: Any, theirs: Any) -> Any:
    """Spearman's ρ and Kendall's τ-b of each line of ``rows`` (draws × rows), as 2 × draws."""
    above = np.sign(rows[:, :, None] - rows[:, None, :])  # draws × rows × rows
    above_theirs = np.sign(theirs[:, None] - theirs[None, :])
    kendall = (above * above_theirs).sum((1, 2)) / np.sqrt(
        (above**2).sum((1, 2)) * (above_theirs**2).sum()
    )
    ranks, their_ranks = (
        above.sum(2),
        above_theirs.sum(1),
    )  # how many are below, less how many are above
    spearman = ranks @ their_ranks / np.sqrt((ranks**2).sum(1) * (their_ranks**2).sum())
    return np.stack([spearman, kendall])


def _verdict(metric: Metric, published: float, test: RowTest | str) -> str:
    if isinstance(test, str):
        return f"not tested: {test}"
    if abs(published) <= metric.negligible:
        return f"{_within(metric.agrees_within, test)} (none in the paper)"
    return _same_sign(published, test)


def _same_sign(published: float, test: RowTest) -> str:
    if not test.marked:
        return "not shown"
    return "agrees" if (test.difference > 0) == (published > 0) else "disagrees"


def _within(margin: float | None, test: RowTest) -> str:
    _, low, high = test.tested
    if margin is not None and -margin <= low and high <= margin:
        return "agrees"
    if margin is not None and (low > margin or high < -margin):
        return "disagrees"
    return "not shown"


def _coefficient(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if value >= 0 or text == "0.00" else f"−{text}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
