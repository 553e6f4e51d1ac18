"""`allelse report`: one study as one page of HTML that needs nothing from elsewhere. Its texts stand in templates/."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tracking.files import write_atomic
from tracking.report.curves import curve_figures, read_curves
from tracking.report.drawing import FORMATS, Drawing, Entry, entries
from tracking.report.forest import forest
from tracking.report.scatter import scatters
from tracking.report.tables import Texts, costs, provenance, results, samples, utc
from tracking.statistics.findings import Findings, find, with_verdicts
from tracking.statistics.rows import BASE, TableRow, table
from tracking.study import Study, last_active
from tracking.table.caption import caption
from tracking.table.columns import View
from tracking.table.methods import methods
from tracking.table.text import templates

PUBLISHED_NOTE = (
    "A published row without a number of parameters has base's. Published rows stand at this study's FLOPs."
)


@dataclass(frozen=True)
class Figures:
    """By the part of the page where they stand."""

    differences: list[Drawing] = field(default_factory=list)
    scores: list[Drawing] = field(default_factory=list)
    curves: dict[str, list[Drawing]] = field(default_factory=dict)  # by journal name

    @property
    def all(self) -> list[Drawing]:
        return [*self.differences, *self.scores, *(figure for of in self.curves.values() for figure in of)]


@dataclass(frozen=True)
class Content:
    """What the page shows. ``texts``: lines of the headline's set, such as source and reference."""

    study: Study
    rows: Sequence[TableRow]
    findings: Findings
    texts: Texts
    figures: Figures

    @cached_property
    def entries(self) -> list[Entry]:
        return entries(self.rows)

    @property
    def published(self) -> bool:
        """Whether any row has a published score."""
        return any(row.published.get(metric.name) is not None for row in self.rows for metric in self.study.task.tabled)


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading, and what its template shows; left out if that is nothing."""

    name: str
    title: str
    template: str
    shown: Any


def content_of(study: Study, rows: Sequence[TableRow], findings: Findings, texts: Texts, drawn: bool = True) -> Content:
    """All that the report shows of these rows. Journals are read only for figures, if these are to be ``drawn``."""
    return Content(study, rows, findings, texts, _draw(study, rows, findings) if drawn else Figures())


def whole_content(study: Study, texts: Texts | None = None) -> Content:
    """The same of all rows, with differences from base."""
    rows = table(study)
    findings = with_verdicts(find(study, rows, BASE), study.task, rows)
    return content_of(study, rows, findings, texts or {})


def figure_files(figures: Figures) -> Mapping[str, bytes]:
    """Every figure as SVG, PDF and PNG, by file name."""
    return {f"{figure.name}.{kind}": figure.content(kind) for figure in figures.all for kind in FORMATS}


def write_figures(folder: Path, files: Mapping[str, bytes]) -> None:
    """The folder is created; files of the same names are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)


def _draw(study: Study, rows: Sequence[TableRow], findings: Findings) -> Figures:
    card, named = study.task, entries(rows)
    differences = [forest(metric, rows, named, findings) for metric in card.tabled]
    curves = curve_figures(read_curves(study), named)
    return Figures([each for each in differences if each], scatters(card, rows, named), curves)


def page(content: Content) -> str:
    """The page. The same study gives the same bytes."""
    sections = [section for section in _sections(content) if section.shown]
    known = {"study": content.study, "entries": content.entries, "facts": _facts(content), "sections": sections}
    return templates(Path(__file__).parent / "templates").get_template("page.html").render(known)


def _sections(content: Content) -> list[Section]:
    study, rows, entries, findings = content.study, content.rows, content.entries, content.findings
    figures, found = content.figures, samples(study, entries, content.texts).items()
    differences = {"drawings": figures.differences, "note": _differences_note(content)}
    scores = {"drawings": figures.scores, "note": _scores_note(content)}
    notes = caption(study.task, rows, findings, View(intervals=True))
    told = methods(study, findings, [row.row for row in rows]) if any(row.seeds for row in rows) else ""
    return [
        Section("table", "Results", "results.html", results(study.task, rows, entries, findings, notes)),
        Section(
            "differences", f"Differences from {findings.reference}", "figures.html", figures.differences and differences
        ),
        Section("verdict", "Against the published results", "text.html", _verdicts(findings)),
        Section("scores", "Score against cost", "figures.html", figures.scores and scores),
        Section("curves", "Learning curves", "curves.html", figures.curves),
        Section("costs", "Costs", "costs.html", costs(study, rows, entries)),
        *(Section(f"samples-{at}", name.capitalize(), "samples.html", of) for at, (name, of) in enumerate(found, 1)),
        Section("methods", "Methods", "text.html", told and [("", told)]),
        Section("provenance", "Provenance", "provenance.html", provenance(study)),
    ]


def _facts(content: Content) -> list[str]:
    """The line below the study's name."""
    study, seeds = content.study, len({trial.seed for trial in content.study.trials})
    diverged, active = sum(len(row.diverged) for row in content.rows), last_active(study)
    finished = sum(row.seeds for row in content.rows) + diverged
    return [
        f"Ablation study of {study.task.name}",
        f"{len(content.rows)} rows",
        f"{seeds} seed{'s' * (seeds > 1)}",
        f"{finished} of {len(study.trials)} trials finished",
        *([f"{diverged} diverged"] if diverged else []),
        *([f"last active {utc(active)}"] if active else []),
    ]


def _verdicts(findings: Findings) -> list[tuple[str, str]]:
    """Only of tested rows. The rule stands below the counts."""
    given = [verdict for verdict in findings.verdicts.values() if findings.families[verdict.metric.name].tests]
    return [("note" if place else "lead", line) for verdict in given for place, line in enumerate(verdict.lines())]


def _differences_note(content: Content) -> str:
    tested = any(of.tests for of in content.findings.families.values())
    metrics = content.study.task.tabled
    sampled = any(content.findings.sample_test(row, metric) for row in content.rows for metric in metrics)
    notes = {
        "Bar: 95 % interval, simultaneous over all tested rows (Bonferroni).": tested,
        f"Rows with one seed: 95 % interval over {content.study.task.sample}s.": sampled,
        "Hollow: the published difference.": content.published,
    }
    return " ".join(note for note, holds in notes.items() if holds)


def _scores_note(content: Content) -> str:
    spread = any(value is not None for row in content.rows for value in row.sd.values())
    notes = {
        "Error bars: one standard deviation over seeds.": spread,
        "Rows of equal cost are drawn side by side.": True,
        PUBLISHED_NOTE: content.published,
    }
    return " ".join(note for note, holds in notes.items() if holds)
