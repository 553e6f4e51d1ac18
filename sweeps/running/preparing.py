"""The text of a plan, prepared before its trials start; a bar shows how far it is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sweeps.planning.plan import Plan, PlannedTrial
from transformer.data.fingerprint import prepared_folder
from transformer.data.lengths import check_lengths
from transformer.data.prepare import Prepared, prepare
from transformer.data.working_copy import Told
from transformer.schema import Problem, RefusedError


def prepare_texts(plan: Plan, console: Console) -> dict[str, Prepared]:
    """Prepare every corpus of the plan, and refuse models with too few positions for its sentences. By fingerprint.

    Reads no file of a trial: damaged files are repaired under its lock, and a refused study creates no lock.
    """
    texts: dict[str, Prepared] = {}
    for planned in {trial.fingerprint: trial for trial in plan.pending}.values():
        texts[planned.fingerprint] = prepared = _prepare(planned, console)
        models = {
            trial.settings.model.max_positions: trial.settings.model
            for trial in plan.pending
            if trial.fingerprint == planned.fingerprint
        }
        data, problems = planned.settings.data, list[Problem]()
        for model in models.values():
            problems += check_lengths(prepared, model, data)
        if problems:
            raise RefusedError(dict.fromkeys(problems))
    return texts


def _prepare(planned: PlannedTrial, console: Console) -> Prepared:
    data, folder = planned.settings.data, Path(planned.settings.paths.data)
    new = not prepared_folder(folder, planned.fingerprint).is_dir()
    with _shown(data.name, new, console) as told:
        prepared = prepare(data, folder, planned.fingerprint, told)
        told("checking", None)
        prepared.check()
    return prepared


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
