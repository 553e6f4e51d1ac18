"""The verb ``compare``."""

from typing import Annotated

import typer

from sweeps.verbs.command import Json, guarded, names_and_overrides

Names = Annotated[
    list[str],
    typer.Argument(metavar="A B [KEY=VALUE …]", help="Two trials, rows or studies."),
]
SetName = Annotated[
    str | None,
    typer.Option("--set", help="Compare scores on this set. The default is each metric's own."),
]
MetricName = Annotated[
    str | None,
    typer.Option("--metric", help="Compare only this metric, such as the table's first."),
]


@guarded
def compare(
    arguments: Names,
    set_name: SetName = None,
    metric: MetricName = None,
    as_json: Json = False,
) -> None:
    """Compare two trials, rows or studies: settings, tests, and the samples that differ most."""
    from sweeps.verbs.compare.comparison import print_comparison  # imports NumPy and SciPy

    names, overrides = names_and_overrides(arguments)
    print_comparison(names, overrides, set_name, metric, as_json)
