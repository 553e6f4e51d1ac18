"""Every row that is shipped, composed at every scale; all tests of a process share them."""

from functools import cache

from sweeps.config.files import SHIPPED
from sweeps.planning.study_rows.compose import compose_sweep
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition

ROWS = sorted(path.stem for path in (SHIPPED / "row").glob("*.yaml"))
SCALES = sorted(path.stem for path in (SHIPPED / "scale").glob("*.yaml"))


@cache
def study(scale: str) -> Composition:
    return compose_sweep([f"scale={scale}", f"sweep.rows=[{','.join(ROWS)}]"])


def composed(row: str, scale: str) -> ComposedRow:
    return study(scale).rows[ROWS.index(row)]
