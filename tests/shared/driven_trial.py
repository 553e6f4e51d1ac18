"""A trial whose work consists of a few lines: one worker in this process, by the driver that every
trial has."""

import uuid
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

from small_task import SOURCE

from sweeps.processes.events import Assignment, Event
from sweeps.worker.attempt import Driver


def driver_of(
    folder: Path,
    body: str,
    tell: Callable[[Event], None],
    steps: int = 4,
    early_stop: bool = False,
    costs: str = "Costs()",
    **settings: Any,
) -> Driver:
    """A driver of a trial whose work consists of these lines; its checkpoints lie in ``folder``."""
    name = f"calls_{uuid.uuid4().hex}"  # a module is imported once
    head, _, tail = SOURCE.partition("def work(")
    _, _, task = tail.partition("\n\n\n")
    options = f"early_stop={early_stop}, costs=lambda config: {costs}"
    task = task.replace("work=work", f"work=work, {options}")
    work = f"def work(trial: Trial[Config]) -> None:\n{indent(body, '    ')}\n\n"
    (folder / f"{name}.py").write_text(f"{head}{work}{task}")
    config = {
        "model": {"size": 8, "kind": "round"},
        "train": {"steps": steps, "rate": 0.5, "every": 2, "cut": 0.5},
    }
    number = settings.pop("attempt", 1)
    places = str(folder), "", str(folder / "checkpoints")
    # whether it is measured depends on what this process has imported
    settings.setdefault("sustained_tflops", 1.0)
    return Driver(
        Assignment(name, str(folder), config, 1, number, *places, "k" * 64, run="r", **settings),
        tell,
    )


def events_of(folder: Path, body: str, **settings: Any) -> list[Event]:
    """Run a work of these lines."""
    events: list[Event] = []
    driver = driver_of(folder, body, events.append, **settings)
    driver.newest()
    driver.work(0, 1, "", lambda: False)
    return events
