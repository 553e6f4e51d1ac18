"""Errors of a worker that another attempt may not have: a peer is gone, no memory was left, storage was away."""

import errno
import re
import sys

from transformer.processes.storage import AWAY, BUSY, StorageError

UNREACHABLE = re.compile(
    r"\bgloo\b|\bnccl|Connection (closed|reset|refused)|EADDRINUSE|Address already in use|TCPStore|rendezvous", re.I
)
NO_MEMORY = re.compile(r"can't allocate memory|not enough memory|CUDA out of memory|cannot allocate memory", re.I)


def is_lost_peer(error: BaseException) -> bool:
    """Whether torch.distributed, in a process that has it, could not reach another worker or take its port."""
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


def is_lost_storage(error: BaseException) -> bool:
    """Whether a file, such as one of the data, could not be reached. A StorageError was tried again for long enough."""
    away = isinstance(error, OSError) and error.errno in AWAY | BUSY
    return away and not isinstance(error, StorageError)
