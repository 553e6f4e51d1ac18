"""Which training the weights behind scores come from, as ``result.json`` and the heads of
statistics record it."""

from collections.abc import Mapping
from typing import Any, Final

from tracking.attempts import Lineage

WEIGHTS = "weights"
"""The key of both files."""
TO_SCORE_AGAIN: Final = "to score again"
"""The state of a trial that only scores, once its host has other weights than its scores are of."""
WeightsRecord = dict[str, Any]


def weights_record(lineage: Lineage, attempt: int, step: int) -> WeightsRecord:
    """Those after this step, which this attempt trained. No other training has the same record."""
    run = lineage.runs.get(attempt, "")
    return {"lineage": lineage.name, "attempt": attempt, "run": run, "step": step}


def weights_of(result: Mapping[str, Any]) -> WeightsRecord:
    """The weights that a result scores. Earlier versions recorded none: their last attempt stands
    for them."""
    recorded: WeightsRecord | None = result.get(WEIGHTS)
    return recorded or {"attempt": result["attempt"], "step": result["step"]}


def are_scored(weights: WeightsRecord, result: Mapping[str, Any]) -> bool:
    """Whether a result scores these weights. One of an earlier version, which records none,
    does."""
    return result.get(WEIGHTS) in (None, weights)


def are_current(result: Mapping[str, Any], host: Mapping[str, Any] | None) -> bool:
    """Whether a result scores the weights of this result of its host."""
    return host is not None and result.get(WEIGHTS) == weights_of(host)


def is_head_of(weights: WeightsRecord, head: Mapping[str, Any]) -> bool:
    """Whether the statistics with this head are of these weights. A trial's own training has only
    its attempt there."""
    if WEIGHTS in head:
        return bool(head[WEIGHTS] == weights)
    is_recorded = "run" in weights  # earlier versions did not record which attempt trained
    return not is_recorded or head.get("attempt") == weights["attempt"]


def joined_scores(
    before: dict[str, Any] | None,
    key: str,
    weights: WeightsRecord,
    scores: dict[str, dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The scores by set, with those of other sets from an earlier result of these weights and
    settings."""
    if (
        before is None
        or (before["key"], before["step"]) != (key, weights["step"])
        or not are_scored(weights, before)
    ):
        return scores
    settings = [of_set["decode"] for of_set in scores.values()]
    return {
        name: of_set for name, of_set in before["scores"].items() if of_set["decode"] in settings
    } | scores
