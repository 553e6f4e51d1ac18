"""The arithmetics compared, and the speed and error of their matmuls on this machine."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

SHAPES = {  # rows, inputs, outputs of the matmuls that dominate base
    "feed-forward": (2000, 512, 2048),
    "attention projection": (2000, 512, 512),
    "logits": (500, 512, 8000),
}
REPEATS = 9


class Arithmetic(StrEnum):
    """Plain float32 of torch; float32 with matmuls in oneDNN by one switch; bfloat16 by
    autocast."""

    FP32 = "fp32"
    ONEDNN = "fp32, oneDNN"
    BF16 = "bf16"

    @property
    def precision(self) -> Literal["fp32", "bf16"]:
        """The value of ``train.precision``."""
        return "bf16" if self is Arithmetic.BF16 else "fp32"

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set the switch, on or off, and restore it, so that no measured program affects
        another."""
        matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
        old_precision = matmul.fp32_precision
        matmul.fp32_precision = "bf16" if self is Arithmetic.ONEDNN else "none"
        try:
            yield
        finally:
            matmul.fp32_precision = old_precision


def calibrate(shapes: dict[str, tuple[int, int, int]] = SHAPES) -> list[dict[str, Any]]:
    """GFLOP/s (CPU seconds, median) and error (L2 norm, relative to float64) of each matmul in each
    arithmetic."""
    return [
        _calibrated(name, shape, arithmetic)
        for name, shape in shapes.items()
        for arithmetic in Arithmetic
    ]


def best_rates(calibration: list[dict[str, Any]]) -> dict[str, float]:
    """FLOP/s of the fastest matmul of each arithmetic, the reference for mfu."""
    rates: dict[str, float] = {}
    for arithmetic in Arithmetic:
        gflops = [line["gflops"] for line in calibration if line["arithmetic"] == arithmetic]
        rates[arithmetic] = max(gflops) * 1e9
    return rates


def _calibrated(name: str, shape: tuple[int, int, int], arithmetic: Arithmetic) -> dict[str, Any]:
    rows, inputs, outputs = shape
    random = torch.Generator().manual_seed(1)
    x, weight = (torch.randn(n, inputs, generator=random) for n in (rows, outputs))
    exact = x.double() @ weight.double().T
    if arithmetic is Arithmetic.BF16:
        x = x.bfloat16()
        weight = weight.bfloat16()
    with arithmetic.applied():
        product = F.linear(x, weight)
        seconds = _seconds(x, weight)
    error = float((product.double() - exact).norm() / exact.norm())
    gflops = 2 * rows * inputs * outputs / seconds / 1e9
    return {
        "matmul": name,
        "shape": list(shape),
        "arithmetic": arithmetic,
        "gflops": gflops,
        "error": error,
    }


def _seconds(x: Tensor, weight: Tensor) -> float:
    durations = []
    for _ in range(REPEATS):
        began = time.process_time()
        F.linear(x, weight)
        durations.append(time.process_time() - began)
    return median(durations)
