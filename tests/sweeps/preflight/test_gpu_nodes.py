"""A node of GPU trials is asked for CUDA: without it, a trial would train on the CPU in silence.

And cards without bfloat16, which torch would emulate slowly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typed import refusal, typed

from sweeps.preflight.node_trials import problems_here

KEY = "cluster.gpus_per_worker"


@pytest.mark.parametrize(
    ("cuda", "gpus", "refused"),
    [(None, 1.0, [KEY]), (None, 0.5, [KEY]), (None, 0.0, []), ("13.0", 1.0, [])],
)
def test_a_node_whose_torch_is_a_cpu_build_takes_no_gpu_trials(
    cuda: str | None,
    gpus: float,
    refused: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    trials = {"checkpoints": ("paths.runs", str(tmp_path)), "task": None, "gpus": gpus}
    assert [problem["key"] for problem in problems_here(trials, seen={})] == refused


class Cards:
    """GPUs that this machine does not have, as torch shows them."""

    def __init__(self, **capabilities: int) -> None:
        self.names = list(capabilities)
        self.capabilities = list(capabilities.values())
        self.current = 0

    @contextmanager
    def device(self, card: int) -> Iterator[None]:
        previous_card = self.current
        self.current = card
        yield
        self.current = previous_card

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or self.capabilities[self.current] >= 8

    def put(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(self.names))
        monkeypatch.setattr(
            torch.cuda,
            "get_device_properties",
            lambda card: SimpleNamespace(total_memory=16 * 2**30),
        )
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda card: self.names[card])
        monkeypatch.setattr(torch.cuda, "device", self.device)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", self.is_bf16_supported)


@pytest.mark.parametrize("verb", [("plan", "--check"), ("sweep",), ("train",)])
def test_cards_without_bfloat16_are_refused_by_name(
    verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cards(A100=8, V100=7, T4=7, P100=6).put(monkeypatch)
    message = refusal(tmp_path, *verb, "scale=paper", "cluster=gpu")
    assert "train.precision" in message
    assert (
        "is bf16, but V100, T4, P100 cannot compute in it must be fp32 below compute capability 8.0"
        in message
    )
    assert "A100" not in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        (Cards(V100=7), ["cluster=gpu", "train.precision=fp32"]),
        (Cards(V100=7), ["cluster=local"]),
        (Cards(A100=8, H200=9), ["cluster=gpu"]),
    ],
)
def test_other_cards_and_precisions_are_not_refused(
    cards: Cards, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards.put(monkeypatch)
    outcome = typed(
        tmp_path,
        "plan",
        "--check",
        "scale=paper",
        "sweep.rows=[base]",
        "cluster.cpus_per_worker=1",
        *words,
    )
    assert outcome.exit_code == 0, outcome.output
