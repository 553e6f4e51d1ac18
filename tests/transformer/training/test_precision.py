"""The matmuls of a trial, and that float32 stays float32."""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_trials import SMALL, random_pairs, small_trial

from transformer.config import ModelConfig, Precision
from transformer.data.batches import TrainingBatches
from transformer.faults import FaultyError
from transformer.training import precision as precisions
from transformer.training.precision import (
    FLOAT32_LIKE,
    check_precision,
    efficient,
    fast_matmuls,
    matmul_error,
    onednn_from,
)
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

CPU = torch.device("cpu")
WIDE = replace(SMALL, d_model=onednn_from())
MATMUL = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def test_float32_matmuls_stay_float32_in_any_library() -> None:
    assert matmul_error() < FLOAT32_LIKE
    with fast_matmuls(WIDE, "fp32", CPU):
        assert matmul_error() < FLOAT32_LIKE


def test_the_check_would_detect_bfloat16() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert matmul_error() > 10 * FLOAT32_LIKE


def test_only_wide_models_in_float32_switch_and_the_switch_is_restored() -> None:
    old_precision = MATMUL.fp32_precision
    MATMUL.fp32_precision = "bf16"
    expected = "bf16" if matmul_error() < FLOAT32_LIKE else old_precision  # a CPU with AMX rounds
    MATMUL.fp32_precision = old_precision
    precisions = []
    cases: list[tuple[ModelConfig, Precision]] = [(SMALL, "fp32"), (WIDE, "bf16"), (WIDE, "fp32")]
    for model, precision in cases:
        with fast_matmuls(model, precision, CPU):
            precisions.append(MATMUL.fp32_precision)
        assert MATMUL.fp32_precision == old_precision
    assert precisions == [old_precision, old_precision, expected]


@pytest.mark.parametrize(("precision", "allowed"), [("fp32", False), ("bf16", True)])
def test_cudnn_rounds_to_tf32_only_in_bfloat16_trials(precision: Precision, allowed: bool) -> None:
    assert torch.backends.cudnn.allow_tf32
    with efficient(SMALL, precision, CPU):
        assert torch.backends.cudnn.allow_tf32 is allowed
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(("vendor", "d_model"), [("AuthenticAMD", 128), ("GenuineIntel", 256)])
def test_amd_takes_onednn_for_narrower_models(
    vendor: str, d_model: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the vendor, not by a clock: a resumed trial takes the same matmuls."""
    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setattr(Path, "read_text", lambda path: f"vendor_id : {vendor}")
    assert onednn_from.__wrapped__() == d_model


def test_onednn_keeps_few_kernels_unless_the_user_sets_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capacity = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.delenv(capacity, raising=False)
    with efficient(SMALL, "fp32", CPU):
        assert 0 < int(os.environ[capacity]) < 1024
    monkeypatch.setenv(capacity, "7")
    with efficient(SMALL, "fp32", CPU):
        assert os.environ[capacity] == "7"


def losses_of_40_steps(onednn_from_width: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Of a model of d_model 128, whose float32 matmuls go through oneDNN from this width."""
    monkeypatch.setattr(precisions, "onednn_from", lambda: onednn_from_width)
    trial = small_trial(model=replace(SMALL, d_model=128, d_ff=256, p_drop=0.1), warmup_steps=1000)
    batches = TrainingBatches(random_pairs(200), 300, trial.model.max_positions, 1)
    worker = Worker()
    with efficient(trial.model, "fp32", CPU):
        state = start(trial, 30, CPU)
        forward_backward = make_forward_backward(state.model, trial)
        steps = [batches.micro_batches(step, 0, 1, 8_000) for step in range(1, 41)]
        return [
            train_step(state, step, trial, worker, forward_backward).loss.item() for step in steps
        ]


def test_both_libraries_train_alike_over_40_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    through_onednn = losses_of_40_steps(128, monkeypatch)
    assert through_onednn == losses_of_40_steps(128, monkeypatch), (
        "the same library gives the same bits"
    )
    assert through_onednn == pytest.approx(losses_of_40_steps(10_000, monkeypatch), rel=0, abs=1e-5)
    assert through_onednn[-1] < through_onednn[0]


@pytest.mark.parametrize(
    ("precision", "device", "is_refused"),
    [("bf16", "cuda", True), ("fp32", "cuda", False), ("bf16", "cpu", False)],
)
def test_a_card_without_bfloat16_is_refused_by_name_before_training(
    precision: Precision, device: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100")
    expected = pytest.raises(
        FaultyError, match=r"train\.precision: is bf16, but Tesla V100 .* must be fp32"
    )
    with expected if is_refused else nullcontext():
        check_precision(precision, torch.device(device))
