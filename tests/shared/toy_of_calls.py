"""The small task with another work, driven in this process as one worker of a trial."""

import uuid
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

from small_task import SOURCE

from sweeps.worker.attempt import Driver
from sweeps.worker.events import Assignment, Event

CALLS = """\
trial.report(1, {"train/loss": 1.0})
trial.report(2, {"train/loss": 0.5})
trial.checkpoint(2, {"total": 1.0})
trial.about({"points": 3})
trial.notice("half of it")
trial.spent(Costs(params=7))
trial.report(4, {"train/loss": 0.25})
trial.checkpoint(4, {"total": 2.0})
trial.evaluated("dev", {"score": 2.0}, {"texts/dev.txt": "one\\n"}, [{"part": 1}, {"part": 3}])
"""


def driver_of(
    folder: Path, body: str, tell: Callable[[Event], None], steps: int = 4, early_stop: bool = False, **given: Any
) -> Driver:
    """A driver of a trial whose work consists of these lines; its checkpoints lie in ``folder``."""
    name = f"calls_{uuid.uuid4().hex}"  # a module is imported once
    head, _, rest = SOURCE.partition("def work(")
    _, _, task = rest.partition("\n\n\n")
    task = task.replace("work=work", f"work=work, early_stop={early_stop}")
    work = f"def work(trial: Trial[Config]) -> None:\n{indent(body, '    ')}\n\n"
    (folder / f"{name}.py").write_text(f"{head}{work}{task}")
    config = {
        "model": {"size": 8, "kind": "round"},
        "train": {"steps": steps, "rate": 0.5, "every": 2, "cut": 0.5},
    }
    number = given.pop("attempt", 1)
    places = str(folder), "", str(folder / "checkpoints")
    return Driver(Assignment(name, str(folder), config, 1, number, *places, "k" * 64, run="r", **given), tell)
