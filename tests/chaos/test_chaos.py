"""`make chaos` with four faults: the program that a person runs with sixty of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FAULTS = 4
pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]


def test_a_swept_study_recovers_from_faults_drawn_at_random(tmp_path: Path) -> None:
    words = ["tests/chaos", "--seed", "1", "--faults", str(FAULTS)]
    paths = os.pathsep.join([str(PROJECT), str(PROJECT / "tests" / "shared")])
    process = subprocess.run(
        ["unshare", "--mount", "--", sys.executable, *words],  # its mounts go with it
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": paths, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "All results are those of an undisturbed sweep, and nothing is left" in process.stdout
    assert process.stdout.count("s to training again") == FAULTS
