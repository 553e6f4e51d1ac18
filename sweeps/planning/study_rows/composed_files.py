"""What Hydra composes from a command's overrides: the tree, and the files that it comes from."""

from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.config.hydra.references import resolved
from sweeps.config.library import Library
from sweeps.config.overrides import parse_overrides
from sweeps.planning.study_rows.task_choice import TASK_KEY, library_of
from sweeps.problems import RefusedError, refuse
from sweeps.trees import Tree


def job_of(overrides: list[str]) -> Tree:
    """As `hydra.compose("config", overrides)`, resolved. Raises RefusedError."""
    library, options = _checked(overrides)
    tree, problems = resolved(library.composer.compose(*options))
    if tree is None:
        raise RefusedError(problems)
    return tree


def defaults_of(overrides: list[str]) -> Table:
    """The composed files with their packages. A later file's values win. Raises RefusedError."""
    library, options = _checked(overrides)
    table = Table("file", "package", box=box.SIMPLE_HEAD)
    for file, package in library.composer.files(*options):
        table.add_row(escape(library.folders.show(file)), escape(package or "_global_"))
    return table


def _checked(overrides: list[str]) -> tuple[Library, list[str]]:
    """The overrides with whole keys, and without the task, which Hydra does not know. Raises
    RefusedError."""
    library = library_of(overrides, Path.cwd())
    _, problems = parse_overrides(overrides, library)
    refuse(problems)
    typed = filter(None, map(library.typed, overrides))
    return library, [f"{of.key}={of.value_text}" for of in typed if of.key != TASK_KEY]
