"""What a plan reads from the results of finished trials."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.costs.measurement import Measurement, finished_trials

STUDIES = Path(__file__).parents[3] / "studies"
PACE = {
    "work": "a",
    "conditions": "same",
    "machine": "here",
    "flops_per_step": 1e9,
    "scoring_seconds": 20.0,
    "cpu_seconds": 240.0,
    "peak_bytes": 1,
}
RESULT = {"seconds": 100.0, "step": 50, "attempt": 1}


def measured(runs: Path, result: dict[str, Any], pace: dict[str, Any]) -> Measurement:
    """The measurement in a result file with these values."""
    path = runs / "study" / "base-s1" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**RESULT, **result, "pace": {**PACE, **pace}}))
    (trial,) = finished_trials(runs, ["same"], "here")
    return trial


@pytest.mark.parametrize("pace", [{}, {"steps": 50}])
def test_cpu_seconds_of_a_single_attempt_are_those_of_all_steps(
    tmp_path: Path, pace: dict[str, int]
) -> None:
    """Earlier versions recorded no steps."""
    assert measured(tmp_path, {}, pace).cpu_seconds_per_step == 240.0 / 50


@pytest.mark.parametrize("steps", [25, 5, 0])
def test_a_resumed_trial_tells_the_cpu_seconds_of_a_whole_one(tmp_path: Path, steps: int) -> None:
    """Both cores worked for 100 s of training and 20 s of scoring. The last attempt had a part of
    the former."""
    cpu_seconds = 2 * (2.0 * steps + 20.0)
    trial = measured(tmp_path, {"attempt": 2}, {"steps": steps, "cpu_seconds": cpu_seconds})
    assert trial.seconds_per_step == 2.0
    assert trial.cpu_seconds_per_step == pytest.approx(240.0 / 50)


def test_cpu_seconds_of_a_resumed_trial_of_an_earlier_version_are_unknown(tmp_path: Path) -> None:
    trial = measured(tmp_path, {"attempt": 2}, {})
    assert trial.cpu_seconds_per_step is None
    assert (trial.seconds_per_step, trial.scoring_seconds) == (2.0, 20.0)


def test_published_results_of_every_version_are_read() -> None:
    results = [json.loads(path.read_bytes()) for path in STUDIES.glob("*/*/result.json")]
    paces = [result["pace"] for result in results if "pace" in result]
    assert paces
    trials = finished_trials(STUDIES, {pace["conditions"] for pace in paces}, None)
    assert len(trials) == len(paces)
    known = [
        "steps" in result["pace"] or result["attempt"] == 1
        for result in results
        if "pace" in result
    ]
    assert sum(trial.cpu_seconds_per_step is not None for trial in trials) == sum(known)
