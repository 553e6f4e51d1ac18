"""Whether a node has the packages of this machine: other files of ours, or another torch, give other results.

A file of its own, because each trial's process imports it: the plan, which the questions to nodes need, takes seconds.
"""

from collections.abc import Iterator

from sweeps.preflight.node_facts import Packages
from sweeps.schema import Problem


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
