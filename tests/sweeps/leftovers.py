"""What a sweep that has ended may leave on its cluster: nothing but Ray itself."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
from filelock import FileLock, Timeout
from machines import Machines
from studies import wait_until

RAYS_OWN = ("gcs_server", "raylet", "log_monitor", "dashboard", "Agent", "monitor.py", "ray::IDLE", "default_worker.py")
SHOWN = """
import json, sys
import ray
from ray.util import placement_group_table
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
print(json.dumps([group["state"] for group in placement_group_table().values() if group["state"] != "REMOVED"]))
"""
PATIENCE_S = 120.0


def check_nothing_left(cluster: Machines, study: Path) -> None:
    """Raises AssertionError with what is left: processes (and with them ports), locks, placement groups."""
    wait_until(lambda: not [*_processes(cluster)], f"the end of the sweep's processes: {[*_processes(cluster)]}", 120)
    assert not (found := [*_locks(study)]), f"locks are left: {found}"
    wait_until(lambda: not placement_groups(cluster), "the removal of all placement groups", PATIENCE_S)


def placement_groups(cluster: Machines) -> list[str]:
    """The states of those that are not removed."""
    printed = cluster.head.run(sys.executable, "-c", SHOWN, cluster.address)
    states: list[str] = json.loads(printed.splitlines()[-1])
    return states


def _processes(cluster: Machines) -> Iterator[str]:
    for machine in cluster.all:
        for process in machine.processes():
            title = _title(process)
            if process.pid != machine.first.pid and title and not any(own in title for own in RAYS_OWN):
                yield f"{title} on {machine.name}"


def _title(process: psutil.Process) -> str:
    """ "" once it has ended."""
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _locks(study: Path) -> Iterator[str]:
    """Locks that somebody holds, and files of processes that are gone."""
    for path in sorted((study / ".locks").iterdir()):
        if path.suffix == ".json" or path.name.startswith(".seen-by-nodes"):
            yield path.name
            continue
        try:
            FileLock(path, timeout=0).acquire().lock.release()
        except Timeout:
            yield path.name
    yield from (path.name for path in (study / ".running").glob("*"))
