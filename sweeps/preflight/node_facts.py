"""What a node has, and whether it is what this machine has: other files of ours, or another torch, give other results.

Ray sends ``facts`` to the nodes as it is, so that and what it calls need nothing but Python itself.
"""

import hashlib
import importlib
import importlib.util
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from sweeps.schema import Problem

OUR_PACKAGES = ("sweeps", "tracking", "transformer", "allelse")
Packages = dict[str, str | None]


def facts(question: dict[str, Any]) -> dict[str, Any]:
    """Versions, which of the question's files this node sees, and what keeps it from running the study's trials."""
    found: dict[str, Any] = packages()
    seen = {key: _sees(file) for key, file in question["files"].items()}
    found |= {"seen": seen, "problems": []}
    if found["digest"] == question["digest"]:  # else ours cannot be asked here
        asked = importlib.import_module("sweeps.preflight.nodes")
        found["problems"] = asked.problems_here(question["trials"], seen)
    return found


def _sees(file: str) -> bool:
    """Storage that cannot be read is not seen."""
    try:
        return Path(file).exists()
    except OSError:
        return False


def packages() -> Packages:
    """What must be the same on all nodes, None if it is missing: our source files by one digest, and torch."""
    places = [_folder(name) for name in OUR_PACKAGES]
    ours = None if None in places else digest([place for place in places if place])
    return {"digest": ours, "allelse": _version("allelse"), "place": places[0], "torch": _version("torch")}


def _folder(package: str) -> str | None:
    """Where it would be imported from. It is not imported: that takes seconds."""
    spec = importlib.util.find_spec(package)
    return spec.submodule_search_locations[0] if spec and spec.origin and spec.submodule_search_locations else None


def digest(folders: list[str]) -> str:
    """Of all Python files: versions of a checkout have one number, and many contents."""
    whole = hashlib.sha256()
    for folder in map(Path, folders):
        for file in sorted(path for path in folder.rglob("*.py") if path.is_file()):  # Emacs locks by a broken link
            whole.update(f"{folder.name}/{file.relative_to(folder).as_posix()}\0".encode())
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _version(name: str) -> str | None:
    """From the package's metadata, as pip shows it."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def other_packages(theirs: Packages, ours: Packages) -> Iterator[Problem]:
    key, version, torch = "cluster.address", ours["allelse"] or "this version", ours["torch"]
    if theirs["digest"] is None:
        fix = f"install allelse {version} for the Python that starts Ray there"
        yield Problem(key, "allelse is not installed", fix)
    elif theirs["digest"] != ours["digest"]:
        found = f"allelse {theirs['allelse']} in {theirs['place']} differs from {version} in {ours['place']} here"
        yield Problem(key, found, "must be the same version or commit on every node, and unchanged while a sweep runs")
    if _public(theirs["torch"]) != _public(torch):
        found = f"torch is {theirs['torch']}" if theirs["torch"] else "torch is not installed"
        yield Problem(key, found, f"must be {torch}, as here")


def _public(version: str | None) -> str | None:
    """Without the build, such as cpu or cu128: nodes may have different hardware."""
    return version and version.partition("+")[0]
