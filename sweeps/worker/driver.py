"""Runs a task's work as one worker of an attempt, in two steps: find the start, then work.

Rank zero names the checkpoint that all start from; the others read that one, and no other.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task
from sweeps.events import Assignment, Event, Noticed
from sweeps.task import Saved, Task
from sweeps.worker.attempt import Attempt, Stop
from sweeps.worker.checkpoint_files import Manifest
from sweeps.worker.checkpoints import Checkpoints, OwnFormat, Start
from sweeps.worker.peers import use_interface_to
from sweeps.worker.prepared import prepared_folder


class Driver:
    """One worker of one attempt. To make one imports the task, which may take seconds."""

    def __init__(self, assignment: Assignment, tell: Callable[[Event], None]) -> None:
        self.assignment, self.tell = assignment, tell
        self.task: Task[Any] = load_task(assignment.task, Path(assignment.folder))
        self.config = Schema.of(self.task).config(assignment.config)
        self.store = _store(self.task, self.config, assignment, lambda line: tell(Noticed(line)))
        self._found: tuple[Manifest, Saved] | None = None
        self._attempt: Attempt | None = None

    def newest(self) -> Start | None:
        """Own the trial's checkpoints, and read the newest whole one: on rank zero. Raises StorageError."""
        self.store.claim(self.assignment.run)
        found = self.store.newest()
        if found is None:
            return None
        start, manifest, saved = found
        self._found = manifest, saved
        return start

    def load(self, start: Start | None) -> None:
        """Read the checkpoint that rank zero has named: on the other workers."""
        self._found = None if start is None else self.store.at(start)

    def work(self, rank: int, world: int, address: str, stop: Stop) -> None:
        """Call the task's work; its events are told. Raises what the work raises."""
        if world > 1:
            use_interface_to(address)
        given, group = self.assignment, (rank, world, address)
        place, identity = Path(given.data_folder), given.prepared_as
        data = prepared_folder(self.task, [self.config], place, given.data_fingerprint, identity)
        self._attempt = Attempt(self.task, given, self.store, group, self._found, self.tell, stop, data)
        self._found = None
        try:
            self.task.work(self._attempt)
            self._attempt.end()
        finally:
            self.store.close()

    def recorded(self, step: int) -> None:
        """The sweep has written the reports up to this step."""
        if self._attempt is not None:
            self._attempt.recorded(step)


def _store(task: Task[Any], config: Any, given: Assignment, tell: Callable[[str], None]) -> Checkpoints:
    own = OwnFormat(task.save, task.load) if task.save is not None and task.load is not None else None
    return Checkpoints(given.checkpoints, given.key, given.attempt, task.keep(config), own, tell)
