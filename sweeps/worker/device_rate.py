"""What a device sustains, in FLOP/s: typed, from the task's own table, or measured by one matmul.

The paper counts training FLOPs so: time × devices × what a device sustains.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Literal

DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""torch's types by precision. Another precision is not measured."""
SIZES = {"cpu": 1024, "cuda": 4096}
"""Rows and columns of the matrices: large enough for the full rate, short on any device."""
CALLS = {"cpu": 1, "cuda": 20}
ROUNDS = 6
"""The fastest one counts: other processes may disturb the others."""


@dataclass(frozen=True)
class DeviceRate:
    """FLOP/s of one device: a GPU, or the CPUs of one worker.

    ``threads`` and ``precision`` describe the matmul; they are None for a rate that was typed or
    taken from a table.
    """

    flops_per_s: float
    source: Literal["typed", "table", "measured"]
    precision: str | None = None
    threads: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For provenance.json, without what is None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def typed_rate(tflops: float) -> DeviceRate:
    return DeviceRate(tflops * 1e12, "typed")


def measured_rate(precision: str) -> DeviceRate | None:
    """By a matmul with the arithmetic that this process uses now, once per process, in about 0.2 s.

    None unless the task has imported torch, and for a precision that is not in ``DTYPES``.
    """
    torch = sys.modules.get("torch")
    if torch is None or precision not in DTYPES:
        return None
    device = "cuda" if torch.cuda.is_initialized() else "cpu"
    try:
        return _measured(precision, device, torch.get_num_threads() if device == "cpu" else None)
    except (RuntimeError, NotImplementedError):
        # such as a GPU without room: training continues without a rate
        return None


@cache
def _measured(precision: str, device: str, threads: int | None) -> DeviceRate:
    import torch

    size = SIZES[device]
    calls = CALLS[device]
    # of its own: the task's random numbers stay as they are
    generator = torch.Generator().manual_seed(1)
    matrices = [torch.randn(size, size, generator=generator, device="cpu") for _ in range(2)]
    a, b = (matrix.to(device, getattr(torch, DTYPES[precision])) for matrix in matrices)

    def multiply() -> None:
        for _ in range(calls):
            torch.mm(a, b)
        if device == "cuda":
            torch.cuda.synchronize()

    clock = time.perf_counter if threads is None else partial(_cpu_seconds, threads)
    with torch.no_grad():
        seconds = min(_timed(multiply, clock) for _ in range(ROUNDS))
    return DeviceRate(2.0 * size**3 * calls / seconds, "measured", precision, threads)


def _cpu_seconds(threads: int) -> float:
    """Of each thread: other processes on the same cores do not count."""
    return time.process_time() / threads


def _timed(act: Callable[[], None], clock: Callable[[], float]) -> float:
    began = clock()
    act()
    return clock() - began
