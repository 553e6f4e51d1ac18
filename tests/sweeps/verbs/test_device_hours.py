"""The column of device hours: seconds of training times workers, as the record of the attempts has
them."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from finished_trials import study_in, sweep
from typed import printed

from tracking.trial import TrialFolder

SECONDS = 9.0
"""Of training, of each trial that `sweep` leaves."""


def recorded(
    folder: TrialFolder, workers: Sequence[int], minutes: Sequence[int], gpus: float = 0
) -> None:
    """Attempts with so many workers, each for so many minutes, that share the steps evenly."""
    records = []
    for index, count in enumerate(workers):
        start = {"attempt": index + 1, "from": 600 * index // len(workers), "steps": 600}
        records.append({**start, "device": f"H100 × {count}", "gpus_per_worker": gpus})
    folder.provenance_path.write_text(json.dumps({"commit": None, "attempts": records}))
    lines: list[dict[str, object]] = []
    for number, length in enumerate(minutes, 1):
        process = {"host": "a", "pid": 1, "birth": ""}
        lines.append({"attempt": number, "ts": 0.0, **process})
        lines.append(
            {"attempt": number, "ts": 60.0 * length, "end": True, "reason": "finished", **process}
        )
    folder.attempts_path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("workers", "minutes", "devices"),
    [([1], [5], 1), ([4], [5], 4), ([2, 2], [5, 1], 2), ([1, 4], [20, 10], 2)],
)
def test_the_seconds_count_for_each_worker(
    tmp_path: Path, workers: list[int], minutes: list[int], devices: float
) -> None:
    folder = tmp_path.resolve()
    sweep(folder, "sweep.rows=[base,big]", "sweep.seeds=[1]")
    study = study_in(folder)
    recorded(study.trial_folder(study.trials[0]), workers, minutes)
    base, big = csv.DictReader(io.StringIO(printed(folder, "table", "--format", "csv")))
    assert float(base["device_hours"]) == pytest.approx(SECONDS * devices / 3600)
    assert big["device_hours"] == "", "nothing is known of its attempts"
    assert "device hours" in printed(folder, "table", "--columns", "device_hours")


@pytest.mark.parametrize(("gpus", "devices"), [(1.0, 2), (4.0, 8), (0.5, None)])
def test_every_gpu_of_a_worker_counts_and_a_part_of_one_is_unknown(
    tmp_path: Path, gpus: float, devices: float | None
) -> None:
    folder = tmp_path.resolve()
    sweep(folder, "sweep.rows=[base]", "sweep.seeds=[1]")
    study = study_in(folder)
    recorded(study.trial_folder(study.trials[0]), [2], [5], gpus)
    (base,) = json.loads(printed(folder, "table", "--format", "json"))
    assert base["device_hours"] == (
        None if devices is None else pytest.approx(SECONDS * devices / 3600)
    )
