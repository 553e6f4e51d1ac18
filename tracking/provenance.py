"""Where a result comes from: code, versions, machine, data."""

import os
import platform
import shlex
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tracking.uri import without_password

DISTRIBUTION = "ablate-sweeps"
PACKAGES = {
    **{name: name for name in ("torch", "ray", "mlflow", "hydra-core", "sentencepiece", "sacrebleu")},
    "ablate": DISTRIBUTION,
}


def collect(device: str, data_fingerprint: str, hosts: tuple[str, ...] = ()) -> dict[str, Any]:
    """The content of `provenance.json`. An unknown entry is None; versions are read without importing the packages.

    ``hosts`` are the machines that train, if these are known; ``driver`` is the one of this process.
    """
    here = socket.gethostname()
    commit, dirty = _git_state(Path(__file__).resolve())
    return {
        "commit": commit,
        "dirty": dirty,
        "versions": {"python": platform.python_version(), **{name: _version(PACKAGES[name]) for name in PACKAGES}},
        "host": next(iter(hosts), here),
        "hosts": sorted({*hosts}) or [here],
        "driver": here,
        "cpu": {"model": _cpu_model(), "count": os.cpu_count()},
        "device": device,
        "data_fingerprint": data_fingerprint,
        "command": shlex.join(map(without_password, [sys.executable, *sys.argv])),
    }


def own_version() -> str | None:
    """The installed version of ablate; None where it only lies on the path."""
    return _version(DISTRIBUTION)


def _git_state(source: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that tracks `source`, and whether it has changes; (None, None) without a checkout.

    A wheel installed inside another repository must not get that repository's commit.
    """
    tracked = _git(source.parent, "ls-files", "--error-unmatch", source.name)
    commit = _git(source.parent, "rev-parse", "HEAD")
    if tracked is None or commit is None:
        return None, None
    status = _git(source.parent, "status", "--porcelain")
    return commit, None if status is None else bool(status)


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
