"""This machine: what it has, and whether it can run a study. Each finding is checked, not assumed."""

import importlib
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.schema import Problem

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


def gpu_problems() -> list[Problem]:
    """A torch without CUDA, which would train on the CPU in silence whatever GPUs Ray assigns. Imports torch."""
    import torch

    if torch.version.cuda or torch.version.hip:
        return []
    found = f"is set, but torch {torch.__version__} is a build for CPUs"
    return [Problem("cluster.gpus_per_worker", found, "install a CUDA build of torch, or set it to 0")]


def cards_without_bf16() -> list[str]:
    """The names of this machine's GPUs that lack bfloat16: those below compute capability 8.0. Imports torch."""
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
    """One check: what it found, and what to do about it."""

    what: str
    state: Literal["ok", "warning", "failed"]
    found: str
    advice: str = ""


def examine() -> list[Examined]:
    """Check Python, packages, devices, memory, disk and the files of ``conf/``."""
    rooms = [
        _room("memory", memory(), 4 * GIB, "a sweep needs 1 GB per trial plus 2 GB for Ray and MLflow"),
        _room(
            "free disk here", shutil.disk_usage(Path.cwd()).free, 2 * GIB, "point paths.runs and paths.data elsewhere"
        ),
    ]
    return [_python(), *map(_package, EXAMINED_PACKAGES), _devices(), *rooms, _configuration()]


def examination_table(findings: list[Examined]) -> Table:
    table = Table(title="What this machine has", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("", "state", "found", "what to do"):
        table.add_column(name, overflow="fold")
    styles = {"ok": "green", "warning": "yellow", "failed": "bold red"}
    for finding in findings:
        state = f"[{styles[finding.state]}]{finding.state}[/]"
        table.add_row(finding.what, state, escape(finding.found), escape(finding.advice))
    return table


def _python() -> Examined:
    found = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    return Examined("Python", "failed" if old else "ok", found, "install Python 3.11 or newer" if old else "")


def _package(name: str) -> Examined:
    try:
        importlib.import_module({"hydra-core": "hydra"}.get(name, name))
    except ImportError as error:
        return Examined(name, "failed", str(error), "pip install 'allelse[run]'")
    return Examined(name, "ok", version(name))


def _devices() -> Examined:
    cores = f"{cpus()} CPU cores"
    try:
        import torch
    except ImportError:
        return Examined("devices", "warning", cores, "GPUs are unknown without torch")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Examined("devices", "ok", f"{', '.join(gpus) or 'no GPU'}; {cores}", "use cluster=gpu" if gpus else "")


def _room(what: str, size: int, least: int, advice: str) -> Examined:
    """Bytes of memory or of a disk; a warning if they are fewer than ``least``."""
    small = size < least
    return Examined(what, "warning" if small else "ok", f"{size / GIB:.0f} GiB", advice if small else "")


def _configuration() -> Examined:
    from sweeps.planning.compose import compose_sweep
    from sweeps.schema import RefusedError

    try:
        rows = len(compose_sweep([]).rows)
    except RefusedError as error:
        return Examined("conf", "failed", str(error.problems[0]), "fix this file")
    return Examined("conf", "ok", f"{rows} rows compose")
