"""`allelse report`: one study as one page of HTML that needs nothing from elsewhere. Its texts are
in templates/.

Results and costs have a line per row in the study's order.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tracking.card import Metric
from tracking.files import write_atomic
from tracking.observed.record import doubts_by_title
from tracking.report.bucket_figures import bucket_figures
from tracking.report.curve_figures import curve_figures
from tracking.report.drawing import FIGURE_FORMATS, Drawing, Entry
from tracking.report.forest import forest
from tracking.report.output_samples import SetTexts, output_samples
from tracking.report.provenance_facts import provenance_facts, utc
from tracking.report.scatter import scatters
from tracking.report.set_scores import set_scores
from tracking.report.trial_pictures import trial_pictures
from tracking.statistics.references import ITS_REFERENCE
from tracking.statistics.study_findings import StudyFindings
from tracking.statistics.table_row import TableRow
from tracking.study import last_active
from tracking.table.caption import caption, cost_note, methods
from tracking.table.columns import (
    COST_LABELS,
    DEVICE_COST_LABELS,
    StudyColumn,
    columns_of,
    cost_words,
    interval_of,
)
from tracking.table.layout import brief, published_names, score_names
from tracking.table.study_table import StudyTable, View
from tracking.table.tested_captions import corrected_over, reference_words
from tracking.table.text import Column, templates
from tracking.words import count_of

INTERVALS = "Bar: 95 % interval, simultaneous over {rows} (Bonferroni)."
HOLLOW_NOTE = "Hollow markers: published differences."
DEVIATIONS = "Error bars: one standard deviation over seeds."
SIDE_BY_SIDE = "Rows of equal cost are drawn side by side."
BY_LENGTH = (
    "Each bucket is scored as a whole. In color: the rows whose difference from base changes most "
    "from the first bucket to the last. Others are gray. Tests: allelse table --by length."
)
PUBLISHED_COSTS = (
    "Published rows without a parameter count use base's. "
    "Published rows are drawn at this study's FLOPs."
)


@dataclass(frozen=True)
class Content:
    """What the page shows. ``texts``: lines of the headline's set, such as source and reference."""

    table: StudyTable
    texts: SetTexts = field(default_factory=dict)
    drawn: bool = True  # whether it has figures, for which journals are read

    @cached_property
    def entries(self) -> list[Entry]:
        return [Entry(place, row) for place, row in enumerate(self.table.rows)]

    @cached_property
    def differences(self) -> list[Drawing]:
        if not self.drawn:
            return []
        findings = self.table.findings
        drawings = [forest(metric, self.entries, findings) for metric in self.table.card.tabled]
        return [drawing for drawing in drawings if drawing is not None]

    @cached_property
    def scores(self) -> list[Drawing]:
        return scatters(self.table.card, self.entries) if self.drawn else []

    @cached_property
    def by_length(self) -> list[Drawing]:
        return bucket_figures(self.table, self.entries) if self.drawn else []

    @cached_property
    def curves(self) -> dict[str, list[Drawing]]:
        """By journal name."""
        return curve_figures(self.table.study, self.entries) if self.drawn else {}

    @property
    def figures(self) -> list[Drawing]:
        figures = [*self.differences, *self.scores, *self.by_length]
        for drawings in self.curves.values():
            figures += drawings
        return figures


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading, and what its template shows; left out if that is empty."""

    name: str
    title: str
    template: str
    content: Any


def write_figures(folder: Path, figures: Sequence[Drawing]) -> int:
    """Write every figure as SVG, PDF and PNG. The folder is created; files of the same names are
    replaced.

    Returns how many files there are."""
    files = dict[str, bytes]()
    for figure in figures:
        for kind in FIGURE_FORMATS:
            files[f"{figure.name}.{kind}"] = figure.content(kind)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return len(files)


def page(content: Content) -> str:
    """The page. The same study gives the same bytes."""
    sections = [section for section in _sections(content) if section.content]
    template = templates(Path(__file__).parent / "templates").get_template("page.html")
    return template.render(
        study=content.table.study,
        entries=content.entries,
        facts=_facts(content),
        sections=sections,
        summary=content.table.findings.summary,
    )


def _sections(content: Content) -> list[Section]:
    table = content.table
    doubts = doubts_by_title(table.study.folder)
    set_tables = set_scores(table, content.entries)
    sections = [
        Section("table", "Results", "results.html", _results(content)),
        Section("doubts", "Doubts about these runs", "doubts.html", doubts),
        Section("sets", "Scores on every set", "set_scores.html", set_tables),
        _differences_section(content),
        Section("verdict", "Against the published results", "text.html", _verdicts(table.findings)),
        _scores_section(content),
        _figures("by-length", "Scores by length", content.by_length, [BY_LENGTH]),
        Section("curves", "Learning curves", "curves.html", content.curves),
        Section("costs", "Costs", "costs.html", _costs(content)),
    ]
    samples_of_artifact = output_samples(table.study, content.entries, content.texts)
    for number, (artifact, samples) in enumerate(samples_of_artifact.items(), start=1):
        title = artifact.capitalize()
        sections.append(Section(f"samples-{number}", title, "samples.html", samples))
    pictures = trial_pictures(table.study, content.entries) if content.drawn else []
    sections.append(Section("pictures", "Pictures", "pictures.html", pictures))
    if any(row.seeds for row in table.rows):
        sections.append(Section("methods", "Methods", "text.html", [("", methods(table))]))
    facts = provenance_facts(table.study)
    sections.append(Section("provenance", "Provenance", "provenance.html", facts))
    return sections


def _differences_section(content: Content) -> Section:
    table = content.table
    reference = reference_words(table.rows, table.findings.reference)
    title = f"Differences from {reference}"
    if reference == ITS_REFERENCE:
        title = "Differences between rows"
    notes = []
    if _has_tests(table):
        tested = table.findings.families_of(table.card.headline)
        notes.append(INTERVALS.format(rows=corrected_over(table.findings, tested)))
    if _has_published_scores(table):
        notes.append(HOLLOW_NOTE)
    return _figures("differences", title, content.differences, notes)


def _scores_section(content: Content) -> Section:
    notes = [SIDE_BY_SIDE]
    if any(value is not None for row in content.table.rows for value in row.sd.values()):
        notes.insert(0, DEVIATIONS)
    if _has_published_scores(content.table):
        notes.append(PUBLISHED_COSTS)
    return _figures("scores", "Score against cost", content.scores, notes)


def _figures(name: str, title: str, drawings: list[Drawing], notes: Sequence[str]) -> Section:
    """Empty without a drawing."""
    figures = {"drawings": drawings, "note": " ".join(notes)}
    return Section(name, title, "figures.html", drawings and figures)


def _has_tests(table: StudyTable) -> bool:
    return any(
        family.tests
        for metric in table.card.tabled
        for family in table.findings.families_of(metric)
    )


def _has_published_scores(table: StudyTable) -> bool:
    return any(
        row.published.get(metric.name) is not None
        for row in table.rows
        for metric in table.card.tabled
    )


def _facts(content: Content) -> list[str]:
    """The line below the study's name."""
    study = content.table.study
    rows = content.table.rows
    seeds = len({trial.seed for trial in study.trials})
    diverged = sum(len(row.diverged) for row in rows)
    finished = sum(row.seeds for row in rows) + diverged
    facts = [
        f"Ablation study of {study.task.name}",
        f"{len(rows)} rows",
        count_of(seeds, "seed"),
        f"{finished} of {len(study.trials)} trials finished",
    ]
    if diverged:
        facts.append(f"{diverged} diverged")
    active = last_active(study)
    if active:
        facts.append(f"last active {utc(active)}")
    return facts


