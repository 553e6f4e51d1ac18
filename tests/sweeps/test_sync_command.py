"""The command that carries journals, for a sweep and for `ablate sync`."""

import subprocess
from pathlib import Path

from sweeps.planning.compose import compose_settings
from sweeps.running.syncing import sync_command, sync_environment
from tracking.study import Study, write_study


def test_a_study_is_carried_to_the_uri_of_its_settings(tmp_path: Path) -> None:
    there = f"sqlite:///{tmp_path}/elsewhere.db"
    settings = compose_settings([f"paths.runs={tmp_path}/runs", "sweep.name=mine", f"tracking.uri={there}"])
    write_study(Study(tmp_path / "runs" / "mine", (), {}, ()))
    done = subprocess.run(sync_command(settings), env=sync_environment(there), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, f"sync: 0 runs, 0 new points, {there}\n")
    assert (tmp_path / "elsewhere.db").exists()
    assert not (tmp_path / "runs" / "mlflow.db").exists()
