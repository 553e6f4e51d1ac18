"""What the processes of a sweep do not import, so that they start soon."""

import os
import subprocess
import sys

import pytest
from ray.air._internal import usage

from sweeps.processes import ray_private

TUNE, TORCH, MLFLOW = "ray.tune", "torch", "mlflow"


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("sweeps.running.turn", {TUNE, TORCH, MLFLOW}),
        ("sweeps.running.worker", {TUNE, TORCH, MLFLOW}),
        ("sweeps.running.tune", {TORCH, MLFLOW}),
        ("sweeps.running.group", {TORCH, MLFLOW}),
    ],
)
def test_a_process_of_a_sweep_imports_what_it_needs(module: str, unneeded: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not unneeded & set(done.stdout.split())


@pytest.mark.parametrize(("statistics", "counted"), [("0", False), ("1", True)])
def test_callbacks_are_counted_only_for_usage_statistics(
    monkeypatch: pytest.MonkeyPatch, statistics: str, counted: bool
) -> None:
    """Tune imports MLflow for that."""
    monkeypatch.setitem(os.environ, "RAY_USAGE_STATS_ENABLED", statistics)
    count = usage.tag_callbacks
    with ray_private.uncounted():
        assert (usage.tag_callbacks is count) == counted
    assert usage.tag_callbacks is count


def test_another_version_of_ray_counts_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delattr(usage, "tag_callbacks")
    with ray_private.uncounted():
        assert not hasattr(usage, "tag_callbacks")
