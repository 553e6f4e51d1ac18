"""CPU and memory of this machine, and the GPU that this process uses, as MLflow names them."""

import math
import os
import platform
import sys
import time

import psutil

from sweeps.processes.events import Metrics
from sweeps.processes.times import SAMPLED_EVERY_S
from tracking.provenance import WORKERS


class SystemMetrics:
    """At most every ``SAMPLED_EVERY_S`` a report has them."""

    def __init__(self) -> None:
        self._due = -math.inf
        _cpu()  # the load is measured from here to the first report

    def with_metrics(self, metrics: Metrics) -> Metrics:
        """A metric that the task reports by the same name stays the task's."""
        if time.monotonic() < self._due:
            return metrics
        self._due = time.monotonic() + SAMPLED_EVERY_S
        measured = _cpu() | _gpu()
        return {f"system/{name}": round(value, 1) for name, value in measured.items()} | metrics


def _cpu() -> Metrics:
    try:
        load = psutil.cpu_percent()
        memory = psutil.virtual_memory()
    except (OSError, psutil.Error):  # a container without /proc
        return {}
    return {"cpu_utilization_percentage": load, **_memory("system", memory.used, memory.total)}


def _gpu() -> Metrics:
    """Of the GPU that torch uses here; {} if this process uses none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    device = torch.cuda.current_device()
    free, total = torch.cuda.mem_get_info(device)
    memory = _memory(f"gpu_{device}", total - free, total)
    try:
        return memory | {
            f"gpu_{device}_utilization_percentage": float(torch.cuda.utilization(device))
        }
    except Exception:
        # without nvidia-ml-py, or on a part of a GPU: torch raises many types of errors
        return memory


def _memory(name: str, used: int, total: int) -> Metrics:
    return {
        f"{name}_memory_usage_megabytes": used / 1e6,
        f"{name}_memory_usage_percentage": 100 * used / total,
    }


def device(world: int) -> str:
    """What the workers train on, such as "NVIDIA H100 × 2"."""
    torch = sys.modules.get("torch")
    gpu = (
        torch is not None
        and torch.cuda.is_available()
        and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    )
    model = (
        torch.cuda.get_device_name() if torch is not None and gpu else f"cpu ({platform.machine()})"
    )
    return model if world == 1 else f"{model}{WORKERS}{world}"
