"""What this machine has: CPUs, memory and GPUs that this process may use."""

import os
from contextlib import suppress
from pathlib import Path

GIB = 2**30
CGROUP = Path("/sys/fs/cgroup")


def cpus() -> int:
    """CPUs that this process may run on, within the limit of its container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            allowed = min(allowed, max(1, int(quota) // int(period)))
    return allowed


def memory() -> int:
    """Bytes of memory, within the limit of this container."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # "max" is no number
        total = min(total, int((CGROUP / "memory.max").read_text()))
    return total


def gpu_memories() -> list[int]:
    """Bytes of each GPU that CUDA shows. Imports torch."""
    import torch

    return [torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count())]
