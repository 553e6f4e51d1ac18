"""What the processes of a sweep do not import, so that they start soon."""

import subprocess
import sys

import pytest

TUNE, TORCH, MLFLOW, PLAN = "ray.tune", "torch", "mlflow", "sweeps.planning.plan"


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("sweeps.running.orders", {TUNE, TORCH, MLFLOW, PLAN}),
        ("sweeps.running.worker", {TUNE, TORCH, MLFLOW, PLAN}),
        ("sweeps.running.group", {TORCH, MLFLOW, PLAN}),
        ("sweeps.running.tune", {TORCH, MLFLOW}),
    ],
)
def test_a_process_of_a_sweep_imports_what_it_needs(module: str, unneeded: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not unneeded & set(done.stdout.split())
