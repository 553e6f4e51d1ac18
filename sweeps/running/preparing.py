"""The data of a plan, prepared before its trials start; a bar shows how far it is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sweeps.planning.plan import Plan, PlannedTrial, configurations
from sweeps.task import Problem, RefusedError, Told
from sweeps.worker.prepared import prepare_once


def prepare_data(plan: Plan, console: Console) -> None:
    """Prepare all data of the plan's pending trials. Raises RefusedError with all problems of what they cannot use.

    Reads no file of a trial: damaged files are repaired under its lock, and a refused study creates no lock.
    """
    problems: list[Problem] = []
    for fingerprint in dict.fromkeys(planned.fingerprint for planned in plan.pending):
        sharing = [planned for planned in plan.pending if planned.fingerprint == fingerprint]
        try:
            problems += _prepare(sharing, console)
        except RefusedError as error:
            problems += error.problems
    if problems:
        raise RefusedError(dict.fromkeys(problems))


def _prepare(sharing: list[PlannedTrial], console: Console) -> list[Problem]:
    """Prepare or open the data of these trials; what is wrong with it for them."""
    planned, configs = sharing[0], configurations(sharing)
    task, place = planned.task, planned.prepared_folder
    if task.prepare is None:
        return []
    with _shown(task.title(planned.config) or task.name, not place.is_dir(), console) as told:
        prepare_once(task, configs, place, planned.fingerprint, told)
        return [problem for config in configs for problem in task.data_problems(config, place)]


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
