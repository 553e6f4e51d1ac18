"""The data of a plan, prepared before its trials start; a bar shows how far it is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.running.prepared import prepared_folder
from sweeps.task import Told


def prepare_data(plan: Plan, console: Console) -> None:
    """Prepare all data of the plan's pending trials. Raises RefusedError for data that they cannot use.

    Reads no file of a trial: damaged files are repaired under its lock, and a refused study creates no lock.
    """
    for fingerprint in dict.fromkeys(planned.fingerprint for planned in plan.pending):
        sharing = [planned for planned in plan.pending if planned.fingerprint == fingerprint]
        first = sharing[0]
        name = first.settings.source.task.title(first.config) or first.settings.source.task.name
        with _shown(name, not first.prepared_folder.is_dir() and _prepares(first), console) as told:
            _prepare(sharing, told)


def _prepares(planned: PlannedTrial) -> bool:
    task = planned.settings.source.task
    return task.prepare is not None


def _prepare(sharing: list[PlannedTrial], told: Told) -> None:
    planned = sharing[0]
    task, folder = planned.settings.source.task, Path(planned.settings.paths.data)
    prepared_folder(task, planned.config, folder, planned.fingerprint)


@contextmanager
def _shown(name: str, new: bool, console: Console) -> Iterator[Told]:
    """A bar for each step in a terminal; elsewhere one line at the start of a preparation, and one at its end."""
    columns = SpinnerColumn(), TextColumn("Preparing {task.description}"), BarColumn(), TimeElapsedColumn()
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(escape(name), total=None)

        def told(step: str, done: float | None) -> None:
            description = escape(f"{name}: {step}")
            progress.update(task, description=description, total=None if done is None else 1.0, completed=done or 0.0)

        if new and not console.is_terminal:
            console.print(f"Preparing {escape(name)}")
        yield told
    if new and not console.is_terminal:
        console.print(f"Prepared {escape(name)} in {time.monotonic() - began:.1f} s")
