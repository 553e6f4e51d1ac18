"""What Hydra alone makes of overrides: for people who know it, and wonder where a value comes from."""

from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.config.hydra import resolved
from sweeps.config.library import Library
from sweeps.config.overrides import parse_overrides
from sweeps.planning.task_of import KEY, library_of
from sweeps.task import RefusedError


def job_of(overrides: list[str]) -> dict[str, Any]:
    """As `hydra.compose("config", overrides)`, resolved. Raises RefusedError."""
    library, typed = _checked(overrides)
    tree, problems = resolved(library.hydra.compose(*typed).tree)
    if tree is None:
        raise RefusedError(problems)
    return tree


def defaults_of(overrides: list[str]) -> Table:
    """The composed files with their packages; a value of a later one counts. Raises RefusedError."""
    library, typed = _checked(overrides)
    table = Table("file", "package", box=box.SIMPLE_HEAD)
    for file, package in library.hydra.files(*typed):
        table.add_row(escape(library.folders.show(file)), escape(package or "_global_"))
    return table


def _checked(overrides: list[str]) -> tuple[Library, list[str]]:
    """The overrides but for the task, which Hydra does not know. Raises RefusedError."""
    library = library_of(overrides, Path.cwd())
    _, problems = parse_overrides(overrides, library)
    if problems:
        raise RefusedError(problems)
    return library, [text for text in overrides if not text.startswith(f"{KEY}=")]
