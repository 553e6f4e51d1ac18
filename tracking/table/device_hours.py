"""How long a row's trials held their devices: seconds of training times devices, from the record of
each attempt.

A device is a GPU, or the CPUs of one worker. A trial on a part of a GPU has no such hours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tracking.attempts import AttemptRecord
from tracking.files import unless_damaged
from tracking.provenance import device_and_workers, trained_by
from tracking.statistics.means import mean
from tracking.statistics.table_row import TableRow
from tracking.study import Standing, Study
from tracking.trial import TrialFolder

SECONDS_PER_HOUR = 3600


def device_hours(study: Study, row: TableRow) -> float | None:
    """The mean over the row's finished trials, as for seconds; None if that of any is unknown."""
    trials = [trial for trial in study.trials if trial.row == row.row]
    hours = list[float | None]()
    for standing in study.standings(trials):
        if standing.counted is not None:
            hours.append(_hours_of_trial(study.trial_folder(standing.trial), standing))
    return mean(hours)


def _hours_of_trial(folder: TrialFolder, standing: Standing) -> float | None:
    if standing.trial.weights:  # its training counts for its host
        return 0.0
    result = standing.counted or {}
    devices = _devices(folder, result.get("step", 0))
    seconds: float | None = result.get("seconds")
    if devices is None or seconds is None:
        return None
    return seconds * devices / SECONDS_PER_HOUR


def _devices(folder: TrialFolder, step: int) -> float | None:
    """The number of devices of the attempts that trained the weights: where attempts differ, the
    mean over their time."""
    records = trained_by(unless_damaged(folder.provenance, {}), step)
    config = unless_damaged(folder.config, None) or {}
    configured_gpus = config.get("cluster", {}).get("gpus_per_worker", 0)
    devices_of_attempt = dict[Any, float]()
    for record in records:
        gpus = record.get("gpus_per_worker", configured_gpus)  # older records lack it
        is_part_of_gpu = 0 < gpus < 1
        if is_part_of_gpu or not record.get("device"):
            return None
        _, workers = device_and_workers(record)
        devices_of_attempt[record.get("attempt")] = workers * max(1, gpus)
    if len(set(devices_of_attempt.values())) < 2:
        return next(iter(devices_of_attempt.values()), None)
    return _mean_over_time(devices_of_attempt, unless_damaged(folder.attempts.all, []))


def _mean_over_time(
    devices_of_attempt: Mapping[Any, float], attempts: Sequence[AttemptRecord]
) -> float | None:
    """None if no attempt took any time."""
    device_seconds = 0.0
    seconds = 0.0
    for attempt in attempts:
        if attempt.number in devices_of_attempt and attempt.ended is not None:
            duration = max(0.0, attempt.ended - attempt.began)
            device_seconds += devices_of_attempt[attempt.number] * duration
            seconds += duration
    return device_seconds / seconds if seconds else None
