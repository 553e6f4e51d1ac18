"""A node of GPU trials is asked for CUDA: without it, a trial would train on the CPU in silence."""

from pathlib import Path

import pytest
import torch

from sweeps.preflight.node_trials import problems_here

KEY = "cluster.gpus_per_worker"


@pytest.mark.parametrize(
    ("cuda", "gpus", "refused"), [(None, 1.0, [KEY]), (None, 0.5, [KEY]), (None, 0.0, []), ("13.0", 1.0, [])]
)
def test_a_node_whose_torch_is_a_cpu_build_takes_no_gpu_trials(
    cuda: str | None, gpus: float, refused: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    trials = {"checkpoints": ("paths.runs", str(tmp_path)), "task": None, "gpus": gpus}
    assert [problem["key"] for problem in problems_here(trials, seen={})] == refused
