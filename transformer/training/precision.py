"""The precision of a trial: matmuls in float32 or bfloat16, everything else in float32.

Weights, moments, softmax and loss never change precision. Freed memory stays in the process, since
every step allocates the same blocks.
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
"""The least d_model for which oneDNN's float32 matmuls are faster than MKL's.

Below it, the cost per call outweighs the gain. MKL takes its fastest path only on Intel CPUs. These
are constants, not measured at each start, since a resumed trial must compute the same bits.
"""
KERNEL_CACHE_SIZE = 128
"""How many kernels oneDNN caches; its default is 1 024, up to a megabyte each.

The layers of a block share their kernels; the next block has a different shape and needs new ones.
oneDNN reads this number at its first matmul.
"""
FLOAT32_LIKE = 1e-5
"""A matmul with at most this relative error counts as float32.

float32 has an error of about 3e-7, bfloat16 of about 3e-3.
"""


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which matmuls run at ``precision``."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raises FaultyError for a GPU that lacks bfloat16: torch would emulate it, slowly."""
    if (
        precision != "bf16"
        or device.type != "cuda"
        or torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        return
    found = f"is bf16, but {torch.cuda.get_device_name(device)} cannot compute in it"
    raise FaultyError(Fault("train.precision", found, "must be fp32 below compute capability 8.0"))


@contextmanager
def efficient(model: ModelConfig, precision: Precision, device: torch.device) -> Iterator[None]:
    """A context in which matmuls are as fast as the precision allows.

    Freed memory stays with the process.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNEL_CACHE_SIZE))
    with (
        fast_matmuls(model, precision, device),
        retained_memory(),
        torch_attention(device),
        full_float32(precision),
    ):
        yield


@contextmanager
def torch_attention(device: torch.device) -> Iterator[None]:
    """A context in which attention on a GPU uses torch's own kernels instead of cuDNN's.

    cuDNN builds a plan for each new shape, and shapes rarely repeat: each decoding step reads one
    more piece.
    """
    was_enabled = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        if device.type == "cuda":
            torch.backends.cuda.enable_cudnn_sdp(False)
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was_enabled)


@contextmanager
def full_float32(precision: Precision) -> Iterator[None]:
    """A context in which cuDNN's convolutions and LSTMs of an ``fp32`` trial compute in float32.

    By default they round their inputs to TF32, which has 10 bits of mantissa.
    """
    initially_allowed = torch.backends.cudnn.allow_tf32
    try:
        if precision == "fp32":
            torch.backends.cudnn.allow_tf32 = False
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = initially_allowed


@contextmanager
def fast_matmuls(model: ModelConfig, precision: Precision, device: torch.device) -> Iterator[None]:
    """A context in which float32 matmuls on the CPU use oneDNN if it is faster and as precise.

    The switch also allows oneDNN to round to bfloat16, which it does on CPUs with AMX. So the error
    of a matmul is measured, and the switch is set back if it is too large.
    """
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    initial_precision = matmul.fp32_precision
    try:
        if device.type == "cpu" and precision == "fp32" and model.d_model >= onednn_from():
            matmul.fp32_precision = "bf16"
            if matmul_error() > FLOAT32_LIKE:
                matmul.fp32_precision = initial_precision
        yield
    finally:
        matmul.fp32_precision = initial_precision


@cache
def onednn_from() -> int:
    """The least d_model for oneDNN's float32 matmuls on this machine."""
    cpu_info = Path("/proc/cpuinfo")
    is_amd = cpu_info.exists() and "AuthenticAMD" in cpu_info.read_text()
    return WORTH_IT if is_amd else WORTH_IT_ON_INTEL


def matmul_error() -> float:
    """Relative error (L2) of a float32 matmul on this machine, with torch's current settings."""
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(256, 256, generator=generator)
    b = torch.randn(256, 256, generator=generator)
    exact = a.double() @ b.double()
    return float(((a @ b).double() - exact).norm() / exact.norm())


_TRIM_THRESHOLD = -1  # parameter numbers of glibc's malloc.h
_MMAP_THRESHOLD = -3
_MIB = 2**20


@contextmanager
def retained_memory() -> Iterator[None]:
    """A context in which this process keeps freed memory, except blocks over 32 MiB.

    By default, free memory beyond 64 MiB goes back to the system. Every step then gets it back page
    by page, zeroed. Without glibc nothing changes.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        yield
        return
    # glibc stops adjusting this threshold once the other one is set: set it to its upper limit.
    libc.mallopt(_MMAP_THRESHOLD, 32 * _MIB)
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, 64 * _MIB)  # the upper limit to which glibc adjusts it
        libc.malloc_trim(0)
