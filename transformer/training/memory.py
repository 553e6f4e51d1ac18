"""Keeps freed memory in the process, since every step allocates the same blocks."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

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
