"""The ``result.json`` of a finished trial."""

from collections.abc import Mapping
from typing import Any

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.running.device_costs import OF_DEVICES, device_costs
from sweeps.worker.events import Finished
from tracking.provenance import trained_by
from tracking.weights import WEIGHTS, WeightsRecord, joined_scores

PACE = "pace"


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
    of_training = _costs_of_training(planned, end, earlier_result if is_of_this_trial else None)
    return {**result, **end.costs, **of_training, "scores": scores}


def _costs_of_training(
    planned: PlannedTrial, end: Finished, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The costs that belong to training: those of an ``earlier`` result, if this attempt only
    scored again."""
    if PACE not in end.costs and earlier is not None:
        return {name: earlier[name] for name in (PACE, *OF_DEVICES) if name in earlier}
    records = trained_by(planned.folder.provenance(), end.step)
    return device_costs(records, end.costs["seconds"], end.costs["flops"])
