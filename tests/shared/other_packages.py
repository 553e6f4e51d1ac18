"""A machine with other packages than the rest."""

import shutil
import sys
import sysconfig
import venv
from pathlib import Path

from machines import Machine

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


def without_ours(machine: Machine) -> Machine:
    """For ``python_without_ours``."""
    machine.env["PYTHONPATH"] = ""
    return machine


def python_without_ours(folder: Path) -> str:
    """A Python with the packages of this one, but those that are installed by a link: an own .pth
    file is read, not those in the folder that it names.
    """
    venv.create(folder, symlinks=True)
    ours = PROJECT
    pythons = Path(sys.base_prefix)
    search_paths = [
        entry
        for entry in sys.path
        if not {ours, pythons} & {*Path(entry).resolve().parents, Path(entry)}
    ]
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "packages.pth").write_text(
        "\n".join([sysconfig.get_path("purelib"), *filter(None, search_paths)])
    )
    return str(folder / "bin" / "python")
