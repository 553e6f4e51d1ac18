"""The ``result.json`` of a finished trial."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.processes.events import Finished
from tracking.card import DEVICE_COSTS
from tracking.files import to_json
from tracking.provenance import Provenance, device_and_workers, trained_by
from tracking.weights import WEIGHTS, WeightsRecord, joined_scores

PACE = "pace"
SUSTAINED = "sustained"
OF_DEVICES = (*DEVICE_COSTS, SUSTAINED)
"""The names of what ``device_costs`` returns."""


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


def device_costs(
    records: Sequence[Provenance], seconds: float, flops: float | None
) -> dict[str, Any]:
    """FLOPs of all devices, the share of them that the formula's ``flops`` are, and the rate of one
    device.

    ``records`` are those of the attempts that trained for these ``seconds``. {} if their devices
    or rates differ or are unknown, for a part of a GPU, and for training that took no time.
    """
    if not records or not seconds or not _is_of_one_group(records):
        return {}
    devices = _devices(records[-1])
    rate = _rate_of_one(records[-1], devices) if devices else None
    if rate is None:
        return {}
    device_flops = seconds * devices * rate["flops_per_s"]
    share = {} if flops is None else {"mfu": flops / device_flops}
    return {"device_flops": device_flops, **share, SUSTAINED: dict(rate)}


def _is_of_one_group(records: Sequence[Provenance]) -> bool:
    """Whether all attempts trained on as many devices of one kind: one rate counts for all their
    seconds."""
    groups = set[str]()
    for record in records:
        rate = record.get(SUSTAINED) or {}
        cpu = record.get("cpu") or {}
        conditions = [record.get("device"), record.get("gpus_per_worker"), cpu.get("model")]
        groups.add(
            to_json([*conditions, rate.get("source"), rate.get("precision"), rate.get("threads")])
        )
    return len(groups) < 2


def _devices(record: Provenance) -> float:
    """The GPUs of all workers, or the workers themselves, each with its CPUs; 0 for a part of a
    GPU."""
    gpus = record.get("gpus_per_worker") or 0
    _, workers = device_and_workers(record)
    return 0 if 0 < gpus < 1 else workers * max(1, gpus)


def _rate_of_one(record: Provenance, devices: float) -> Mapping[str, Any] | None:
    """What one device sustains: the typed rate, else the task's, which is that of all devices, else
    the measured one."""
    rate: Mapping[str, Any] | None = record.get(SUSTAINED)
    is_typed = rate is not None and rate["source"] == "typed"
    of_task = record.get("about", {}).get("flops_per_s")
    if is_typed or not isinstance(of_task, dict) or not of_task.get(SUSTAINED):
        return rate
    return {"flops_per_s": of_task[SUSTAINED] / devices, "source": "table"}
