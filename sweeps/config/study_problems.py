"""The settings that all rows of a study share, as written: its name, seeds, places and addresses.

Only their form is checked here, so that every verb can do it; `sweeps.preflight` asks the machine.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from sweeps.config.settings import Settings
from sweeps.schema import Problem
from tracking.uri import without_password

LONGEST_NAME = 240
"""Bytes of a study's name. A file's name takes 255, and our own files add a few."""
FOLDER_NAME = 'must be the name of a folder in paths.runs: without "/", no "." at its start, no space at either end'
LONGEST_EXPERIMENT = 256  # characters, as MLflow's database has them
DATABASES = ("postgresql", "mysql", "mssql")
SERVERS = ("http", "https")
STORES = "must be http(s)://HOST:PORT, sqlite:////PATH, postgresql://…, mysql://…, mssql://…, or null"


def study_problems(settings: Settings) -> list[Problem]:
    """The problems of a study's seeds, name, places and addresses."""
    return [
        *_seed_problems(settings.sweep.seeds),
        *_name_problems(settings),
        *_place_problems(settings),
        *_tracking_problems(settings),
        *address_problems(settings.cluster.address),
    ]


def _seed_problems(seeds: list[int]) -> Iterator[Problem]:
    if not seeds or len(set(seeds)) < len(seeds):
        yield Problem("sweep.seeds", f"is {seeds}", "must list at least one seed, and each seed once")


def _name_problems(settings: Settings) -> Iterator[Problem]:
    named = settings.sweep.name is not None
    key, name = ("sweep.name", settings.sweep.name or "") if named else ("scale.name", settings.scale.name)
    if not is_folder_name(name):
        yield Problem(key, f"is {_quoted(name)}", FOLDER_NAME)
    elif (size := len(name.encode())) > LONGEST_NAME:
        yield Problem(key, f"is a name of {size} bytes", f"must have at most {LONGEST_NAME}")


def is_folder_name(name: str) -> bool:
    """Whether the name can be a folder's on any system, and is seen by ``ls`` and typed without tricks."""
    return bool(name) and name == name.strip() and name.isprintable() and not name.startswith(".") and "/" not in name


def _place_problems(settings: Settings) -> Iterator[Problem]:
    paths = settings.paths
    for key, value in (("runs", paths.runs), ("data", paths.data)):
        if found := _unusable(value) or (f"is {_quoted(value)}" if "://" in value else None):
            yield Problem(f"paths.{key}", found, "must be a folder; only paths.checkpoints takes other filesystems")
    if paths.checkpoints is not None and (found := _unusable(paths.checkpoints)):
        yield Problem("paths.checkpoints", found, "must be a folder, a URL such as s3://BUCKET/FOLDER, or null")
    elif paths.checkpoints is not None and paths.checkpoints.startswith("memory:"):
        found = f"is {_quoted(paths.checkpoints)}, which lives in the memory of one process"
        yield Problem("paths.checkpoints", found, "must be a place that outlives a process and that all nodes reach")


def _unusable(place: str) -> str | None:
    if not place.strip():
        return "is empty"
    if not place.isprintable():
        return f"is {_quoted(place)}, which has unprintable characters"
    return f"is {_quoted(place)}, but there is no such home folder" if _homeless(place) else None


def _homeless(place: str) -> bool:
    """Whether the place begins with ``~`` or ``~NAME``, and that user is unknown or has no home."""
    if not place.startswith("~"):
        return False
    try:
        return not Path(Path(place).parts[0]).expanduser().is_dir()
    except RuntimeError:
        return True


def _tracking_problems(settings: Settings) -> Iterator[Problem]:
    uri, experiment = settings.tracking.uri, settings.tracking.experiment
    if uri is not None and not _is_store(uri):
        yield Problem("tracking.uri", f"is {_quoted(without_password(uri))}", STORES)
    if experiment is None:
        return
    if not experiment.strip() or not experiment.isprintable():
        yield Problem("tracking.experiment", f"is {_quoted(experiment)}", "must be the name of an MLflow experiment")
    elif len(experiment) > LONGEST_EXPERIMENT:
        found = f"is a name of {len(experiment)} characters"
        yield Problem("tracking.experiment", found, f"must have at most {LONGEST_EXPERIMENT}")


def _is_store(uri: str) -> bool:
    """Whether a store can have this address."""
    scheme = re.match(r"([a-zA-Z][\w.-]*)(?:\+\w+)?:", uri)
    kind = scheme[1].lower() if scheme else ""
    if kind in SERVERS:
        return _has_host(uri)
    if kind == "sqlite":
        return re.match(r"sqlite(\+\w+)?:///.", uri) is not None and ":memory:" not in uri
    return kind == "databricks" or uri == "databricks" or (kind in DATABASES and "://" in uri)


def _has_host(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return bool(parts.hostname) and "//" in uri and parts.port != 0 and not re.search(r"\s", parts.netloc)
    except ValueError:
        return False


def address_problems(address: str | None) -> Iterator[Problem]:
    """A problem if no head of a Ray cluster can have this address."""
    if address is None or address == "auto":
        return
    allowed = "must be HOST:PORT of a Ray head, auto for the cluster that this machine joined, or null"
    if address.startswith("ray://"):
        found, allowed = f"is {_quoted(address)}, Ray's client, which cannot place a trial's workers", allowed
        yield Problem("cluster.address", found, f"{allowed}; start allelse on a node of the cluster")
    elif not _is_host_and_port(address):
        yield Problem("cluster.address", f"is {_quoted(address)}", allowed)


def _is_host_and_port(address: str) -> bool:
    match = re.fullmatch(r"(?:[\w.-]+|\[[0-9a-fA-F:.%\w]+\]):(\d{1,5})", address)
    return match is not None and 0 < int(match[1]) < 65536


def _quoted(text: str) -> str:
    """In quotation marks, with unprintable characters escaped and a long text shortened."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return f'"{shown}"' if len(shown) <= 100 else f'"{shown[:100]}…"'
