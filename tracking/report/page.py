"""`allelse report`: one study as one page of HTML that needs nothing from elsewhere. Its texts stand in templates/."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tracking.report.figures import Figures
from tracking.report.provenance import provenance
from tracking.report.row_entries import Entry
from tracking.report.samples import Texts, samples
from tracking.report.tables import costs, results
from tracking.report.ticks import utc
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.study import Study, last_active

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
PUBLISHED_NOTE = (
    "A published row without a number of parameters has base's. Published rows stand at this study's FLOPs."
)


@dataclass(frozen=True)
class Content:
    """All that the page shows."""

    study: Study
    rows: Sequence[TableRow]
    entries: Sequence[Entry]
    findings: Findings
    figures: Figures
    notes: str  # below the table
    methods: str = ""
    texts: Texts = field(default_factory=dict)  # of the headline's set: what rows read and should write

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


def page(content: Content) -> str:
    """The page. The same study gives the same bytes."""
    sections = [section for section in _sections(content) if section.shown]
    known = {"study": content.study, "entries": content.entries, "facts": _facts(content), "sections": sections}
    return TEMPLATES.get_template("page.html").render(known)


def _sections(content: Content) -> list[Section]:
    study, rows, entries, findings = content.study, content.rows, content.entries, content.findings
    card, figures = study.task, content.figures
    found = samples(study, entries, content.texts).items()
    differences = {"drawings": figures.differences, "note": _differences_note(content)}
    scores = {"drawings": figures.scores, "note": _scores_note(content)}
    methods = [("", part) for part in content.methods.split("\n") if part]
    return [
        Section("table", "Results", "results.html", results(card, rows, entries, findings, content.notes)),
        Section(
            "differences", f"Differences from {findings.reference}", "figures.html", figures.differences and differences
        ),
        Section("verdict", "Against the published results", "text.html", _verdicts(findings)),
        Section("scores", "Score against cost", "figures.html", figures.scores and scores),
        Section("curves", "Learning curves", "curves.html", figures.curves),
        Section("costs", "Costs", "costs.html", costs(card, rows, entries)),
        *(Section(f"samples-{at}", name.capitalize(), "samples.html", of) for at, (name, of) in enumerate(found, 1)),
        Section("methods", "Methods", "text.html", methods),
        Section("provenance", "Provenance", "provenance.html", provenance(study)),
    ]


def _facts(content: Content) -> list[str]:
    """The line below the study's name."""
    study, seeds = content.study, len({trial.seed for trial in content.study.trials})
    finished, active = sum(row.seeds for row in content.rows), last_active(study)
    return [
        f"Ablation study of {study.task.name}",
        f"{len(content.rows)} rows",
        f"{seeds} seed{'s' * (seeds > 1)}",
        f"{finished} of {len(study.trials)} trials finished",
        *([f"last active {utc(active)}"] if active else []),
    ]


def _verdicts(findings: Findings) -> list[tuple[str, str]]:
    """Only of tested rows. The rule stands below the counts."""
    given = [verdict for verdict in findings.verdicts.values() if findings.seeds[verdict.metric.name].tests]
    return [("note" if place else "lead", line) for verdict in given for place, line in enumerate(verdict.lines())]


def _differences_note(content: Content) -> str:
    tested = any(of.tests for of in content.findings.seeds.values())
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
