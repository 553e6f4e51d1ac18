"""Memory that a process frees and soon needs again: every step takes the same blocks."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_MIB = 2**20


@contextmanager
def kept_memory() -> Iterator[None]:
    """Within it, what this process frees stays with it, but for blocks over 32 MiB; without glibc nothing changes.

    Else whatever is free beyond 64 MiB is handed back, and comes again page by page and zeroed, at every step.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, 32 * _MIB)  # where glibc's own adjusting ends, which the other option stops
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, 64 * _MIB)  # where glibc's own adjusting ends
        libc.malloc_trim(0)
