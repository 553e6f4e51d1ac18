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


def test_a_trial_that_diverged_measures_nothing(tmp_path: Path) -> None:
    """Its few steps would bear the start of the whole trial."""
    path = next(path for path in STUDIES.glob("*/*/result.json") if b'"pace"' in path.read_bytes())
    result = json.loads(path.read_bytes())
    conditions = {result["pace"]["conditions"]}
    for name, diverged in (("a", None), ("b", 3)):
        folder = tmp_path / "study" / name
        folder.mkdir(parents=True)
        content = json.dumps(result | {"diverged": diverged})
        (folder / "result.json").write_text(content, "utf-8")
    assert len(finished_trials(tmp_path, conditions, None)) == 1
