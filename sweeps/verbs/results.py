"""The verbs that show results, ``table`` and ``report``: the chosen table, with every wrong option refused at once."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_verb
from sweeps.planning.naming import chosen, looking
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.verbs.command import OverrideList, guarded, taken_study
from sweeps.verbs.names import rows_of
from tracking.statistics.findings import Findings, find, with_verdicts
from tracking.statistics.rows import BASE, TableRow
from tracking.statistics.rows import table as table_of
from tracking.study import Study
from tracking.table.layout import column_names, viewed
from tracking.table.view import View, measured_sets, study_of_metrics, study_of_seeds

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

SELECTING = ("sweep.rows=", "sweep.seeds=")
"""The overrides that select from a recorded study."""


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
    from tracking.table.layout import shown, written

    if methods and as_format is not None:
        found, allowed = "prints a paragraph of plain text", f"leave out --format {as_format}"
        raise RefusedError([Problem("--methods", found, allowed)])
    study, settings = taken_study(overrides, SELECTING)
    asked = Asked(set_name, metrics or [], base, rows, columns, sort, best, intervals, verdict, sentences)
    made = _chosen_table(study, settings, overrides or [], asked, programs=as_format in (TableAs.csv, TableAs.json))
    if methods:
        from tracking.table.methods import methods as paragraph  # NumPy and SciPy

        print(paragraph(made.study, made.findings, [row.row for row in made.rows]))
    elif as_format is None:
        OUT.print(shown(made.study, made.rows, OUT.width, made.view, made.findings))
        next_verb("ui", looking(study.folder, overrides))
    else:
        OUT.file.write(written(as_format, made.study, made.rows, made.view, made.findings))


@dataclass(frozen=True)
class Asked:
    """The options as typed; lists are separated by commas."""

    set_name: str | None = None
    metrics: Sequence[str] = ()
    base: str | None = None
    rows: str | None = None
    columns: str | None = None
    sort: str | None = None
    best: bool = False
    intervals: bool = False
    verdict: bool = False
    sentences: bool = False


@dataclass(frozen=True)
class Chosen:
    """What the formats of the table take. ``all_rows`` are the rows of the study, whatever is shown."""

    study: Study
    rows: list[TableRow]
    view: View
    findings: Findings
    all_rows: list[TableRow]


@dataclass
class _Checked:
    """Collects the problems of names, each with the names that are allowed."""

    problems: list[Problem] = field(default_factory=list)

    def known(self, key: str, names: Iterable[str], allowed: Sequence[str], what: str) -> list[str]:
        """The names that exist, each once."""
        kept = list(dict.fromkeys(names))
        for name in [name for name in kept if name not in allowed]:
            near = nearest(name, allowed)
            self.problems.append(Problem(key, f'names "{name}", which is not a {what}', _one_of(allowed), near))
        return [name for name in kept if name in allowed]

    def listed(self, key: str, text: str, allowed: Sequence[str], what: str) -> list[str]:
        """The same for a list, which must not be empty."""
        if not (names := _listed(text)):
            self.problems.append(Problem(key, "is empty", _one_of(allowed)))
        return self.known(key, names, allowed, what)


def _chosen_table(
    study: Study, settings: "Settings", overrides: Sequence[str], asked: Asked, programs: bool = False
) -> Chosen:
    """``programs``: for CSV and JSON, which hold everything. Raises RefusedError."""
    checked = _Checked()
    seeds = _typed_seeds(study, settings, overrides, checked)
    study = study_of_seeds(study, seeds) if seeds else study
    headline, study = study.task.headline, _measured(study, asked, checked)
    names = rows_of(study)
    base = checked.known("--base", _given(asked.base), names, "row of the study")
    shown = _rows(asked, settings, overrides, names, checked)
    if checked.problems:  # the columns depend on the metrics
        raise RefusedError(checked.problems)
    reference = (base or [BASE])[0]
    rows = table_of(study, reference)
    columns = _listed(asked.columns)
    journals = programs or any(name.startswith("best_") for name in (*columns, asked.sort or ""))
    findings = find(study, rows, reference, headline if journals else None, asked.sentences)
    if programs or asked.verdict or any(name.startswith("verdict_") for name in columns):
        findings = with_verdicts(findings, study.task, rows)
    if asked.verdict and not findings.verdicts:
        found = f"needs published values of {reference} and of another row"
        checked.problems.append(Problem("--verdict", found, "write them in the rows' files, as row.published"))
    allowed = column_names(study.task, rows, findings, headline)
    kept = [] if asked.columns is None else checked.listed("--columns", asked.columns, allowed, "column")
    sort = checked.known("--sort", _given(asked.sort), allowed, "column")
    if checked.problems:
        raise RefusedError(checked.problems)
    view = View(tuple(shown), tuple(kept), next(iter(sort), None), asked.best, asked.intervals, seeds, asked.verdict)
    return Chosen(study, viewed(study.task, rows, view, findings), view, findings, rows)


def _typed_seeds(study: Study, settings: "Settings", overrides: Sequence[str], checked: _Checked) -> tuple[int, ...]:
    """The seeds of ``sweep.seeds``, if it was typed and leaves any out."""
    if not chosen(list(overrides), ("sweep.seeds=",)):
        return ()
    allowed = [str(seed) for seed in dict.fromkeys(trial.seed for trial in study.trials)]
    known = checked.known("sweep.seeds", map(str, settings.sweep.seeds), allowed, "seed of the study")
    return tuple(map(int, known)) if len(known) < len(allowed) else ()


def _rows(
    asked: Asked, settings: "Settings", overrides: Sequence[str], names: Sequence[str], checked: _Checked
) -> list[str]:
    """Those of --rows, or of ``sweep.rows``."""
    if asked.rows is not None:
        return checked.listed("--rows", asked.rows, names, "row of the study")
    typed = chosen(list(overrides), ("sweep.rows=",))
    return checked.known("sweep.rows", settings.sweep.rows, names, "row of the study") if typed else []


def _measured(study: Study, asked: Asked, checked: _Checked) -> Study:
    """The study with the chosen metrics on the chosen set."""
    if asked.set_name is None and not asked.metrics:
        return study
    card, sets = study.task, measured_sets(study)
    metrics = checked.known("--metric", asked.metrics, [metric.name for metric in card.metrics], "metric of the study")
    on = asked.set_name
    if on is not None and not checked.known("--set", [on], list(sets or card.scored_sets), "set with scores"):
        return study
    if on is not None and not asked.metrics:
        there = [metric for metric in card.metrics if metric.name in sets.get(on, [metric.name])]
        metrics = [metric.name for metric in there if metric.tabled] or [metric.name for metric in there]
    places = {metric.name: on or metric.set for metric in card.metrics}
    for name in metrics:
        if sets and name not in sets.get(places[name], []):
            checked.problems.append(_unmeasured(name, places[name], sets))
    return study_of_metrics(study, metrics, on)


def _unmeasured(metric: str, set_name: str, sets: Mapping[str, Sequence[str]]) -> Problem:
    having = [other for other, measured in sets.items() if metric in measured]
    there = f"sets with it: {', '.join(having)}" if having else f"{set_name} has {', '.join(sets.get(set_name, ()))}"
    return Problem("--metric", f"{metric} was not measured on {set_name}", there)


def _given(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _listed(text: str | None) -> list[str]:
    """Names separated by commas, also in brackets."""
    return [name for part in (text or "").strip("[] ").split(",") if (name := part.strip())]


def _one_of(names: Sequence[str]) -> str:
    return f"must be one of {', '.join(names)}"


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
    from sweeps.verbs.compare import texts_of

    _refuse_places(output, figures, no_figures)
    study, settings = taken_study(overrides, SELECTING)
    page_path = output or study.folder / "report.html"
    made = _chosen_table(study, settings, overrides or [], Asked())
    from tracking.files import write_atomic
    from tracking.report.page import content_of, figure_files, page, write_figures

    findings = with_verdicts(made.findings, made.study.task, made.all_rows)
    content = content_of(made.study, made.rows, findings, texts_of(study, settings), drawn=not no_figures)
    if figures is not None:
        files = figure_files(content.figures)
        write_figures(figures, files)
        OUT.print(f"Wrote {len(files)} figures to {escape(str(figures))}", soft_wrap=True)
    write_atomic(page_path, page(content))
    OUT.print(f"Wrote [bold]{escape(str(page_path))}[/]; open it in a browser", soft_wrap=True)
    next_verb("ui", looking(study.folder, overrides))


def _refuse_places(output: Path | None, figures: Path | None, no_figures: bool) -> None:
    """Raises RefusedError with everything that is wrong with the places to write to."""
    problems: list[Problem] = []
    if figures and no_figures:
        found = "is typed with --figures, which writes them"
        problems.append(Problem("--no-figures", found, "leave one of the two out"))
    if output and (output.suffix.lower() not in (".html", ".htm") or output.is_dir()):
        page = output / "report.html" if output.is_dir() else output.with_suffix(".html")
        allowed = "must be a file that ends in .html"
        problems.append(Problem("--output", f"is {output}", allowed, f"--output {page}"))
    for option, folder in (("--output", output.parent if output else None), ("--figures", figures)):
        problems += _folder_problems(option, folder.absolute()) if folder else ()
    if problems:
        raise RefusedError(problems)


def _folder_problems(option: str, folder: Path) -> Iterator[Problem]:
    """The nearest existing folder above must be one in which files can be made."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        yield Problem(option, f"lies in {there}", "must lie in a folder that can be written to")
