"""Errors of a worker that another attempt may not have: a peer, memory, storage or the GPU was lost."""

import errno
import re
import sys

from sweeps.processes.storage import AWAY, BUSY, StorageError

UNREACHABLE = re.compile(
    r"\bgloo\b|\bnccl|Connection (closed|reset|refused)|EADDRINUSE|Address already in use|TCPStore|rendezvous", re.I
)
NO_MEMORY = re.compile(r"can't allocate memory|not enough memory|CUDA out of memory|cannot allocate memory", re.I)
LOST_GPU = re.compile(
    r"uncorrectable (NVLink|ECC) error|fallen off the bus|GPU is lost|busy or unavailable|no CUDA-capable device"
    r"|No CUDA GPUs are available|driver initialization failed|system not yet initialized",
    re.I,
)
"""What CUDA and torch say of a device that fails whatever runs on it. A kernel's own faults have other words."""


def is_lost_peer(error: BaseException) -> bool:
    """Whether it only tells that another worker is lost or failed, or that torch.distributed could not take a port."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None:
        return False
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return True
    unreachable = isinstance(error, RuntimeError) and UNREACHABLE.search(str(error)) is not None
    return isinstance(error, distributed.DistError) or unreachable


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of the machine or of the GPU. torch's own error has no type of its own on a CPU."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, MemoryError) or "OutOfMemoryError" in kinds:
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and NO_MEMORY.search(str(error)) is not None


def is_lost_gpu(error: BaseException) -> bool:
    """Whether the GPU cannot be used, whatever the trial computes there."""
    return isinstance(error, RuntimeError) and LOST_GPU.search(str(error)) is not None


def is_lost_storage(error: BaseException) -> bool:
    """Whether a file, such as one of the data, could not be reached. A StorageError was tried again for long enough."""
    away = isinstance(error, OSError) and error.errno in AWAY | BUSY
    return away and not isinstance(error, StorageError)
