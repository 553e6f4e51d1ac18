"""How long a row's trials kept their devices: seconds of training times devices, from the record of
each attempt.

A device is a GPU, or the CPUs of one worker. A trial on a part of a GPU has no such hours.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tracking.attempts import AttemptRecord
from tracking.files import unless_damaged
from tracking.provenance import trained_by
from tracking.statistics.rows import TableRow, mean
from tracking.statistics.unlike_trials import WORKERS
from tracking.study import Standing, Study
from tracking.trial import TrialFolder

HOUR_S = 3600


def device_hours(study: Study, row: TableRow) -> float | None:
    """The mean over the row's finished trials, as for seconds; None if that of any is unknown."""
    trials = [trial for trial in study.trials if trial.row == row.row]
    finished = [standing for standing in study.standings(trials) if standing.counted is not None]
    return mean([_of_trial(study.trial_folder(standing.trial), standing) for standing in finished])


def _of_trial(folder: TrialFolder, standing: Standing) -> float | None:
    if standing.trial.weights:  # its training is counted at its host
        return 0.0
    result = standing.counted or {}
    devices = _devices(folder, result.get("step", 0))
    seconds = result.get("seconds")
    return None if devices is None or seconds is None else seconds * devices / HOUR_S


def _devices(folder: TrialFolder, step: int) -> float | None:
    """Of the attempts whose steps are in the weights; where they differ, the mean over the time of
    these attempts."""
    records = trained_by(unless_damaged(folder.provenance, {}), step)
    config = unless_damaged(folder.config, None) or {}
    gpus_now = config.get("cluster", {}).get("gpus_per_worker", 0)  # for records without them
    gpus = {record.get("attempt"): record.get("gpus_per_worker", gpus_now) for record in records}
    if not all(record.get("device") for record in records) or any(
        0 < count < 1 for count in gpus.values()
    ):
        return None
    counts = {}
    for record in records:
        number = record.get("attempt")
        counts[number] = _workers_in(record) * max(1, gpus[number])
    if len(set(counts.values())) < 2:
        return next(iter(counts.values()), None)
    spent = _seconds(unless_damaged(folder.attempts.all, []), counts)
    whole = sum(spent.values())
    return (
        sum(counts[number] * seconds for number, seconds in spent.items()) / whole
        if whole
        else None
    )


def _seconds(attempts: Sequence[AttemptRecord], numbers: Collection[Any]) -> dict[Any, float]:
    """How long each of these attempts took."""
    there = [
        attempt for attempt in attempts if attempt.number in numbers and attempt.ended is not None
    ]
    return {
        attempt.number: max(0.0, (attempt.ended or attempt.began) - attempt.began)
        for attempt in there
    }


def _workers_in(record: Mapping[str, Any]) -> int:
    """By the name of the device, such as "NVIDIA H100 × 2"."""
    workers = str(record["device"]).partition(WORKERS)[2]
    return int(workers) if workers.isdigit() else 1
