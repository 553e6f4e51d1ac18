"""How a set's score follows from its samples: the named formulas that a metric's ``from_counts`` may name.

A sample is one line of ``statistics/<set>.jsonl``. Each formula takes fields of these lines, sums them over the
samples, and makes the score of the sums. So a score of any other choice of samples needs no new evaluation.
"""

from collections.abc import Sequence

FIELDS = {
    "mean": 1,
    "ratio": 2,
    "exp_ratio": 2,
    "ngram_precision": 1,
    "ngram_precision_unsmoothed": 1,
    "ngram_f": 1,
}
"""The number of fields that each formula takes.

- ``mean``: of a number per sample.
- ``ratio``: the sum of the first field over the sum of the second.
- ``exp_ratio``: e to that power.
- ``ngram_precision``: from a list: length, reference's length, matching n-grams by order, all n-grams by order. The
  geometric mean of the precisions with a brevity penalty, 0 to 100. The k-th order without a match counts as 2^-k
  matches; in ``ngram_precision_unsmoothed`` it makes the score 0.
- ``ngram_f``: from a list, per order: n-grams of the sample, of the reference, in both. F2 of mean precision and mean
  recall, 0 to 100.
"""


def fault(from_counts: Sequence[object]) -> str | None:
    """What is wrong with a metric's ``from_counts``; None if nothing is. An empty one means: no counts."""
    if not from_counts:
        return None
    if not all(isinstance(word, str) for word in from_counts):
        return "must have text in from_counts: a formula, then fields of a sample"
    formula, fields = from_counts[0], from_counts[1:]
    if formula not in FIELDS:
        return f"must have one of {', '.join(FIELDS)} as the formula of from_counts, but has {formula}"
    expected = FIELDS[str(formula)]
    if len(fields) != expected:
        return f"must have {expected} field{'s' * (expected > 1)} after {formula} in from_counts, but has {len(fields)}"
    return None
