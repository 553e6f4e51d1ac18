"""Our differences against the published ones: a verdict per row by a stated rule, and the agreement
of the order.

The rule's numbers belong to the metric: `negligible` and `agrees_within` (tracking/card.py).
Whether we show a difference is what the table's mark says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.means import published_minus
from tracking.statistics.references import ITS_REFERENCE
from tracking.statistics.seeds.family import Family, RowTest

VERSION_OF_RULE = 1
"""Bumped when the same numbers lead to a different verdict: the lock of a study names it."""
WORDS = ("agrees", "disagrees", "not shown", "not tested")
PublishedNumbers = Mapping[str, float | None]
"""For one metric: row -> published value, with the reference."""
PERMUTATIONS = 10_000
PERMUTATION_SEED = 20_170_612
PAIRS_AT_ONCE = 2_000_000  # 16 MB
LEAST_ROWS = 3


@dataclass(frozen=True)
class MetricVerdict:
    """The verdicts of one metric, and the order of the rows."""

    metric: Metric
    reference: str
    rows: dict[str, str]  # such as "agrees (none in the paper)", "not tested: 1 seed"
    order: Sequence[tuple[float, float]]  # for each tested row our difference, the published value

    def lines(self) -> list[str]:
        """The counts, the agreement of the order, and the rule, each one line of text."""
        lines = [f"{self.metric.label} against the paper, number of rows: {self._counts()}."]
        agreement = rank_agreement(self.order)
        if agreement:
            rho, tau = (f"{_coefficient(value)} (p {_p_words(p)})" for value, p in agreement)
            lines.append(
                f"Order of the {len(self.order)} tested rows against the published order: "
                f"Spearman's ρ {rho}, Kendall's τ {tau}; "
                f"p: share of {PERMUTATIONS:,} random orders that agree or oppose as strongly."
            )
        return [*lines, self.rule]

    @property
    def rule(self) -> str:
        """What each word means."""
        return rule(self.metric, self.reference)

    def _counts(self) -> str:
        """Such as "agrees 3, not shown 1"."""
        counts = []
        for word in WORDS:
            number = sum(text.startswith(word) for text in self.rows.values())
            if number:
                counts.append(f"{word} {number}")
        return ", ".join(counts)


def verdict(families: Sequence[Family], published: PublishedNumbers) -> MetricVerdict | None:
    """Every row with a published difference, from its own reference. The order is that of the rows
    that are compared with the first one. None if no reference has a published value, or no other
    row has one."""
    rows = dict[str, str]()
    order = list[tuple[float, float]]()
    references = list[str]()
    for family in families:
        base = published.get(family.reference)
        for row, test in family.rows.items():
            value = published.get(row)
            published_delta = None if base is None else published_minus(value, base)
            if value is None or published_delta is None:
                continue
            rows[row] = _verdict(family.metric, published_delta, test)
            references.append(family.reference)
            if family is families[0] and not isinstance(test, str):
                order.append((test.difference, value))
    if not rows:
        return None
    is_one = len(set(references)) == 1
    return MetricVerdict(
        families[0].metric, references[0] if is_one else ITS_REFERENCE, rows, order
    )


def rule(metric: Metric, reference: str) -> str:
    """The rule behind the verdicts of a metric, as one paragraph."""
    sentences = [
        (
            f"Rule for {metric.label}: a row agrees if it is marked as different on the published "
            f"side of {reference}."
        ),
        "It disagrees if it is marked on the other side. Otherwise the difference is not shown.",
        f"A published |Δ| of at most {metric.negligible:g} counts as no difference.",
    ]
    if metric.agrees_within is None:
        sentences.append("No margin is stated for it, so it is not shown.")
        return " ".join(sentences)
    scale = "in ln " if metric.exp_of else ""
    margin = f"{metric.agrees_within:g} {scale}{metric.label}"
    sentences.append(
        f"The row then agrees if our whole interval lies within ± {margin}, "
        "and disagrees if all of it lies outside."
    )
    if metric.exp_of:
        sentences.append(f"For that, {metric.label} is compared as ln {metric.label}.")
    return " ".join(sentences)


def rank_agreement(
    order: Sequence[tuple[float, float]],
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Spearman's ρ and Kendall's τ-b, each with its two-sided p by permutation, between our
    difference and the published value of each row.

    p is the share of random orders that agree or oppose as strongly. It says how certain it is that
    there is any agreement, not how strong it is: chance moves our means, by an unknown amount. None
    with fewer than 3 rows, or if all values are equal.
    """
    values, published = np.array(order, float).reshape(-1, 2).T
    if len(order) < LEAST_ROWS or np.ptp(published) == 0 or np.ptp(values) == 0:
        return None
    coefficients = _rank_coefficients(values[None], published)[:, 0]
    random = np.random.default_rng(PERMUTATION_SEED)
    as_strong = np.ones(2)
    draws_at_once = max(1, PAIRS_AT_ONCE // len(values) ** 2)
    for start in range(0, PERMUTATIONS, draws_at_once):
        draws = min(draws_at_once, PERMUTATIONS - start)
        permuted = random.permuted(np.tile(values, (draws, 1)), axis=1)
        drawn = _rank_coefficients(permuted, published)
        as_strong += (np.abs(drawn) >= np.abs(coefficients)[:, None] - 1e-12).sum(axis=1)
    p = as_strong / (PERMUTATIONS + 1)
    rho = (float(coefficients[0]), float(p[0]))
    tau = (float(coefficients[1]), float(p[1]))
    return rho, tau


def _rank_coefficients(values: Any, published: Any) -> Any:
    """Spearman's ρ and Kendall's τ-b of each line of ``values`` (draws × rows), as 2 × draws."""
    order = np.sign(values[:, :, None] - values[:, None, :])  # draws × rows × rows
    published_order = np.sign(published[:, None] - published[None, :])
    agreement = (order * published_order).sum((1, 2))
    untied_pairs = (order**2).sum((1, 2)) * (published_order**2).sum()
    kendall = agreement / np.sqrt(untied_pairs)
    ranks = order.sum(2)  # how many are lower, less how many are higher
    published_ranks = published_order.sum(1)
    squares = (ranks**2).sum(1) * (published_ranks**2).sum()
    spearman = ranks @ published_ranks / np.sqrt(squares)
    return np.stack([spearman, kendall])


def _verdict(metric: Metric, published: float, test: RowTest | str) -> str:
    if isinstance(test, str):
        return f"not tested: {test}"
    if abs(published) <= metric.negligible:
        return f"{_interval_verdict(metric.agrees_within, test)} (none in the paper)"
    return _sign_verdict(published, test)


def _sign_verdict(published: float, test: RowTest) -> str:
    if not test.marked:
        return "not shown"
    return "agrees" if (test.difference > 0) == (published > 0) else "disagrees"


def _interval_verdict(margin: float | None, test: RowTest) -> str:
    _, low, high = test.tested
    if margin is not None and -margin <= low and high <= margin:
        return "agrees"
    if margin is not None and (low > margin or high < -margin):
        return "disagrees"
    return "not shown"


def _coefficient(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if value >= 0 or text == "0.00" else f"−{text}"


def _p_words(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
