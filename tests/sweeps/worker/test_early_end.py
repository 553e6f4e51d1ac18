"""A trial whose work returns before its last step without being asked to: finished, and marked."""

import json
from pathlib import Path

from small_task import write_task
from typed import typed

STOPS = "        if stops:\n            return\n"
ENDS = f"{STOPS}        if (step, trial.seed) == (2, 2):\n            break\n"


def test_a_trial_that_ends_early_is_finished_and_every_output_says_so(tmp_path: Path) -> None:
    write_task(tmp_path, {STOPS: ENDS})
    for seed in (1, 2):
        options = ["--add"] if seed == 2 else []
        outcome = typed(
            tmp_path, "train", "task=small", f"sweep.seeds=[{seed}]", *options, "tracking=off"
        )
        assert outcome.exit_code == 0, outcome.output
        assert (", stopped at 2 of 4, dev score" in outcome.output) == (seed == 2)
    lines = json.loads(typed(tmp_path, "status", "--json").stdout)
    assert [(line["state"], line["step"], line["note"]) for line in lines] == [
        ("finished", 4, ""),
        ("finished", 2, "stopped at 2 of 4"),
    ]
    table = " ".join(typed(tmp_path, "table").stdout.split())
    assert "stopped at 2 of 4 (s2)" in table
    assert "means include these seeds: base (seed 2)." in table
    result = json.loads((tmp_path / "runs/small-full/base-s2/result.json").read_text("utf-8"))
    assert (result["step"], result["steps"]) == (2, 4)
