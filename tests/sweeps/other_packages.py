"""A machine with other packages than the rest."""

import shutil
from pathlib import Path

from machine import Machine

PROJECT = Path(__file__).resolve().parent.parent.parent


def with_others(machine: Machine, folder: Path) -> Machine:
    """One line of ours differs there, and torch has another version."""
    for name in ("sweeps", "tracking", "transformer"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "transformer" / "worker.py").open("a") as file:
        file.write("# changed\n")
    metadata = folder / "torch-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    machine.env["PYTHONPATH"] = str(folder)
    return machine
