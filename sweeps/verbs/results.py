"""The verbs that show results, ``table``, ``report`` and ``compare``: what is wrong is refused at
once."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_verb
from sweeps.planning.studies.study_overrides import chosen, looking
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import (
    Checked,
    Json,
    OverrideList,
    guarded,
    listed,
    names_and_overrides,
    rows_of,
    taken_study,
)
from tracking.observed.record import is_observed
from tracking.statistics.findings import Findings, find
from tracking.statistics.rows import BASE, TableRow
from tracking.statistics.rows import table as table_of
from tracking.study import Study, study_of_metrics, study_of_seeds
from tracking.table.columns import StudyTable, View
from tracking.table.layout import column_names, viewed
from tracking.words import listed as listed_words

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

SELECTING_RECORDED = ("sweep.rows=", "sweep.seeds=")
"""The overrides that select from a recorded study."""


LABEL = re.compile(r"[A-Za-z0-9:._/+-]+")
"""What LaTeX takes as a label in any document."""


class TableAs(StrEnum):
    """The formats that `allelse table` prints."""

    md = "md"
    csv = "csv"
    json = "json"
    tex = "tex"
    html = "html"


MetricNames = Annotated[
    list[str] | None, typer.Option("--metric", help="Show this metric; repeat it for several.")
]
Set = Annotated[
    str | None, typer.Option("--set", help="Show the scores on this set, such as test.")
]
Base = Annotated[str | None, typer.Option("--base", help="Take differences from this row.")]
ShownRows = Annotated[str | None, typer.Option("--rows", help="Show these rows, such as base,big.")]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Show these columns, by their names in CSV.")
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", help="Sort by this column; the best value of a metric is first."),
]
Best = Annotated[bool, typer.Option("--best", help="Print the best values in bold.")]
Intervals = Annotated[
    bool, typer.Option("--intervals", help="Show the 95 % interval of each difference.")
]
Verdicts = Annotated[
    bool,
    typer.Option("--verdict", help="Compare the differences with the published ones, by a rule."),
]
Chosen = Annotated[
    str | None,
    typer.Option(
        "--chosen", help="Of rows that score the same weights, only the best one by this metric."
    ),
]
WithNames = Annotated[
    bool, typer.Option("--row/--no-row", help="Show the name of each row, as commands take it.")
]
Short = Annotated[
    bool | None,
    typer.Option(
        "--short/--long",
        help="A caption for a paper, or all that can be said. For tex it is short.",
    ),
]
Caption = Annotated[str | None, typer.Option("--caption", help="This text instead of the caption.")]
Label = Annotated[
    str | None, typer.Option("--label", help="The label in LaTeX, such as tab:ablation.")
]
AsFormat = Annotated[
    TableAs | None, typer.Option("--format", help="Print md, csv, json, tex or html.")
]


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
    chosen_by: Chosen = None,
    names: WithNames = False,
    short: Short = None,
    caption: Caption = None,
    label: Label = None,
) -> None:
    """Print the study's table: each row's scores, their difference from base, and its costs."""
    from tracking.table.layout import shown, written

    _refuse_label(label, as_format)
    study, settings = taken_study(overrides, SELECTING_RECORDED)
    options = (set_name, metrics or [], base, rows, columns, sort, best, intervals, verdict)
    if chosen_by is not None:
        typed: dict[str, object] = {"--row": names, "--short": short is not None}
        typed.update(zip(OPTIONS_OF_CHOICE, options, strict=True))
        _refuse_with_chosen(typed)
        whole = Choice(study, settings, overrides or []).seeds_chosen()
        _print_chosen(whole, chosen_by, as_format, caption, label or "")
        return
    made = Choice(
        study, settings, overrides or [], as_format in (TableAs.csv, TableAs.json), *options
    ).table()
    view = replace(made.view, names=names, short=short, caption=caption, label=label or "")
    made = replace(made, view=view)
    if as_format is None:
        OUT.print(shown(made, OUT.width))
        next_verb(_next_verb(study), looking(study.folder, overrides))
    else:
        OUT.file.write(written(as_format, made))


def _next_verb(study: Study) -> str:
    """After the table. Runs that were imported are in no store of ours, until `sync` sends them."""
    return "report" if is_observed(study.folder) else "ui"


OPTIONS_OF_CHOICE = (
    *("--set", "--metric", "--base", "--rows", "--columns", "--sort"),
    *("--best", "--intervals", "--verdict"),
)
"""In the order of `Choice`'s fields."""


def _refuse_with_chosen(options: Mapping[str, object]) -> None:
    """Raises RefusedError for options that the table of ``--chosen`` has no place for."""
    typed = [name for name, value in options.items() if value]
    if typed:
        fault = f"can't be combined with {listed_words(typed)}: it prints a table of its own"
        raise RefusedError([Problem("--chosen", fault, "use one")])