def _verdicts(findings: StudyFindings) -> list[tuple[str, str]]:
    """Only of tested rows. The rule follows the counts."""
    paragraphs = list[tuple[str, str]]()
    for verdict in findings.verdicts.values():
        if any(family.tests for family in findings.trained_families(verdict.metric.name)):
            lead, *notes = verdict.lines()
            paragraphs.append(("lead", lead))
            paragraphs += [("note", note) for note in notes]
    return paragraphs


@dataclass(frozen=True)
class Score:
    """A cell of the page."""

    role: str  # first, delta or published
    text: str
    sd: str = ""
    tooltip: str = ""
    is_missing: bool = False  # whether it lacks the value that it needs


def _results(content: Content) -> dict[str, Any]:
    """The study's table, and the lines below it."""
    table = content.table
    costs = _known_costs(table, COST_LABELS)
    column_of_name = columns_of(table)
    columns = [column_of_name[name] for name in (*score_names(table), *costs)]
    with_intervals = replace(table, view=View(intervals=True, seeds=table.view.seeds))
    notes = caption(with_intervals, [*score_names(table), *COST_LABELS])
    return {
        "metrics": table.card.tabled,
        "published": published_names(table),
        "costs": [COST_LABELS[name] for name in costs],
        "findings": table.findings,
        "lines": [(entry, _cells(table, columns, entry.row)) for entry in content.entries],
        "notes": notes.splitlines(),
    }


