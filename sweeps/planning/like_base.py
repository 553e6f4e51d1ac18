"""Rows of the user that train the same model as base."""

from sweeps.planning.composition import ComposedRow
from sweeps.planning.scaling import WRITTEN_BY_ROWS
from sweeps.planning.settings import Settings
from transformer.schema import Problem


def is_like_base(row: ComposedRow, base: Settings) -> bool:
    """Whether a row of the user's own file changes nothing that is trained."""
    trained = [group for group in WRITTEN_BY_ROWS if group != "decode"]
    return row.place is not None and all(getattr(row.settings, group) == getattr(base, group) for group in trained)


def like_base_problem(row: ComposedRow) -> Problem:
    """What the row changes instead, and where that belongs."""
    decodes = [key for key in row.changes if key.startswith("decode.")]
    if decodes:
        settings = " ".join(f"{key}={row.changes[key]}" for key in decodes)
        found = f"changes only {', '.join(decodes)}, so row {row.name} would train the same model as base"
        return Problem(
            decodes[0], found, f"decode base in that way: ablate evaluate base-s1 {settings}", None, row.place
        )
    if row.kept.left_out:
        found = f"changes only {', '.join(row.kept.left_out)}, which the scale sets for every row"
        return Problem(row.name, found, "choose another scale, such as scale=half or scale=paper", None, row.place)
    allowed = "set a key of model, train or data to another value than base's; `ablate config` shows base"
    return Problem(row.name, "would train the same model as base: it changes nothing", allowed, None, row.place)