def _print_chosen(
    study: Study, metric_name: str, as_format: TableAs | None, caption: str | None, label: str
) -> None:
    """The table of ``--chosen``. Raises RefusedError."""
    from tracking.table.chosen_table import chosen_table, shown, written

    checked = Checked()
    metrics = {metric.name: metric for metric in study.task.metrics}
    name = checked.one("--chosen", metric_name, list(metrics), "metric of the study")
    if not any(trial.weights for trial in study.trials):
        fault = f"finds nothing to choose: no row of {study.name} scores the weights of another row"
        allowed = "add rows that change only keys for scoring, or leave --chosen out"
        checked.problems.append(Problem("--chosen", fault, allowed))
    checked.refuse()
    table_of_chosen = chosen_table(study, metrics[name or metric_name])
    if as_format is None:
        OUT.print(shown(table_of_chosen, OUT.width, caption))
    else:
        OUT.file.write(written(as_format, table_of_chosen, caption, label))


def _refuse_label(label: str | None, as_format: TableAs | None) -> None:
    """Raises RefusedError for a label that LaTeX cannot have, or that no LaTeX shows."""
    if label is None:
        return
    if as_format != TableAs.tex:
        raise RefusedError(
            [Problem("--label", "is for LaTeX", "add --format tex, or leave it out")]
        )
    if not LABEL.fullmatch(label):
        allowed = "must be letters, digits and any of : . _ / + -, such as tab:ablation"
        raise RefusedError([Problem("--label", f'is "{label}"', allowed)])


@dataclass(frozen=True)
class Choice:
    """What is typed to choose from a study; lists are separated by commas. ``programs``: CSV and
    JSON hold all."""

    study: Study
    settings: "Settings"
    overrides: Sequence[str]
    programs: bool = False
    set_name: str | None = None
    metrics: Sequence[str] = ()
    base: str | None = None
    rows: str | None = None
    columns: str | None = None
    sort: str | None = None
    best: bool = False
    intervals: bool = False
    verdict: bool = False
    checked: Checked = field(default_factory=Checked)

    def table(self) -> StudyTable:
        """Raises RefusedError with every name that the study does not have."""
        checked = self.checked
        seeds = self._seeds()
        study = self._measured(study_of_seeds(self.study, seeds) if seeds else self.study)
        base = checked.one("--base", self.base, rows_of(study), "row of the study") or BASE
        shown = self._rows(rows_of(study))
        checked.refuse()  # the columns depend on the metrics
        rows = table_of(study, base)
        whole = StudyTable(study, rows, self._findings(study, rows, base))
        allowed = column_names(whole, self.study.task.headline)
        columns = (
            []
            if self.columns is None
            else checked.listed("--columns", self.columns, allowed, "column")
        )
        sort = checked.one("--sort", self.sort, allowed, "column")
        checked.refuse()
        view = View(
            tuple(shown), tuple(columns), sort, self.best, self.intervals, seeds, self.verdict
        )
        return viewed(replace(whole, view=view))

    def seeds_chosen(self) -> Study:
        """The study with the seeds of ``sweep.seeds``. Raises RefusedError."""
        seeds = self._seeds()
        self.checked.refuse()
        return study_of_seeds(self.study, seeds) if seeds else self.study

    def _findings(self, study: Study, rows: list[TableRow], base: str) -> Findings:
        columns = [*listed(self.columns), self.sort or ""]
        journals = self.programs or any(name.startswith("best_") for name in columns)
        found = find(study, rows, base, self.study.task.headline if journals else None)
        if self.verdict and not found.verdicts:
            needs = f"needs published values of {base} and of another row"
            self.checked.problems.append(
                Problem("--verdict", needs, "write them in the rows' files, as row.published")
            )
        return found

    def _seeds(self) -> tuple[int, ...]:
        """Those of ``sweep.seeds``, if it was typed and leaves any out."""
        if not chosen(list(self.overrides), ("sweep.seeds=",)):
            return ()
        allowed = [str(seed) for seed in dict.fromkeys(trial.seed for trial in self.study.trials)]
        known = self.checked.known(
            "sweep.seeds", map(str, self.settings.sweep.seeds), allowed, "seed of the study"
        )
        return tuple(map(int, known)) if len(known) < len(allowed) else ()

    def _rows(self, names: Sequence[str]) -> list[str]:
        """Those of --rows, or of ``sweep.rows``."""
        if self.rows is not None:
            return self.checked.listed("--rows", self.rows, names, "row of the study")
        typed = self.settings.sweep.rows if chosen(list(self.overrides), ("sweep.rows=",)) else ()
        return self.checked.known("sweep.rows", typed, names, "row of the study")

    def _measured(self, study: Study) -> Study:
        """The study with the chosen metrics on the chosen set."""
        if self.set_name is None and not self.metrics:
            return study
        card = study.task
        sets = study.measured_sets()
        on = self.set_name
        known = [metric.name for metric in card.metrics]
        metrics = self.checked.known("--metric", self.metrics, known, "metric of the study")
        if on is not None and not self.checked.scored(on, card, sets):
            return study
        if on is not None and not self.metrics:
            there = [
                metric for metric in card.metrics if metric.name in sets.get(on, [metric.name])
            ]
            metrics = [metric.name for metric in there if metric.tabled] or [
                metric.name for metric in there
            ]
        places = {metric.name: on or metric.set for metric in card.metrics}
        unmeasured = [name for name in metrics if sets and name not in sets.get(places[name], [])]
        self.checked.problems.extend(_unmeasured(name, places[name], sets) for name in unmeasured)
        return study_of_metrics(study, metrics, on)


