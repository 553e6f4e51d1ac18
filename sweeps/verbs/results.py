"""The verbs that show results: ``table``, ``report``, ``compare``."""

import json
import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_verb
from sweeps.planning.naming import SELECTING, looking
from sweeps.schema import Problem, RefusedError
from sweeps.verbs.command import Json, OverrideList, guarded, names_and_overrides, print_notices, taken_study

if TYPE_CHECKING:
    pass


class TableAs(StrEnum):
    """The formats that `allelse table` prints."""

    md = "md"
    csv = "csv"
    json = "json"
    tex = "tex"
    html = "html"


MetricNames = Annotated[list[str] | None, typer.Option("--metric", help="Show this metric; repeat it for several.")]
Set = Annotated[str | None, typer.Option("--set", help="Show the scores on this set, such as test.")]
Base = Annotated[str | None, typer.Option("--base", help="Take differences from this row.")]
ShownRows = Annotated[str | None, typer.Option("--rows", help="Show these rows, such as base,big.")]
Columns = Annotated[str | None, typer.Option("--columns", help="Show these columns, by their names in CSV.")]
Sort = Annotated[str | None, typer.Option("--sort", help="Sort by this column; the best value of a metric is first.")]
Best = Annotated[bool, typer.Option("--best", help="Print the best values in bold.")]
Intervals = Annotated[bool, typer.Option("--intervals", help="Show the 95 % interval of each difference.")]
Verdicts = Annotated[
    bool, typer.Option("--verdict", help="Compare the differences with the published ones, by a rule.")
]
WithSentences = Annotated[
    bool, typer.Option("--sentences", help="Test one seed over the sentences of its set; says nothing about seeds.")
]
Methods = Annotated[bool, typer.Option("--methods", help="Print a paragraph on methods instead of the table.")]
AsFormat = Annotated[TableAs | None, typer.Option("--format", help="Print md, csv, json, tex or html.")]


@guarded
def table(
    overrides: OverrideList = None,
    as_format: AsFormat = None,
    set_name: Set = None,
    metrics: MetricNames = None,
    base: Base = None,
    rows: ShownRows = None,
    columns: Columns = None,
    sort: Sort = None,
    best: Best = False,
    intervals: Intervals = False,
    verdict: Verdicts = False,
    sentences: WithSentences = False,
    methods: Methods = False,
) -> None:
    """Print the study's table: each row's scores, their difference from base, and its costs."""
    from sweeps.verbs.chosen_table import Asked, chosen_table
    from tracking.table.layout import shown, written

    if methods and as_format is not None:
        found, allowed = "prints a paragraph of plain text", f"leave out --format {as_format}"
        raise RefusedError([Problem("--methods", found, allowed)])
    study, settings = taken_study(overrides, SELECTING)
    asked = Asked(set_name, metrics or [], base, rows, columns, sort, best, intervals, verdict, sentences)
    made = chosen_table(study, settings, overrides or [], asked, programs=as_format in (TableAs.csv, TableAs.json))
    if methods:
        from tracking.table.methods import methods as paragraph  # NumPy and SciPy

        print(paragraph(made.study, made.findings, [row.row for row in made.rows]))
    elif as_format is None:
        OUT.print(shown(made.study, made.rows, OUT.width, made.view, made.findings))
        next_verb("ui", looking(study.folder, overrides))
    else:
        OUT.file.write(written(as_format, made.study, made.rows, made.view, made.findings))


Page = Annotated[Path | None, typer.Option("--output", help="Write the page here; by default next to study.json.")]
FigureFolder = Annotated[Path | None, typer.Option("--figures", help="Write the figures here, as SVG, PDF and PNG.")]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Leave figures out: faster for a large study.")]


