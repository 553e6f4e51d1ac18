"""Arithmetic of a trial: matmuls in float32 or bfloat16; weights, moments, softmax and loss always in float32.

Freed memory stays in the process meanwhile, since every step allocates the same blocks.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

from transformer.config import ModelConfig, Precision
from transformer.faults import Fault, FaultyError

WORTH_IT_ON_INTEL = 256
WORTH_IT = 128
"""d_model from which oneDNN's float32 matmuls are faster than MKL's, which takes its fastest path on Intel CPUs only.

Below it, the cost per call outweighs the gain. No clock decides: a resumed trial must compute the same bits.
"""
KERNELS_KEPT = 128
"""Kernels that oneDNN keeps; by default 1 024, up to a megabyte each. A block's layers share them, the next block has
another shape and needs its own. oneDNN reads this number at its first matmul."""
FLOAT32_LIKE = 1e-5
"""Largest relative error of a matmul that counts as float32: float32 has about 3e-7, bfloat16 about 3e-3."""


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which matmuls run at ``precision``."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raises FaultyError for a GPU that lacks bfloat16: torch would emulate it, slowly."""
    if precision != "bf16" or device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False):
        return
    found = f"is bf16, but {torch.cuda.get_device_name(device)} cannot compute in it"
    raise FaultyError(Fault("train.precision", found, "must be fp32 below compute capability 8.0"))


@contextmanager
def efficient(model: ModelConfig, precision: Precision, device: torch.device) -> Iterator[None]:
    """A context in which matmuls are as fast as the precision allows, and freed memory stays with the process."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS_KEPT))
    with fast_matmuls(model, precision, device), kept_memory(), own_attention(device):
        yield


@contextmanager
def own_attention(device: torch.device) -> Iterator[None]:
    """A context in which attention on a GPU uses torch's own kernels.

    cuDNN builds a plan for each new shape, and shapes rarely repeat: a decoding step reads a piece more than the last.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        if device.type == "cuda":
            torch.backends.cuda.enable_cudnn_sdp(False)
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@contextmanager
def fast_matmuls(model: ModelConfig, precision: Precision, device: torch.device) -> Iterator[None]:
    """A context in which float32 matmuls on the CPU use oneDNN if that is faster and loses no precision.

    The switch also allows oneDNN to round to bfloat16. It does so on CPUs with AMX, which is why it is checked.
    """
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    try:
        if device.type == "cpu" and precision == "fp32" and model.d_model >= onednn_from():
            matmul.fp32_precision = "bf16"
            if matmul_error() > FLOAT32_LIKE:
                matmul.fp32_precision = before
        yield
    finally:
        matmul.fp32_precision = before


@cache
def onednn_from() -> int:
    """The least d_model for oneDNN's float32 matmuls on this machine."""
    cpu_info = Path("/proc/cpuinfo")
    is_amd = cpu_info.exists() and "AuthenticAMD" in cpu_info.read_text()
    return WORTH_IT if is_amd else WORTH_IT_ON_INTEL


def matmul_error() -> float:
    """Relative error (L2) of a float32 matmul on this machine, with torch's current settings."""
    drawn = torch.Generator().manual_seed(1)
    a, b = (torch.randn(256, 256, generator=drawn) for _ in range(2))
    exact = a.double() @ b.double()
    return float(((a @ b).double() - exact).norm() / exact.norm())


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_MIB = 2**20


@contextmanager
def kept_memory() -> Iterator[None]:
    """A context in which this process keeps freed memory, except blocks over 32 MiB; without glibc nothing changes.

    By default, free memory beyond 64 MiB goes back to the system, and returns page by page and zeroed at every step.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, 32 * _MIB)  # glibc's upper limit of adjusting, which the other option stops
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, 64 * _MIB)  # glibc's upper limit of adjusting
        libc.malloc_trim(0)
