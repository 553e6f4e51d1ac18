"""Every row that is shipped, composed at every scale; all tests of a process share them."""

from functools import cache
from pathlib import Path

from sweeps.config.files import SHIPPED
from sweeps.planning.study_rows.compose import compose_row, compose_sweep
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.planning.study_rows.task_choice import library_of

ROWS = sorted(path.stem for path in (SHIPPED / "row").glob("*.yaml"))
SCALES = sorted(path.stem for path in (SHIPPED / "scale").glob("*.yaml"))


def composed_sweep(overrides: list[str], folder: Path | None = None) -> Composition:
    """Every row that the overrides name, of the task that they name in ``folder``."""
    return compose_sweep(overrides, library_of(overrides, folder or Path.cwd()))


def composed_row(overrides: list[str], folder: Path | None = None) -> Composition:
    """The one row that ``row=`` names."""
    return compose_row(overrides, library_of(overrides, folder or Path.cwd()))


@cache
def study(scale: str) -> Composition:
    return composed_sweep([f"scale={scale}", f"sweep.rows=[{','.join(ROWS)}]"])


def composed(row: str, scale: str) -> ComposedRow:
    return study(scale).rows[ROWS.index(row)]
