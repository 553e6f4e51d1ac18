"""Runs a command in a fresh folder, watches what it writes, and ends it."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.command_task.trial.process import CommandProcess, Start
from sweeps.problems import Problem, RefusedError
from tracking.written.environment import environment
from tracking.written.point import WrittenPoint
from tracking.written.watch import WrittenMetrics

LOOK_S = 0.2
"""Between two looks at what the command has written. Its end is seen at once."""
GRACE_S = 10.0
"""From SIGTERM to SIGKILL."""
LAST_LINES = 10
OUTPUT_FOLDERS = {
    *("lightning_logs", "logs", "mlruns", "multirun", "outputs", "results", "runs", "tb_logs"),
    *("tensorboard", "wandb", "__pycache__"),
}
"""Folders of earlier output. The command gets fresh ones."""


@dataclass(frozen=True)
class Place:
    """A fresh folder. ``work`` holds links to the user's files; the command runs there. ``out`` is
    what it gets as {out}."""

    work: Path
    out: Path
    output: Path

    def is_elsewhere(self, source: Path) -> bool:
        return not source.is_relative_to(self.out)


@dataclass
class ProbeRun:
    """What a command wrote, and how it ended. ``code``: None if it never ended by itself."""

    seconds: float = 0.0
    code: int | None = None
    was_ended: bool = False
    points: list[WrittenPoint] = field(default_factory=list)
    notices: Sequence[str] = ()
    last_lines: Sequence[str] = ()
    files: Sequence[str] = ()
    loose_files: Sequence[str] = ()
    """What it wrote below its current folder rather than {out}."""


@contextmanager
def fresh_place(here: Path) -> Iterator[Place]:
    """Removed at the end, with all that was written there."""
    folder = Path(tempfile.mkdtemp(prefix="allelse-probe-")).resolve()
    try:
        place = Place(folder / "work", folder / "work" / "out", folder / "stdout")
        place.work.mkdir()
        for entry in here.iterdir():
            is_hidden = entry.name.startswith(".") and entry.is_dir()
            if not is_hidden and entry.name not in OUTPUT_FOLDERS | {"out"}:
                (place.work / entry.name).symlink_to(entry.resolve())
        place.out.mkdir()
        place.output.touch()
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)
