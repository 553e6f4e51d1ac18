"""The matmuls of a trial, and that float32 stays float32."""

from dataclasses import replace

import torch
from small_trials import SMALL

from transformer.config import ModelConfig, Precision
from transformer.training.precision import FLOAT32_LIKE, WORTH_IT, fast_matmuls, matmul_error

CPU = torch.device("cpu")
WIDE = replace(SMALL, d_model=WORTH_IT)
MATMUL = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def test_float32_matmuls_stay_float32_in_any_library() -> None:
    assert matmul_error() < FLOAT32_LIKE
    with fast_matmuls(WIDE, "fp32", CPU):
        assert matmul_error() < FLOAT32_LIKE


def test_the_check_would_detect_bfloat16() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert matmul_error() > 10 * FLOAT32_LIKE


def test_only_wide_models_in_float32_switch_and_the_switch_is_restored() -> None:
    before = MATMUL.fp32_precision
    MATMUL.fp32_precision = "bf16"
    expected = "bf16" if matmul_error() < FLOAT32_LIKE else before  # a CPU with AMX rounds
    MATMUL.fp32_precision = before
    seen = []
    cases: list[tuple[ModelConfig, Precision]] = [(SMALL, "fp32"), (WIDE, "bf16"), (WIDE, "fp32")]
    for model, precision in cases:
        with fast_matmuls(model, precision, CPU):
            seen.append(MATMUL.fp32_precision)
        assert MATMUL.fp32_precision == before
    assert seen == [before, before, expected]
