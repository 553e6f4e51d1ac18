"""The ``result.json`` of a finished trial."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.worker.events import Finished
from tracking.card import DEVICE_COSTS
from tracking.files import to_json
from tracking.provenance import Provenance, trained_by
from tracking.weights import WEIGHTS, WeightsRecord, joined_scores

PACE = "pace"
OF_DEVICES = (*DEVICE_COSTS, "sustained")
"""Costs that count only where one rate holds for all of training."""


def trial_result(
    planned: PlannedTrial, attempt: int, end: Finished, weights: WeightsRecord
) -> dict[str, Any]:
    """What the file holds, also of an earlier result: scores of other sets, and the costs of
    training if this attempt only scored.

    ``weights`` identifies the weights that were scored. Raises DamagedFileError.
    """
    trial = planned.trial
    earlier_result = planned.folder.result()
    result: dict[str, Any] = {
        "key": trial.key,
        "row": trial.row,
        "seed": trial.seed,
        "step": end.step,
        "attempt": attempt,
        "scoring": (earlier_result or {}).get("scoring", 0) + 1,
        WEIGHTS: weights,
    }
    if end.steps is not None:
        result["steps"] = end.steps
    if end.diverged is not None:
        result["diverged"] = end.diverged
    scores = joined_scores(earlier_result, trial.key, weights, end.scores)
    is_of_this_trial = earlier_result is not None and earlier_result["key"] == trial.key
    costs = _with_training(end.costs, earlier_result or {} if is_of_this_trial else {})
    if not _is_of_one_group(trained_by(planned.folder.provenance(), end.step)):
        costs = {name: value for name, value in costs.items() if name not in OF_DEVICES}
    return {**result, **costs, "scores": scores}


def _with_training(costs: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """The costs of an attempt. If it only scored, the training costs come from the earlier
    ``result``."""
    if PACE in costs:
        return {**costs}
    earlier = {name: result[name] for name in (PACE, *OF_DEVICES) if name in result}
    return {**costs, **earlier}


def _is_of_one_group(records: Sequence[Provenance]) -> bool:
    """Whether all attempts trained on as many devices of one kind: one rate counts for all their
    seconds."""
    groups = set[str]()
    for record in records:
        rate = record.get("sustained") or {}
        cpu = record.get("cpu") or {}
        conditions = [record.get("device"), record.get("gpus_per_worker"), cpu.get("model")]
        groups.add(
            to_json([*conditions, rate.get("source"), rate.get("precision"), rate.get("threads")])
        )
    return len(groups) < 2
