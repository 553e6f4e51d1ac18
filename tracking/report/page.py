"""`ablate report`: one study as one page of HTML that needs nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracking.findings import Findings
from tracking.report.cost_section import cost_section
from tracking.report.drawing import Drawing
from tracking.report.elements import Html, element
from tracking.report.figures import Figures
from tracking.report.provenance_section import provenance_section
from tracking.report.row_entries import Entry
from tracking.report.samples_section import Texts, samples_sections
from tracking.report.table_section import table_section
from tracking.report.ticks import utc
from tracking.rows import BASE, TableRow
from tracking.studies import last_active
from tracking.study import Study

PUBLISHED_NOTE = (
    "A published row without a number of parameters has base's. Published rows stand at this study's FLOPs."
)
CURVES_NOTE = "Line: mean over the seeds. Band: from the lowest to the highest seed. The first steps are cut off."
HERE = Path(__file__).parent


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
    """A part of the page with a heading; left out if it is empty."""

    name: str
    title: str
    parts: Sequence[Html]


def page(content: Content) -> str:
    """The page. The same study gives the same bytes."""
    study = content.study
    sections = [section for section in _sections(content) if section.parts]
    body = element(
        "div",
        _header(study, content.rows),
        element("div", _side(sections, content.entries), element("main", *map(_section, sections)), class_="body"),
        class_="page",
    )
    tip = element("div", id="tip", hidden=True, role="status")
    script = element("script", Html((HERE / "page.js").read_text("utf-8")))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{study.name}: ablation study"),
        element("link", rel="icon", href="data:,"),
        element("style", Html((HERE / "page.css").read_text("utf-8") + _choosing(content.entries))),
    )
    return "<!doctype html>\n" + element("html", head, element("body", body, tip, script), lang="en") + "\n"


def _sections(content: Content) -> list[Section]:
    study, card, rows, entries = content.study, content.study.task, content.rows, content.entries
    figures, findings = content.figures, content.findings
    samples = samples_sections(study, entries, content.texts)
    return [
        Section("table", "Results", table_section(card, rows, entries, findings, content.notes)),
        Section("differences", f"Differences from {findings.reference}", _differences(figures.differences, content)),
        Section("verdict", "Against the published results", _verdicts(findings)),
        Section("scores", "Score against cost", _scores(figures.scores, content)),
        Section("curves", "Learning curves", _curves(figures.curves)),
        Section("costs", "Costs", cost_section(card, rows, entries)),
        *(
            Section(f"samples-{place}", name.capitalize(), parts)
            for place, (name, parts) in enumerate(samples.items(), 1)
        ),
        Section("methods", "Methods", [element("p", part) for part in content.methods.split("\n") if part]),
        Section("provenance", "Provenance", provenance_section(study)),
    ]


def _section(section: Section) -> Html:
    heading = element("h2", section.title, id=f"{section.name}-title")
    return element("section", heading, *section.parts, id=section.name, aria_labelledby=f"{section.name}-title")


def _header(study: Study, rows: Sequence[TableRow]) -> Html:
    seeds = sorted({trial.seed for trial in study.trials})
    finished, asked = sum(row.seeds for row in rows), len(study.trials)
    words = [
        f"Ablation study of {study.task.name}",
        f"{len(rows)} rows",
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)}",
        f"{finished} of {asked} trials finished",
        *([f"last active {utc(active)}"] if (active := last_active(study)) else []),
    ]
    return element("header", element("h1", study.name), element("p", " · ".join(words)))


def _side(sections: Sequence[Section], entries: Sequence[Entry]) -> Html:
    links = [element("li", element("a", section.title, href=f"#{section.name}")) for section in sections]
    choices = [
        _choice(entry, place == 0 or entries[place - 1].group != entry.group) for place, entry in enumerate(entries)
    ]
    buttons = [
        element("button", name, type="button", data_show=shown) for name, shown in (("All", "all"), ("None", "none"))
    ]
    rows = element(
        "fieldset",
        element("legend", "Rows shown"),
        element("div", *choices, class_="choices"),
        element("div", *buttons, class_="buttons"),
    )
    return element("nav", element("ol", *links), rows, class_="side", aria_label="Sections and rows")


def _choice(entry: Entry, begins: bool) -> Html:
    box = element("input", type="checkbox", id=f"show-{entry.place}", checked=True, autocomplete="off")
    group = [element("b", entry.group), " "] if begins and entry.row != BASE else []
    return element("label", box, element("span", *group, entry.label), class_=f"row-{entry.place}", title=entry.row)


def _choosing(entries: Sequence[Entry]) -> str:
    """A row whose box is not checked is hidden in table and figures, also without JavaScript."""
    rules = (
        f"body:has(#show-{entry.place}:not(:checked)) .row.row-{entry.place} {{ display: none; }}" for entry in entries
    )
    return "\n" + "\n".join(rules) + "\n"


def _figure(drawing: Drawing) -> Html:
    return element("figure", Html(drawing.inline()), id=drawing.name)


def _verdicts(findings: Findings) -> list[Html]:
    """Only of tested rows. The rule stands below the counts."""
    given = [verdict for verdict in findings.verdicts.values() if findings.seeds[verdict.metric.name].tests]
    parts: list[Html] = []
    for verdict in given:
        counts, *others = verdict.lines()
        parts += [element("p", counts, class_="lead"), *(element("p", line, class_="note") for line in others)]
    return parts


def _differences(drawings: Sequence[Drawing], content: Content) -> list[Html]:
    if not drawings:
        return []
    tested = any(of.tests for of in content.findings.seeds.values())
    metrics = content.study.task.tabled
    sampled = any(content.findings.sample_test(row, metric) for row in content.rows for metric in metrics)
    words = [
        *(["Bar: 95 % interval, simultaneous over all tested rows (Dunnett)."] if tested else []),
        *([f"Rows with one seed: 95 % interval over {content.study.task.sample}s."] if sampled else []),
        *(["Hollow: the published difference."] if content.published else []),
    ]
    note = [element("p", " ".join(words), class_="note")] if words else []
    return [element("div", *map(_figure, drawings), class_="figures wide"), *note]


def _scores(drawings: Sequence[Drawing], content: Content) -> list[Html]:
    if not drawings:
        return []
    spread = any(value is not None for row in content.rows for value in row.sd.values())
    words = [
        *(["Error bars: one standard deviation over seeds."] if spread else []),
        "Rows of equal cost are drawn side by side.",
        *([PUBLISHED_NOTE] if content.published else []),
    ]
    return [
        element("div", *map(_figure, drawings), class_="figures wide"),
        element("p", " ".join(words), class_="note"),
    ]


def _curves(by_name: Mapping[str, Sequence[Drawing]]) -> list[Html]:
    """The first quantity is open, the others can be opened."""
    parts: list[Html] = []
    for place, drawings in enumerate(by_name.values()):
        figures = element("div", *map(_figure, drawings), class_="figures")
        name = drawings[0].title.rpartition(":")[0]
        parts.append(figures if place == 0 else element("details", element("summary", name), figures))
    return [*parts, element("p", CURVES_NOTE, class_="note")] if parts else []
