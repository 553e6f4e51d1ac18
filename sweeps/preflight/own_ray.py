"""The Ray that a sweep starts itself: not within a job of a cluster, and with a dashboard only if that is installed."""

import importlib.util
import os
from collections.abc import Iterator

from sweeps.config.settings import Cluster
from sweeps.processes.ray_private import JOB
from sweeps.schema import Problem

DASHBOARD = "aiohttp", "aiohttp_cors", "grpc", "opencensus", "prometheus_client", "pydantic"
"""What ``ray.dashboard.optional_deps`` imports. Ray itself may not be imported yet, and brings only some of it."""


def own_ray_problems(cluster: Cluster) -> Iterator[Problem]:
    """Why a sweep cannot start a Ray, if ``cluster.address`` says that it does."""
    if cluster.address is not None:
        return
    if JOB in os.environ:
        found = "is null, but within a job of a Ray cluster no other Ray can start"
        yield Problem("cluster.address", found, "type cluster.address=auto, which takes this cluster")
    missing = [name for name in DASHBOARD if importlib.util.find_spec(name) is None]
    if cluster.dashboard and missing:
        found = f"is true, but Ray's dashboard lacks packages here: {', '.join(missing)}"
        yield Problem("cluster.dashboard", found, 'type `pip install "allelse[dashboard]"`, or leave it out')
