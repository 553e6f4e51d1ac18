"""A sweep as a job of Ray, whose workers import from their installation alone.

Ray would put the folder where the command was typed first on their path. A transformer.py there would hide ours. The
module of a task is found without that.
"""

from ray.job_config import JobConfig


class SweepJob(JobConfig):  # type: ignore[misc]
    """Ray has no option for it. A Ray whose job is made in another way keeps the folder."""

    def _serialize(self) -> str:
        self._py_driver_sys_path: list[str] = []
        return str(super()._serialize())
