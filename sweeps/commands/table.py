"""The verb ``table``."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.commands.arguments import OverrideList
from sweeps.commands.guarded import guarded
from sweeps.commands.taken import taken_study
from sweeps.console import OUT, next_verb
from sweeps.planning.naming import SELECTING, looking
from sweeps.schema import Problem, RefusedError

if TYPE_CHECKING:
    from sweeps.chosen_table import Chosen


class Format(StrEnum):
    """The formats that `allelse table` prints."""

    md = "md"
    csv = "csv"
    json = "json"
    tex = "tex"
    html = "html"


MetricNames = Annotated[list[str] | None, typer.Option("--metric", help="Show this metric; repeat it for several.")]
Set = Annotated[str | None, typer.Option("--set", help="Show the scores on this set, such as test.")]
Base = Annotated[str | None, typer.Option("--base", help="Take differences from this row.")]
Rows = Annotated[str | None, typer.Option("--rows", help="Show these rows, such as base,big.")]
Columns = Annotated[str | None, typer.Option("--columns", help="Show these columns, by their names in CSV.")]
Sort = Annotated[str | None, typer.Option("--sort", help="Sort by this column; the best value of a metric is first.")]
Best = Annotated[bool, typer.Option("--best", help="Print the best values in bold.")]
Intervals = Annotated[bool, typer.Option("--intervals", help="Show the 95 % interval of each difference.")]
Verdict = Annotated[bool, typer.Option("--verdict", help="Compare the differences with the published ones, by a rule.")]
Sentences = Annotated[
    bool, typer.Option("--sentences", help="Test one seed over the sentences of its set; says nothing about seeds.")
]
Methods = Annotated[bool, typer.Option("--methods", help="Print a paragraph on methods instead of the table.")]
AsFormat = Annotated[Format | None, typer.Option("--format", help="Print md, csv, json, tex or html.")]


@guarded
def table(
    overrides: OverrideList = None,
    as_format: AsFormat = None,
    set_name: Set = None,
    metrics: MetricNames = None,
    base: Base = None,
    rows: Rows = None,
    columns: Columns = None,
    sort: Sort = None,
    best: Best = False,
    intervals: Intervals = False,
    verdict: Verdict = False,
    sentences: Sentences = False,
    methods: Methods = False,
) -> None:
    """Print the study's table: each row's scores, their difference from base, and its costs."""
    from sweeps.chosen_table import Asked, chosen_table, methods_of
    from tracking.table import printed as tables

    if methods and as_format is not None:
        found, allowed = "prints a paragraph of plain text", f"leave out --format {as_format}"
        raise RefusedError([Problem("--methods", found, allowed)])
    study, settings = taken_study(overrides, SELECTING)
    asked = Asked(set_name, metrics or [], base, rows, columns, sort, best, intervals, verdict, sentences)
    made = chosen_table(study, settings, overrides or [], asked, programs=as_format in (Format.csv, Format.json))
    if methods:
        print(methods_of(made))
    elif as_format is None:
        OUT.print(tables.render(made.study, made.rows, OUT.width, made.view, made.findings))
        next_verb("ui", looking(study.folder, overrides))
    else:
        OUT.file.write(_written(as_format, made))


def _written(as_format: Format, made: "Chosen") -> str:
    from tracking.table import printed as tables

    write = {
        Format.md: tables.to_markdown,
        Format.csv: tables.to_csv,
        Format.json: tables.to_json,
        Format.tex: tables.to_latex,
        Format.html: tables.to_html,
    }
    return write[as_format](made.study, made.rows, made.view, made.findings)
