"""The verb ``report``: a study as one page of HTML."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_verb, print_line
from sweeps.planning.studies.study_overrides import looking
from sweeps.problems import Problem, refusal, refuse
from sweeps.verbs.choice import SELECTING_RECORDED, Choice
from sweeps.verbs.command import OverrideList, guarded, taken_study
from tracking.observed.record import is_observed
from tracking.study import Study
from tracking.table.study_table import StudyTable

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

HTML_SUFFIXES = (".html", ".htm")

Page = Annotated[
    Path | None,
    typer.Option("--output", help="Write the page here. The default is next to study.json."),
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
    """Write the study as one HTML page with table, figures, costs and samples.

    The page opens without a network.
    """
    _refuse_places(output, figures, no_figures)
    study, settings = taken_study(overrides, SELECTING_RECORDED)
    _refuse_published(study, output)
    table = Choice(study, settings, overrides or []).table()
    write_report(table, settings, output, figures, drawn=not no_figures)
    if not is_observed(study.folder):
        next_verb("ui", looking(study.folder, overrides))


def write_report(
    table: StudyTable,
    settings: "Settings",
    output: Path | None = None,
    figures: Path | None = None,
    drawn: bool = True,
) -> None:
    """Write a study's page, by default next to ``study.json``, and its figures."""
    from sweeps.verbs.texts import texts_of
    from tracking.files import write_atomic
    from tracking.report.page import Content, page, write_figures

    study = table.study
    path = output or study.folder / "report.html"
    content = Content(table, texts_of(study, settings), drawn=drawn)
    if figures is not None:
        count = write_figures(figures, content.figures)
        print_line(OUT, f"Wrote {count} files of figures to {figures}")
    write_atomic(path, page(content))
    OUT.print(f"Wrote [bold]{escape(str(path))}[/]; open it in a browser", soft_wrap=True)


def _refuse_published(study: Study, output: Path | None) -> None:
    """Raises RefusedError for a published study without --output: its own page stays as it is."""
    from tracking.published_study import is_published

    if output is None and is_published(study.folder):
        fault = f"is missing, and {study.name} is published: its own page stays as it is"
        example = "--output report.html"
        raise refusal("--output", fault, "must be a file elsewhere", example)


def _refuse_places(output: Path | None, figures: Path | None, no_figures: bool) -> None:
    """Raises RefusedError with everything that is wrong with the paths to write to."""
    problems: list[Problem] = []
    if figures and no_figures:
        fault = "can't be combined with --figures"
        problems.append(Problem("--no-figures", fault, "use one"))
    if output:
        problems += [*_page_problems(output), *_folder_problems("--output", output.parent)]
    if figures:
        problems += _folder_problems("--figures", figures)
    refuse(problems)


def _page_problems(output: Path) -> Iterator[Problem]:
    """The page must be an HTML file."""
    is_folder = output.is_dir()
    if is_folder or output.suffix.lower() not in HTML_SUFFIXES:
        page = output / "report.html" if is_folder else output.with_suffix(".html")
        allowed = "must be a file that ends in .html"
        yield Problem("--output", f"is {output}", allowed, f"--output {page}")


def _folder_problems(option: str, folder: Path) -> Iterator[Problem]:
    """The nearest existing folder must be one in which files can be made."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    is_writable = os.access(existing, os.W_OK | os.X_OK)
    if not (existing.is_dir() and is_writable):
        yield Problem(option, f"is in {existing}", "must be in a writable folder")
