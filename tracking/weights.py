"""Which training produced the scored weights, in ``result.json`` and the heads of statistics."""

from collections.abc import Mapping
from typing import Any, Final

from tracking.attempts import Lineage

WEIGHTS = "weights"
"""The key of both files."""
TO_SCORE_AGAIN: Final = "to score again"
"""The state of a trial that only scores, once its host has different weights than it scored."""
WeightsRecord = dict[str, Any]


def weights_record(lineage: Lineage, attempt: int, step: int) -> WeightsRecord:
    """The weights that this attempt trained up to this step.

    No other training has the same record.
    """
    run = lineage.runs.get(attempt, "")
    return {"lineage": lineage.name, "attempt": attempt, "run": run, "step": step}


def weights_of(result: Mapping[str, Any]) -> WeightsRecord:
    """The weights that a result scores. Earlier versions recorded only the last attempt."""
    recorded: WeightsRecord | None = result.get(WEIGHTS)
    return recorded or {"attempt": result["attempt"], "step": result["step"]}


def are_scored(weights: WeightsRecord, result: Mapping[str, Any]) -> bool:
    """Whether a result scores these weights.

    A result of an earlier version, without a record, counts.
    """
    return result.get(WEIGHTS) in (None, weights)


def are_current(result: Mapping[str, Any], host: Mapping[str, Any] | None) -> bool:
    """Whether a result scores the weights that its host's result is of."""
    return host is not None and result.get(WEIGHTS) == weights_of(host)


def is_head_of(weights: WeightsRecord, head: Mapping[str, Any]) -> bool:
    """Whether the statistics with this head are of these weights. Without a record of its weights,
    a head has its attempt."""
    if WEIGHTS in head:
        return bool(head[WEIGHTS] == weights)
    if "run" not in weights:  # earlier versions did not record which attempt trained
        return True
    return bool(head.get("attempt") == weights["attempt"])


def joined_scores(
    earlier: dict[str, Any] | None,
    key: str,
    weights: WeightsRecord,
    scores: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The scores by set, also of other sets in an earlier result of these weights and settings."""
    if earlier is None or not are_scored(weights, earlier):
        return scores
    if earlier["key"] != key or earlier["step"] != weights["step"]:
        return scores
    settings = [set_scores["decode"] for set_scores in scores.values()]
    joined = {}
    for set_name, set_scores in earlier["scores"].items():
        if set_scores["decode"] in settings:
            joined[set_name] = set_scores
    return joined | scores
