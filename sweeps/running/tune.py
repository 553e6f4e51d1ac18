"""Ray Tune finds room for processes, starts them, and keeps them for the next trial, which the
queue gives them."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.search import Searcher

from sweeps.config.settings import Cluster, Settings
from sweeps.preflight.checks import node_fault
from sweeps.preflight.machine import fitting_workers
from sweeps.preflight.node_facts import Packages
from sweeps.processes.ray_private import silent_progress
from sweeps.processes.storage import FIXES
from sweeps.processes.times import ASK_FREE_S, EXPLAINED_AFTER_S
from sweeps.running.queue import Queue
from sweeps.running.trial_process import TrialProcess, TuneCallback
from tracking.code import Code
from tracking.words import plural


class ProcessRequests(Searcher):  # type: ignore[misc]
    """Makes Tune request a process for each waiting trial."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self.requested: set[str] = set()  # processes that are not there yet

    def suggest(self, trial_id: str) -> Any:
        if self.queue.over:
            return Searcher.FINISHED
        if len(self.requested) >= self.queue.waiting:
            return None
        self.requested.add(trial_id)
        return {"place": trial_id}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self.requested.discard(trial_id)

    def __getstate__(self) -> dict[str, Any]:
        """Empty: Tune stores its searcher to restore an experiment, but we restore from the study
        on disk."""
        return {}


def run_on_tune(
    settings: Settings, queue: Queue, storage: Path, packages: Packages | None, code: Code | None
) -> None:
    """Until the queue is over. Raises Interrupted, UnrecordedError, OSError."""
    cluster = settings.cluster
    requests = ProcessRequests(queue)
    parameters = {
        "cluster": cluster,
        "stall_s": 60 * settings.sweep.stall_minutes,
        "packages": packages,
        "code": code,
    }
    fault = partial(node_fault, settings)
    process = tune.with_resources(
        tune.with_parameters(TrialProcess, **parameters), bundles(cluster)
    )
    process.__name__ = process.__qualname__ = TrialProcess.__name__  # as Ray's tools and ps show it
    tuner = tune.Tuner(
        process,
        tune_config=tune.TuneConfig(search_alg=requests, reuse_actors=True, num_samples=-1),
        run_config=tune.RunConfig(
            storage_path=str(storage),
            verbose=0,
            callbacks=[
                TuneCallback(queue, requests.requested.discard, Wait(cluster).words, fault),
                silent_progress(),
            ],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    try:
        tuner.fit()
    except tune.TuneError as error:
        if isinstance(error.__context__, OSError) and error.__context__.errno in FIXES:
            # of Tune's own files
            raise error.__context__ from None
        raise
    except ValueError:
        # At its end Tune reads files of its own, which do not fit on a full disk. Ours have the
        # results.
        if not queue.over:
            raise


def bundles(cluster: Cluster) -> tune.PlacementGroupFactory:
    """The resources of a whole worker group; the empty first bundle is for the trial's process,
    which only polls."""
    workers = [cluster.needs for _ in range(cluster.workers)]
    return tune.PlacementGroupFactory([{}, *workers], strategy=strategy(cluster))


def strategy(cluster: Cluster) -> str:
    """A worker group lies on one node if every node that takes a worker has room for all of them.

    Otherwise Ray puts as many workers as possible on one node, and the others on more: where only
    some nodes could hold a group, the others would stay idle.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    counts = [count for count in (fitting_workers(cluster, node) for node in nodes) if count]
    has_room = all(count >= cluster.workers for count in counts)
    return "STRICT_PACK" if counts and has_room else "PACK"


class Wait:
    """How long no trial could run, and what they wait for. Ray is asked only then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._since = time.monotonic()
        self._last_question = 0.0
        self._words = ""

    def words(self, trials: list[Any]) -> str:
        """Such as "4 GPUs, 2 are free" after a wait of 30 s; "" while a trial runs."""
        checked_at = time.monotonic()
        states = {trial.status for trial in trials}
        if "RUNNING" in states or "PENDING" not in states:
            self._since = checked_at
            self._words = ""
        elif (
            checked_at - self._since > EXPLAINED_AFTER_S
            and checked_at - self._last_question > ASK_FREE_S
        ):
            self._last_question = checked_at
            self._words = self._short(ray.available_resources())
        return self._words

    def _short(self, free: dict[str, float]) -> str:
        """The missing resource, and how much of it is free. ``free`` holds the free resources of
        all nodes by name."""
        workers = self._cluster.workers
        needs = {name: amount * workers for name, amount in self._cluster.needs.items()}
        short = [name for name, need in needs.items() if need > free.get(name, 0)]
        resource = "GPU" if "GPU" in (short or needs) else "CPU"
        need = needs[resource]
        free_count = free.get(resource, 0)
        verb = "is" if free_count == 1 else "are"
        spread = "" if short else ", but not where a whole worker group fits"
        return f"{need:g} {plural(resource, need)}, {free_count:g} {verb} free{spread}"
