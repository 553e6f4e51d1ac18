"""What a sweep that has ended may leave: on a cluster nothing but Ray itself, on this machine
nothing."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
from filelock import FileLock, Timeout
from machines import Machines
from studies import wait_until

RAYS_OWN = (
    *(
        "gcs_server",
        "raylet",
        "log_monitor",
        "dashboard",
        "Agent",
        "monitor.py",
        "ray::IDLE",
        "default_worker.py",
    ),
    "multiprocessing.resource_tracker",  # of the dashboard
    "ray.util.client.server",  # of a head with ray[default]
)
SHOWN = """
import json, sys
import ray
from ray.util import placement_group_table
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
left = [group["state"] for group in placement_group_table().values() if group["state"] != "REMOVED"]
print("states:", json.dumps(left))
"""
PATIENCE_S = 120.0


def check_nothing_left(cluster: Machines, study: Path) -> None:
    """Raises AssertionError with what is left: processes (and with them ports), locks, placement
    groups."""
    _wait_for_none("process", lambda: [*_processes(cluster)])
    check_no_locks(study)
    _wait_for_none("placement group", lambda: placement_groups(cluster))


def wait_for_end(folder: Path) -> None:
    """Of all processes that work in the folder. Ray's agents notice the end of theirs after a
    while."""
    _wait_for_none("process", lambda: processes_of(folder))


def processes_of(folder: Path) -> list[psutil.Process]:
    """The other processes of this machine that work in the folder, or for a sweep of this machine
    that has ended."""
    return [
        process
        for process in psutil.process_iter(["cwd", "status"])
        if process.pid != os.getpid()
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and (
            Path(process.info["cwd"] or "").is_relative_to(folder)
            or _is_orphan(process.info["cwd"] or "")
        )
    ]


def _is_orphan(cwd: str) -> bool:
    """Tune's processes work in the folder of the Ray that a sweep has started, whose name ends with
    that one's pid."""
    match = re.match(r"/tmp/ray/session_[\d_-]*_(\d+)/", f"{cwd}/")
    return match is not None and not psutil.pid_exists(int(match[1]))


def check_no_locks(study: Path) -> None:
    """Raises AssertionError with the locks that are held, and with files of processes that are
    gone."""
    assert not (locks := [*_locks(study)]), f"locks are left: {locks}"


def placement_groups(cluster: Machines) -> list[str]:
    """The states of those that are not removed."""
    lines = cluster.head.run(sys.executable, "-c", SHOWN, cluster.address).splitlines()
    (line,) = [line for line in lines if line.startswith("states:")]  # Ray may print, too
    states: list[str] = json.loads(line.removeprefix("states:"))
    return states


def _wait_for_none(noun: str, remaining: Callable[[], Sequence[object]]) -> None:
    try:
        wait_until(lambda: not remaining(), f"no {noun}", PATIENCE_S)
    except AssertionError:
        raise AssertionError(
            f"after {PATIENCE_S:g} s, each {noun} of these is left: {remaining()}"
        ) from None


def _processes(cluster: Machines) -> Iterator[str]:
    for machine in cluster.all:
        for process in machine.processes():
            title = _title(process)
            if (
                process.pid != machine.first.pid
                and title
                and not any(ray_title in title for ray_title in RAYS_OWN)
            ):
                yield f"{title} on {machine.name}"


def _title(process: psutil.Process) -> str:
    """ "" once it has ended."""
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _locks(study: Path) -> Iterator[str]:
    for path in sorted((study / ".locks").iterdir()):
        try:
            FileLock(path, timeout=0).acquire().lock.release()
        except Timeout:
            yield path.name
    yield from (path.name for path in (study / ".running").glob("*"))