@guarded
def report(
    overrides: OverrideList = None,
    output: Page = None,
    figures: FigureFolder = None,
    no_figures: NoFigures = False,
) -> None:
    """Write the study as one page of HTML: table, figures, costs, samples. Opens without a network."""
    from sweeps.verbs.chosen_table import Asked, chosen_table
    from sweeps.verbs.sides import texts_of

    refuse_places(output, figures, no_figures)
    study, settings = taken_study(overrides, SELECTING)
    page_path = output or study.folder / "report.html"
    refuse_places(page_path)
    made = chosen_table(study, settings, overrides or [], Asked())
    from tracking.files import write_atomic
    from tracking.report.page import content_of, figure_files, page, write_figures
    from tracking.statistics.findings import with_verdicts

    findings = with_verdicts(made.findings, made.study.task, made.all_rows)
    content = content_of(made.study, made.rows, findings, texts_of(study, settings), drawn=not no_figures)
    if figures is not None:
        files = figure_files(content.figures)
        write_figures(figures, files)
        OUT.print(f"Wrote {len(files)} figures to {escape(str(figures))}", soft_wrap=True)
    write_atomic(page_path, page(content))
    OUT.print(f"Wrote [bold]{escape(str(page_path))}[/]; open it in a browser", soft_wrap=True)
    next_verb("ui", looking(study.folder, overrides))


Names = Annotated[list[str], typer.Argument(metavar="A B [KEY=VALUE …]", help="Two trials, rows or studies.")]
OfSet = Annotated[str | None, typer.Option("--set", help="Scores of this set; by default each metric's own.")]
OfMetric = Annotated[str | None, typer.Option("--metric", help="Only this metric, such as the table's first.")]


@guarded
def compare(arguments: Names, set_name: OfSet = None, metric: OfMetric = None, as_json: Json = False) -> None:
    """Compare two trials, rows or studies: settings, tests over seeds and samples, the samples that differ most."""
    from sweeps.verbs.sides import by_output, chosen_metrics, families, named_sides, with_texts

    names, overrides = names_and_overrides(arguments)
    sides = named_sides(names, overrides)
    metrics = chosen_metrics(sides, metric, set_name)
    from sweeps.verbs import shown_comparison as shown
    from tracking.statistics.comparison import compared, differing, tested_pairs

    together = tested_pairs(sides.pairs, metrics, set_name) if sides.of_studies else {}
    found = [compared(*pair, metrics, set_name, families(*pair, metrics, set_name), together) for pair in sides.pairs]
    samples = differing(*sides.pairs[0], by_output(metrics), set_name)
    samples = with_texts(samples, sides.pairs[0], Path(sides.settings.paths.data))
    if as_json:
        print(json.dumps(shown.to_json(found, samples, sides.only), indent=1, ensure_ascii=False))
        return
    print_notices(sides.notices)
    for part in shown.shown(found, samples, sides.only if sides.of_studies else None):
        OUT.print(part)
    for line in shown.notes(found):
        OUT.print(line, style="dim", soft_wrap=True)
    next_verb("table", looking(sides.first.study.folder, overrides))


PAGES = (".html", ".htm")


def refuse_places(output: Path | None, figures: Path | None = None, no_figures: bool = False) -> None:
    """Raises RefusedError with everything that is wrong with the places to write to."""
    both = Problem("--no-figures", "is typed with --figures, which writes them", "leave one of the two out")
    problems = [
        *([both] if figures and no_figures else ()),
        *(_page_problems(output) if output else ()),
        *(_folder_problems("--figures", figures) if figures else ()),
    ]
    if problems:
        raise RefusedError(problems)


def _page_problems(output: Path) -> Iterator[Problem]:
    if output.suffix.lower() not in PAGES:
        nearest = f"--output {output.with_suffix('.html') if output.name else 'report.html'}"
        yield Problem("--output", f"is {output}", "must be a file that ends in .html", nearest)
    elif output.is_dir():
        yield Problem(
            "--output", f"is {output}, a folder", "must be a file that ends in .html", f"--output {output}/report.html"
        )
    else:
        yield from _folder_problems("--output", output.parent)


def _folder_problems(option: str, folder: Path) -> Iterator[Problem]:
    """The nearest existing folder above must be one in which files can be made."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        yield Problem(option, f"lies in {there}, which is a file", "must lie in a folder")
    elif not os.access(there, os.W_OK | os.X_OK):
        yield Problem(option, f"lies in {there}, which cannot be written to", "choose another place")
