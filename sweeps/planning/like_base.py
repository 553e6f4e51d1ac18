"""Rows of the user that train the same model as base."""

from sweeps.planning.composition import ComposedRow
from sweeps.planning.schema import Schema
from sweeps.planning.settings import Settings
from sweeps.planning.yaml_content import BASE
from sweeps.schema import Problem


def is_like_base(row: ComposedRow, base: Settings) -> bool:
    """Whether a row of the user's own file changes nothing that is trained."""
    schema = Schema.of(base.source.task)
    ours, theirs = schema.values(row.settings.trial), schema.values(base.trial)
    return (
        row.name != BASE
        and row.place is not None
        and all(ours[key] == theirs[key] for key in ours if key not in schema.scores)
    )


def like_base_problem(row: ComposedRow) -> Problem:
    """What the row changes instead, and where that belongs."""
    task = row.settings.source.task
    decodes = [key for key in row.changes if key in Schema.of(task).scores]
    if decodes:
        settings = " ".join(f"{key}={row.changes[key]}" for key in decodes)
        found = f"changes only {', '.join(decodes)}, so row {row.name} would train the same model as base"
        return Problem(decodes[0], found, f"score all rows in that way: {settings}", None, row.place)
    if row.kept.left_out:
        found = f"changes only {', '.join(row.kept.left_out)}, which the scale sets for every row"
        return Problem(row.name, found, "choose another scale, which leaves them to the rows", None, row.place)
    groups = " or ".join(Schema.of(task).groups)
    allowed = f"set a key of {groups} to another value than base's; `ablate config` shows base"
    return Problem(row.name, "would train the same model as base: it changes nothing", allowed, None, row.place)