SUMMED = ("flops", "seconds", "device_flops")
"""Costs with a sum over the study."""


def _known_costs(table: StudyTable, names: Collection[str]) -> list[str]:
    """Those of these costs that any row has."""
    known_costs = list[str]()
    for name in names:
        if any(getattr(row.costs, name) is not None for row in table.rows):
            known_costs.append(name)
    return known_costs


def _cells(table: StudyTable, columns: Sequence[StudyColumn], row: TableRow) -> list[Score]:
    """In a row without a finished seed: its state once, in place of the first number."""
    metrics = table.card.tabled
    tooltips = {f"delta_{metric.name}": _tooltip(row, metric, table.findings) for metric in metrics}
    scores = {metric.name for metric in metrics}
    first_cost = next((column.name for column in columns if column.name in COST_LABELS), "")
    cells = list[Score]()
    for column, cell in zip(columns, brief(table.card, columns, row), strict=True):
        text, _, sd = cell.text.partition(" ± ")
        is_score = column.name in scores
        is_delta = column.name in tooltips
        role = _role(column, is_score or column.name == first_cost, is_delta)
        is_missing = (is_score or is_delta) and column.value(row) is None
        cells.append(Score(role, text, sd, tooltips.get(column.name, ""), is_missing))
    return cells


def _role(column: Column[TableRow], is_first: bool, is_delta: bool) -> str:
    """The class of a cell in the page's style sheet, or none."""
    if is_first:
        return "first"
    if is_delta:
        return "delta"
    return "published" if column.faint else ""


def _tooltip(row: TableRow, metric: Metric, findings: StudyFindings) -> str:
    """What the test says about the difference."""
    words = findings.words(row, metric) if row.seeds else ""
    return "; ".join(filter(None, [words, interval_of(row, metric, findings)]))


def _costs(content: Content) -> dict[str, Any]:
    """Parameters, FLOPs and time per seed, each with its share of the highest one, and their sums
    over all finished trials, also those that diverged. Parameters are not summed: nobody pays for
    them twice. Empty if none is known."""
    table = content.table
    labels = COST_LABELS | DEVICE_COST_LABELS
    names = _known_costs(table, labels)
    if not names:
        return {}
    results = _finished_results(table)
    heads = list[str]()
    sums = list[str]()
    columns = list[list[tuple[str, str]]]()
    for name in names:
        write = cost_words(table.card)[name]
        is_summed = name in SUMMED
        heads.append(f"{labels[name]} per seed" if is_summed else labels[name])
        sums.append(_sum(results, name, write) if is_summed else "")
        values = [getattr(row.costs, name) for row in table.rows]
        highest = max(value or 0 for value in values)
        columns.append([(write(value), _share(value, highest)) for value in values])
    cells_of_rows = zip(*columns, strict=True)
    notes = "; ".join(f"{labels[name]}: {cost_note(table, name)}" for name in names)
    return {
        "heads": heads,
        "lines": list(zip(content.entries, cells_of_rows, strict=True)),
        "sums": sums,
        "seeds": len(results),
        "note": f"{notes}. The sum counts finished trials, without interrupted attempts.",
    }


def _finished_results(table: StudyTable) -> list[dict[str, Any]]:
    """Of the trials of the table's rows."""
    rows = {row.row for row in table.rows}
    trials = [trial for trial in table.study.trials if trial.row in rows]
    standings = table.study.standings(trials)
    return [standing.result for standing in standings if standing.result is not None]


def _sum(results: Sequence[Mapping[str, Any]], name: str, write: Callable[[float], str]) -> str:
    """Of one cost, over the trials for which it is known."""
    known = [result[name] for result in results if result.get(name) is not None]
    bound = "at least " if len(known) < len(results) else ""
    return f"{bound}{write(sum(known))}"


def _share(value: float | None, highest: float) -> str:
    return f"{100 * value / highest:.1f}%" if value and highest else "0%"
