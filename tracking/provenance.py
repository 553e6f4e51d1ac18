"""Where a result comes from: code, versions, machine, data."""

import hashlib
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tracking.uri import without_password
from tracking.words import shell_line

DISTRIBUTION = "allelse"
CODE = ("sweeps", "tracking", "transformer")
"""The packages whose files make a result. Rows and other settings are recorded with the trial."""
SHOWN = 3
"""How many changed files are named in a sentence."""
PACKAGES = {
    **{name: name for name in ("torch", "ray", "mlflow", "hydra-core", "sentencepiece", "sacrebleu")},
    "allelse": DISTRIBUTION,
}


def collect(
    device: str, data_fingerprint: str, hosts: tuple[str, ...] = (), code: tuple[str, ...] = CODE
) -> dict[str, Any]:
    """The content of `provenance.json`. An unknown entry is None; versions are read without importing the packages.

    ``hosts`` are the machines that train, if these are known; ``driver`` is the one of this process. ``code`` are the
    folders whose changes count.
    """
    here = socket.gethostname()
    commit, changed = _git_state(Path(__file__).resolve(), code)
    return {
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
        "changes": changed,
        "versions": {"python": platform.python_version(), **{name: _version(PACKAGES[name]) for name in PACKAGES}},
        "host": next(iter(hosts), here),
        "hosts": sorted({*hosts}) or [here],
        "driver": here,
        "cpu": {"model": _cpu_model(), "count": os.cpu_count()},
        "device": device,
        "data_fingerprint": data_fingerprint,
        "command": shell_line(map(without_password, [sys.executable, *sys.argv])),
    }


def prepared_place(folder: Path, task: str, fingerprint: str) -> Path:
    """Where the prepared data of this fingerprint lies below ``paths.data``."""
    return folder / task / hashlib.sha256(fingerprint.encode()).hexdigest()[:16]


def changes(provenance: Mapping[str, Any]) -> str:
    """What follows the commit: such as " with changes in sweeps/task.py"."""
    files = [str(name) for name in provenance.get("changes") or ()]
    more = [f"{len(files) - SHOWN} more"] if len(files) > SHOWN else []
    named = f" in {', '.join([*files[:SHOWN], *more])}" if files else ""
    return f" with changes{named}" if provenance.get("dirty") else ""


def own_version() -> str | None:
    """The installed version of allelse; None where it only lies on the path."""
    return _version(DISTRIBUTION)


def _git_state(source: Path, code: tuple[str, ...] = CODE) -> tuple[str | None, list[str] | None]:
    """Commit of the checkout that tracks `source`, and the changed files of ``code``; (None, None) without a checkout.

    A wheel installed inside another repository must not get that repository's commit.
    """
    tracked = _git(source.parent, "ls-files", "--error-unmatch", source.name)
    commit = _git(source.parent, "rev-parse", "HEAD")
    if tracked is None or commit is None:
        return None, None
    root = source.parent.parent
    changed = _git(root, "diff", "--name-only", "--relative", "HEAD", "--", *code)
    added = _git(root, "ls-files", "--others", "--exclude-standard", "--", *code)
    return commit, None if changed is None or added is None else sorted({*changed.splitlines(), *added.splitlines()})


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
