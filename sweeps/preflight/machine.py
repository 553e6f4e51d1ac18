"""What this machine has, and whether it can run a study."""

import importlib
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.config.settings import Cluster
from sweeps.problems import Problem
from tracking.words import count_of

GIB = 2**30
ROUNDING = 1e-6
CGROUP = Path("/sys/fs/cgroup")


def cpus() -> int:
    """The number of CPUs that this process may use, within its container's limit."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    return count


def memory() -> int:
    """Bytes of memory, within this container's limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # "max" is no number
        total = min(total, int((CGROUP / "memory.max").read_text()))
    return total


def fitting_workers(cluster: Cluster, resources: Mapping[str, float]) -> int:
    """How many workers fit on a machine with these resources."""
    needs = cluster.needs.items()
    return min(shares(resources.get(resource, 0.0), amount) for resource, amount in needs)


def shares(total: float, amount: float) -> int:
    """How many shares of ``amount`` fit: five of 0.2 in 1, although 1 // 0.2 is 4."""
    return int(total / amount + ROUNDING)


def gpu_memories() -> list[int]:
    """The memory of each GPU visible to CUDA, in bytes. Imports torch."""
    import torch

    gpus = range(torch.cuda.device_count())
    return [torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus]


def gpu_problems() -> list[Problem]:
    """A torch without CUDA, which would train on the CPU in silence whatever GPUs Ray assigns.
    Imports torch."""
    import torch

    if torch.version.cuda or torch.version.hip:
        return []
    found = f"is set, but torch {torch.__version__} is a build for CPUs"
    return [
        Problem("cluster.gpus_per_worker", found, "install a CUDA build of torch, or set it to 0")
    ]


def cards_without_bf16() -> list[str]:
    """The names of this machine's GPUs that lack bfloat16: those below compute capability 8.0.
    Imports torch."""
    import torch

    lacking = list[str]()
    for card in range(torch.cuda.device_count()):
        with torch.cuda.device(card):
            if not torch.cuda.is_bf16_supported(including_emulation=False):
                lacking.append(torch.cuda.get_device_name(card))
    return lacking


EXAMINED_PACKAGES = ("hydra-core", "torch", "ray", "mlflow", "sentencepiece", "sacrebleu")


@dataclass(frozen=True)
class Examined:
    """The result of one check, such as ("Python", "failed", "3.10.4", "install Python 3.11 or
    newer")."""

    what: str
    state: Literal["ok", "warning", "failed"]
    found: str
    advice: str = ""


def examine() -> list[Examined]:
    """Check Python, packages, devices, memory, disk and the files of ``conf/``."""
    memory_advice = "a sweep needs 1 GB per trial plus 2 GB for Ray and MLflow"
    disk_advice = "point paths.runs and paths.data elsewhere"
    free_disk = shutil.disk_usage(Path.cwd()).free
    return [
        _examine_python(),
        *map(_examine_package, EXAMINED_PACKAGES),
        _examine_devices(),
        _examine_size("memory", memory(), 4 * GIB, memory_advice),
        _examine_size("free disk here", free_disk, 2 * GIB, disk_advice),
        _examine_configuration(),
    ]


def examination_table(results: list[Examined]) -> Table:
    table = Table(title="What this machine has", title_justify="left", box=box.SIMPLE_HEAD)
    for title in ("", "state", "found", "what to do"):
        table.add_column(title, overflow="fold")
    styles = {"ok": "green", "warning": "yellow", "failed": "bold red"}
    for result in results:
        state = f"[{styles[result.state]}]{result.state}[/]"
        table.add_row(result.what, state, escape(result.found), escape(result.advice))
    return table


def _examine_python() -> Examined:
    python = ".".join(map(str, sys.version_info[:3]))
    is_too_old = sys.version_info < (3, 11)
    if is_too_old:
        return Examined("Python", "failed", python, "install Python 3.11 or newer")
    return Examined("Python", "ok", python)


def _examine_package(name: str) -> Examined:
    module = "hydra" if name == "hydra-core" else name
    try:
        importlib.import_module(module)
    except ImportError as error:
        return Examined(name, "failed", str(error), "pip install 'allelse[run]'")
    return Examined(name, "ok", version(name))


def _examine_devices() -> Examined:
    cores = f"{cpus()} CPU cores"
    try:
        import torch
    except ImportError:
        return Examined("devices", "warning", cores, "GPUs are unknown without torch")
    gpus = [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())]
    if not gpus:
        return Examined("devices", "ok", f"no GPU; {cores}")
    return Examined("devices", "ok", f"{', '.join(gpus)}; {cores}", "use cluster=gpu")


def _examine_size(subject: str, size: int, least: int, advice: str) -> Examined:
    """The bytes of memory or of a disk; a warning with the advice if they are fewer than
    ``least``."""
    gibibytes = f"{size / GIB:.0f} GiB"
    if size < least:
        return Examined(subject, "warning", gibibytes, advice)
    return Examined(subject, "ok", gibibytes)


def _examine_configuration() -> Examined:
    """Whether all rows of the default sweep compose, for each task of this folder."""
    from sweeps.config.tasks import DEFAULT_TASK, tasks_in
    from sweeps.planning.study_rows.compose import compose_sweep
    from sweeps.planning.study_rows.task_choice import library_of
    from sweeps.problems import RefusedError

    rows = 0
    for name in tasks_in(Path.cwd()) or [DEFAULT_TASK]:
        task = [f"task={name}"]
        try:
            rows += len(compose_sweep(task, library_of(task, Path.cwd())).rows)
        except RefusedError as error:
            return Examined("conf", "failed", str(error.problems[0]), "fix this file")
    return Examined("conf", "ok", f"{count_of(rows, 'row')} compose{'s' if rows == 1 else ''}")