def _unmeasured(metric: str, set_name: str, sets: Mapping[str, Sequence[str]]) -> Problem:
    having = [other for other, measured in sets.items() if metric in measured]
    there = (
        f"sets with it: {', '.join(having)}"
        if having
        else f"{set_name} has {', '.join(sets.get(set_name, ()))}"
    )
    return Problem("--metric", f"{metric} was not measured on {set_name}", there)


Page = Annotated[
    Path | None,
    typer.Option("--output", help="Write the page here; by default next to study.json."),
]
FigureFolder = Annotated[
    Path | None, typer.Option("--figures", help="Write the figures here, as SVG, PDF and PNG.")
]
NoFigures = Annotated[
    bool, typer.Option("--no-figures", help="Leave figures out: faster for a large study.")
]


@guarded
def report(
    overrides: OverrideList = None,
    output: Page = None,
    figures: FigureFolder = None,
    no_figures: NoFigures = False,
) -> None:
    """Write the study as one page of HTML: table, figures, costs, samples. Opens without a
    network."""
    _refuse_places(output, figures, no_figures)
    study, settings = taken_study(overrides, SELECTING_RECORDED)
    _refuse_published(study, output)
    made = Choice(study, settings, overrides or []).table()
    write_report(made, settings, output, figures, drawn=not no_figures)
    if not is_observed(study.folder):
        next_verb("ui", looking(study.folder, overrides))


def write_report(
    made: StudyTable,
    settings: "Settings",
    output: Path | None = None,
    figures: Path | None = None,
    drawn: bool = True,
) -> None:
    """Write the page of a study, by default next to ``study.json``, and its figures to their
    folder; say where."""
    from sweeps.verbs.texts import texts_of
    from tracking.files import write_atomic
    from tracking.report.page import Content, page, write_figures

    study = made.study
    page_path = output or study.folder / "report.html"
    content = Content(made, texts_of(study, settings), drawn=drawn)
    if figures is not None:
        number = write_figures(figures, content.figures)
        OUT.print(f"Wrote {number} files of figures to {escape(str(figures))}", soft_wrap=True)
    write_atomic(page_path, page(content))
    OUT.print(f"Wrote [bold]{escape(str(page_path))}[/]; open it in a browser", soft_wrap=True)


def _refuse_published(study: Study, output: Path | None) -> None:
    """Raises RefusedError without a place for the page: what lies in a published study stays as it
    is."""
    from tracking.published_study import is_published

    if output is None and is_published(study.folder):
        fault = f"is missing, and {study.name} is published: its own page stays as it is"
        raise RefusedError(
            [Problem("--output", fault, "must be a file elsewhere", "--output report.html")]
        )


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


Names = Annotated[
    list[str], typer.Argument(metavar="A B [KEY=VALUE …]", help="Two trials, rows or studies.")
]
OfSet = Annotated[
    str | None, typer.Option("--set", help="Scores of this set; by default each metric's own.")
]
OfMetric = Annotated[
    str | None, typer.Option("--metric", help="Only this metric, such as the table's first.")
]


@guarded
def compare(
    arguments: Names, set_name: OfSet = None, metric: OfMetric = None, as_json: Json = False
) -> None:
    """Compare two trials, rows or studies: settings, tests over seeds and samples, the samples that
    differ most."""
    from sweeps.verbs.compare import compare as compared  # NumPy and SciPy

    compared(*names_and_overrides(arguments), set_name, metric, as_json)


def _folder_problems(option: str, folder: Path) -> Iterator[Problem]:
    """The nearest existing folder above must be one in which files can be made."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        yield Problem(option, f"lies in {there}", "must lie in a folder that can be written to")
