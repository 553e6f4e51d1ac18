"""Everything that uses, replaces or disables Ray's internals, each with its reason (Ray 2.60).

In a Ray with different internals each of these does nothing; its docstring says what follows.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "RAY_AIR_NEW_OUTPUT": "0",  # with the new one Tune prints tables of its own
    "RAY_gcs_server_port_wait_time_s": "60",  # Ray gives up after 30: a busy machine needs longer
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a worker without a GPU keeps CUDA_VISIBLE_DEVICES
    # the study holds the results, in no format of Tune's
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # we handle Ctrl-C, and print the next command
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # we resume from the study, so Tune need not write its state while trials run
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",
    # so many processes start at the same time, and a cluster may grow by as many
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
    # our own line names the cause
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}
"""Switches of Ray and Tune. What a user has set stays."""
REQUEST_S = "RAY_gcs_server_request_timeout_seconds"
"""The variable for how long Ray looks for its node on this machine."""
JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The variable that Ray sets for the command of `ray job submit`."""
COPIED_FOR_A_JOB = "/runtime_resources/working_dir_files/"
"""In the path of the folder where Ray unpacks what `ray job submit --working-dir` sends."""
LATEST = "session_latest"
"""The link to the newest of Ray's session folders, in the same place."""
FOLDER = "ray"
"""Of Ray's session folders, in the temporary folder."""
TEMPORARY = "RAY_TMPDIR"
"""The variable that names the temporary folder only for Ray."""
SOCKET = "session_2026-01-31_12-00-00_000000_{pid}/sockets/plasma_store"
"""The longest path of a Unix socket in Ray's folder, by the process that starts Ray."""
LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107  # bytes that the system takes
LOGS = f"/tmp/ray/{LATEST}/logs"
"""On the machine of a node that did not start."""


def temporary_folder() -> tuple[str, Path]:
    """The variable that names the folder in which Ray makes its own, and that folder."""
    variables = [TEMPORARY, *(["TMPDIR"] if sys.platform.startswith("linux") else [])]
    variable = next((name for name in variables if name in os.environ), TEMPORARY)
    return variable, Path(os.environ.get(variable, "/tmp"))


def longest_socket() -> str:
    """The path of the socket that this process would let Ray open."""
    _, folder = temporary_folder()
    return str(folder / FOLDER / SOCKET.format(pid=os.getpid()))


def set_environment() -> None:
    """Before Ray is imported."""
    os.environ.update({name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()})


def sweep_job() -> Any:
    """A sweep as a job whose workers import only from their installation.

    Ray would put the folder where the command was typed first on their path. A transformer.py there
    would hide ours. The module of a task is found without that. Another Ray keeps the folder.
    """
    from ray.job_config import JobConfig

    class SweepJob(JobConfig):  # type: ignore[misc]
        def _serialize(self) -> bytes:
            self._py_driver_sys_path: list[str] = []
            serialized: bytes = super()._serialize()
            return serialized

    return SweepJob()


def print_no_messages() -> None:
    """Ray prints messages of its processes, with their last log lines. Our own lines name the cause
    in one line.

    Another Ray prints them.
    """
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *arguments, **options: None


@contextmanager
def own_groups() -> Iterator[None]:
    """Each process that Ray starts leads a new process group.

    timeout(1) and a closed terminal send a signal to our whole group. The trials need Ray's
    processes to stop with a checkpoint, so the signal must not reach these. With another Ray it
    does, and the trials resume.
    """
    from ray._private import services

    popen = getattr(services, "ConsolePopen", None)
    if popen is None:
        yield
        return
    services.ConsolePopen = partial(popen, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = popen


@contextmanager
def our_sigterm_handler() -> Iterator[None]:
    """Ray leaves our handler of SIGTERM alone.

    Its own one only raises SystemExit. Python ignores that in a callback after a fork, so a SIGTERM
    while Ray starts its processes would be lost. Ours also notes the signal. Another Ray installs
    its own.
    """
    from ray._private import utils

    install = getattr(utils, "set_sigterm_handler", None)
    if install is None:
        yield
        return
    utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = install


def silent_progress() -> Any:
    """In the place of Tune's own reporter, which prints a line for each trial that a stop leaves
    unbegun.

    Tune's log is silenced, too: our own lines say which trials failed, and why. Another Tune
    prints.
    """
    from ray.tune.progress_reporter import TrialProgressCallback

    class SilentProgress(TrialProgressCallback):  # type: ignore[misc]
        def _print(self, msg: str) -> None:
            """Nothing."""

    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    return SilentProgress()


@contextmanager
def uncounted() -> Iterator[None]:
    """Without usage statistics, Tune does not count its callbacks by type: to do so, it imports all
    of MLflow.

    Another Ray counts.
    """
    usage = sys.modules.get("ray.air._internal.usage")
    count = getattr(usage, "tag_callbacks", None)
    if count is None or os.environ.get("RAY_USAGE_STATS_ENABLED") != "0":
        yield
        return
    setattr(usage, "tag_callbacks", lambda callbacks: False)  # noqa: B010 - Ray has no types
    try:
        yield
    finally:
        setattr(usage, "tag_callbacks", count)  # noqa: B010


def check_token(address: str) -> None:
    """Raises an error at once if the cluster refuses our token; ``ray.init`` would try for 20 s."""
    import ray
    from ray._private.services import canonicalize_bootstrap_address

    if head := canonicalize_bootstrap_address(address):
        ray._raylet.GcsClient(address=head)


def free_by_node() -> dict[str, dict[str, float]]:
    """The free resources of each node by name, by the node's id. Ray's public API has only the sum
    of all nodes."""
    from ray._private.state import available_resources_per_node

    resources: dict[str, Any] = available_resources_per_node()
    return resources
