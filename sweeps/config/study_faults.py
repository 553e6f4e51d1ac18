"""Faults in the form of a study's name, seeds, margins, places and addresses."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from sweeps.config.settings import Paths, Settings, Sweep, Tracking, in_quotes
from sweeps.problems import Typo
from sweeps.task import Problem
from tracking.uri import without_password

LONGEST_STUDY_NAME = 240
"""Bytes of a study's name. A file's name may have 255, and our files add a few to it."""
FOLDER_NAME = (
    'must be the name of a folder in paths.runs: without "/", no "." at its start, '
    "no space at either end"
)
LONGEST_EXPERIMENT = 256  # characters, as MLflow's database has them
STORE = re.compile(
    r"https?://[^\s/:?#][^\s/]*(/\S*)?|sqlite(\+\w+)?:///(?!.*:memory:).+|databricks(:.*)?"
    r"|(postgresql|mysql|mssql)(\+\w+)?://.+",
    re.IGNORECASE,
)
"""The form of a store's address."""
STORES = (
    "must be http(s)://HOST:PORT, sqlite:////PATH, postgresql://…, mysql://…, mssql://…, or null"
)


def conflicts(settings: Settings, trains: bool) -> list[Problem]:
    """The problems between values. ``trains``: those of training count, too."""
    problems = settings.task.problems(settings.config) if trains else ()
    return [*problems, *study_problems(settings)]


def study_problems(settings: Settings) -> list[Problem]:
    """Problems in the form of a study's seeds, name, places and addresses. Preflight checks look at
    the machine."""
    return [
        *_name_problems(settings),
        *_place_problems(settings.paths),
        *_tracking_problems(settings.tracking),
        *_seed_problems(settings.sweep),
        *_margin_problems(settings),
        *address_problems(settings.cluster.address),
    ]


def _seed_problems(sweep: Sweep) -> Iterator[Problem]:
    if not sweep.seeds or len(set(sweep.seeds)) < len(sweep.seeds):
        yield Problem(
            "sweep.seeds", f"is {sweep.seeds}", "must list at least one seed, and each seed once"
        )
    if len(set(sweep.base_seeds)) < len(sweep.base_seeds):
        yield Problem(
            "sweep.base_seeds",
            f"is {sweep.base_seeds}",
            "must list each seed once; [] means sweep.seeds",
        )


def _margin_problems(settings: Settings) -> Iterator[Problem]:
    metrics = [metric.name for metric in settings.task.metrics if metric.tabled]
    for name, margin in settings.sweep.margin.items():
        if name not in metrics:
            fault = f'names "{name}", which is not a metric in the table'
            allowed = f"must be one of {', '.join(metrics)}"
            yield Problem("sweep.margin", fault, allowed, Typo(name, tuple(metrics)))
        elif type(margin) not in (int, float) or not 0 < margin < math.inf:
            allowed = "must be a number above 0, in the metric's units"
            yield Problem("sweep.margin", f"has {margin} for {name}", allowed)


def _name_problems(settings: Settings) -> Iterator[Problem]:
    if settings.sweep.name is not None:
        key = "sweep.name"
        name = settings.sweep.name
    else:
        key = "scale.name"
        name = settings.scale.name
    yield from study_name_problems(key, name)


def study_name_problems(key: str, name: str) -> Iterator[Problem]:
    """Why a study cannot have this name, which ``key`` gives."""
    if not _is_folder_name(name):
        yield Problem(key, f"is {in_quotes(name)}", FOLDER_NAME)
    elif (size := len(name.encode())) > LONGEST_STUDY_NAME:
        yield Problem(key, f"is a name of {size} bytes", f"must have at most {LONGEST_STUDY_NAME}")


def _is_folder_name(name: str) -> bool:
    is_text = bool(name) and name == name.strip() and name.isprintable()
    return is_text and not name.startswith(".") and "/" not in name


def _place_problems(paths: Paths) -> Iterator[Problem]:
    for key, folder in (("paths.runs", paths.runs), ("paths.data", paths.data)):
        fault = _path_fault(folder)
        if fault is None and "://" in folder:
            fault = f"is {in_quotes(folder)}"
        if fault:
            allowed = "must be a folder; only paths.checkpoints takes other filesystems"
            yield Problem(key, fault, allowed)
    if paths.checkpoints is not None:
        yield from _checkpoint_problems(paths.checkpoints)


def _checkpoint_problems(path: str) -> Iterator[Problem]:
    fault = _path_fault(path)
    if fault:
        allowed = "must be a folder, a URL such as s3://BUCKET/FOLDER, or null"
        yield Problem("paths.checkpoints", fault, allowed)
    elif path.startswith("memory:"):
        fault = f"is {in_quotes(path)}, which lives in the memory of one process"
        allowed = "must be a place that outlives a process and that all nodes reach"
        yield Problem("paths.checkpoints", fault, allowed)


def _path_fault(path: str) -> str | None:
    """Why no folder can have this path; None if one can."""
    if not path.strip():
        return "is empty"
    if not path.isprintable():
        return f"is {in_quotes(path)}, which has unprintable characters"
    if path.startswith("~") and not _is_home(path.split("/")[0]):
        return f"is {in_quotes(path)}, but there is no such home folder"
    return None


def _is_home(name: str) -> bool:
    """Whether ``~`` or ``~NAME`` is somebody's home folder."""
    try:
        return Path(name).expanduser().is_dir()
    except RuntimeError:  # no such user
        return False


def _tracking_problems(tracking: Tracking) -> Iterator[Problem]:
    if tracking.uri is not None and not _is_store(tracking.uri):
        yield Problem("tracking.uri", f"is {in_quotes(without_password(tracking.uri))}", STORES)
    name = tracking.experiment
    if name is None:
        return
    is_experiment = name.strip() and name.isprintable() and len(name) <= LONGEST_EXPERIMENT
    if not is_experiment:
        length = f"at most {LONGEST_EXPERIMENT} characters"
        allowed = f"must be the name of an MLflow experiment, of {length}"
        yield Problem("tracking.experiment", f"is {in_quotes(name)}", allowed)


def _is_store(uri: str) -> bool:
    try:
        return STORE.fullmatch(uri) is not None and urlsplit(uri).port != 0
    except ValueError:  # no such port
        return False


def address_problems(address: str | None) -> Iterator[Problem]:
    """The problem of an address that no head of a Ray cluster can have."""
    if address is None or address == "auto":
        return
    cluster = "auto for the cluster that this machine joined"
    allowed = f"must be HOST:PORT of a Ray head, {cluster}, or null"
    if address.startswith("ray://"):
        fault = f"is {in_quotes(address)}, Ray's client, which cannot place a trial's workers"
        allowed = f"{allowed}; start allelse on a node of the cluster"
        yield Problem("cluster.address", fault, allowed)
    elif not _is_host_and_port(address):
        yield Problem("cluster.address", f"is {in_quotes(address)}", allowed)


def _is_host_and_port(address: str) -> bool:
    match = re.fullmatch(r"(?:[\w.-]+|\[[0-9a-fA-F:.%\w]+\]):(\d{1,5})", address)
    return match is not None and 0 < int(match[1]) < 65536
