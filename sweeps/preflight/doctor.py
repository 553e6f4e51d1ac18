"""Can this machine run a study? Each finding is checked, not assumed."""

import importlib
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.preflight.nodes import GIB, cpus, memory

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
    return [_python(), *map(_package, EXAMINED_PACKAGES), _devices(), _memory(), _disk(Path.cwd()), _configuration()]


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
    try:
        import torch
    except ImportError:
        return Examined("devices", "warning", f"{cpus()} CPU cores", "GPUs are unknown without torch")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    cores = f"{cpus()} CPU cores"
    if gpus:
        return Examined("devices", "ok", f"{', '.join(gpus)}; {cores}", "use cluster=gpu")
    return Examined("devices", "ok", f"no GPU, {cores}")


def _memory() -> Examined:
    total = memory()
    small = total < 4 * GIB
    advice = "a sweep needs 1 GB per trial plus 2 GB for Ray and MLflow" if small else ""
    return Examined("memory", "warning" if small else "ok", f"{total / GIB:.0f} GiB", advice)


def _disk(folder: Path) -> Examined:
    free = shutil.disk_usage(folder).free
    small = free < 2 * GIB
    advice = "point paths.runs and paths.data to a larger disk" if small else ""
    return Examined("disk here", "warning" if small else "ok", f"{free / GIB:.0f} GiB free", advice)


def _configuration() -> Examined:
    from sweeps.planning.compose import compose_sweep
    from sweeps.schema import RefusedError

    try:
        rows = len(compose_sweep([]).rows)
    except RefusedError as error:
        return Examined("conf", "failed", str(error.problems[0]), "fix this file")
    return Examined("conf", "ok", f"{rows} rows compose")
