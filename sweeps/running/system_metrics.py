"""CPU, memory and GPU while a trial runs, under the names that MLflow shows as system metrics.

They are added to rank zero's reports on their way to the journal. Neither the task nor its checkpoints see them.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import psutil

from sweeps.events import Event, Metrics, Report

EVERY_S = 10.0
"""As often as MLflow samples by default; each metric is a point in its database."""


def with_system_metrics(events: Iterable[Event]) -> Iterator[Event]:
    """The events of rank zero. Its first report has system metrics, and later ones at most every ``EVERY_S`` seconds.

    A metric that the task reports by the same name stays the task's.
    """
    _cpu()  # the load is measured from here to the first report
    due = -math.inf
    for event in events:
        if isinstance(event, Report) and time.monotonic() >= due:
            due = time.monotonic() + EVERY_S
            event = replace(event, metrics={**system_metrics(), **event.metrics})
        yield event


def system_metrics() -> Metrics:
    """Of this machine since the last call, and of this process's GPU. What the machine does not tell is missing."""
    return {f"system/{name}": round(value, 1) for name, value in (_cpu() | _gpu()).items()}


def _cpu() -> Metrics:
    try:
        load, memory = psutil.cpu_percent(), psutil.virtual_memory()
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
    found = _memory(f"gpu_{device}", total - free, total)
    try:
        return found | {f"gpu_{device}_utilization_percentage": float(torch.cuda.utilization(device))}
    except Exception:  # without nvidia-ml-py, or on a part of a GPU: torch raises many types of errors
        return found


def _memory(name: str, used: int, total: int) -> Metrics:
    return {f"{name}_memory_usage_megabytes": used / 1e6, f"{name}_memory_usage_percentage": 100 * used / total}
