"""A study's report, made from its folder: the page, and figures as files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tracking.files import write_bytes
from tracking.report.curves import read_curves
from tracking.report.drawing import FORMATS
from tracking.report.figures import Figures, draw
from tracking.report.page import Content, page
from tracking.report.row_entries import entries
from tracking.report.samples import Texts
from tracking.statistics.findings import Findings, find, with_verdicts
from tracking.statistics.rows import BASE, TableRow, table
from tracking.study import Study
from tracking.table.caption import caption
from tracking.table.methods import methods


def content_of(study: Study, rows: Sequence[TableRow], findings: Findings, texts: Texts, drawn: bool = True) -> Content:
    """All that the report shows of these rows. ``texts``: lines of the headline's set, such as source and reference.

    Journals are read only for figures, if these are to be ``drawn``.
    """
    named = entries(rows)
    figures = draw(study.task, rows, named, findings, read_curves(study)) if drawn else Figures()
    notes = caption(study.task, rows, findings)
    told = _methods(study, rows, findings) if any(row.seeds for row in rows) else ""
    return Content(study, rows, named, findings, figures, notes, told, texts)


def whole_content(study: Study, texts: Texts | None = None) -> Content:
    """The same of all rows, with differences from base."""
    rows = table(study)
    findings = with_verdicts(find(study, rows, BASE), study.task, rows)
    return content_of(study, rows, findings, texts or {})


def report_page(study: Study, texts: Texts | None = None) -> str:
    """One page of HTML. The same folders give the same bytes."""
    return page(whole_content(study, texts))


def _methods(study: Study, rows: Sequence[TableRow], findings: Findings) -> str:
    """Tests over samples are told where there are none over seeds."""
    card = study.task
    seeds = {card.tested(each).name: found for each in card.tabled if (found := findings.seeds.get(each.name))}
    over_seeds = any(family.tests for family in seeds.values())
    samples = [] if over_seeds else list(findings.samples.values())
    return methods(study, findings.reference, seeds, samples, [row.row for row in rows])


def figure_files(figures: Figures) -> Mapping[str, bytes]:
    """Every figure as SVG, PDF and PNG, by file name."""
    return {f"{figure.name}.{kind}": figure.content(kind) for figure in figures.all for kind in FORMATS}


def write_figures(folder: Path, files: Mapping[str, bytes]) -> None:
    """The folder is created; files of the same names are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_bytes(folder / name, content)
