"""What a plan reads from the results of finished trials."""

import json
from pathlib import Path

from sweeps.costs.measurement import finished_trials

STUDIES = Path(__file__).parents[3] / "studies"


def test_published_results_of_every_version_are_read() -> None:
    results = [json.loads(path.read_bytes()) for path in STUDIES.glob("*/*/result.json")]
    paces = [result["pace"] for result in results if "pace" in result]
    assert paces
    trials = finished_trials(STUDIES, {pace["conditions"] for pace in paces}, None)
    assert len(trials) == len(paces)
