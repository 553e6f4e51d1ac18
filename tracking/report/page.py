"""`allelse report`: one study as one page of HTML that needs nothing from elsewhere. Its texts
stand in templates/.

Results and costs have a line per row in the study's order. Then stands what the rows wrote, side by
side, and where the numbers come from, with every trial's state.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from tracking.card import Metric
from tracking.files import unless_damaged, write_atomic
from tracking.observed.record import doubts_by_title
from tracking.provenance import changes
from tracking.report.curves import curve_figures
from tracking.report.drawing import FIGURE_FORMATS, Drawing, Entry
from tracking.report.figures import forest, scatters
from tracking.report.set_scores import set_scores
from tracking.statistics.findings import Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study, StudyTrial, last_active, seconds
from tracking.table.caption import caption, cost_note, methods
from tracking.table.columns import (
    COST_LABELS,
    DEVICE_COST_LABELS,
    StudyColumn,
    StudyTable,
    View,
    columns_of,
    cost_words,
    interval_of,
)
from tracking.table.layout import brief, published_names, score_names
from tracking.table.tested_captions import SEVERAL, reference_words
from tracking.table.text import Column, templates
from tracking.words import plural, stopped_at, time

SHOWN_SAMPLES = 8
SetTexts = Mapping[str, Sequence[str]]
"""Lines of the set by what they are, such as source and reference. The last one is what outputs are
compared with."""
INTERVALS = "Bar: 95 % interval, simultaneous over all tested rows (Bonferroni)."
HOLLOW_NOTE = "Hollow: the published difference."
DEVIATIONS = "Error bars: one standard deviation over seeds."
SIDE_BY_SIDE = "Rows of equal cost are drawn side by side."
PUBLISHED_COSTS = (
    "A published row without a number of parameters has base's. "
    "Published rows stand at this study's FLOPs."
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
        found = [
            forest(metric, self.entries, self.table.findings)
            for metric in self.table.card.tabled
            if self.drawn
        ]
        return [each for each in found if each]

    @cached_property
    def scores(self) -> list[Drawing]:
        return scatters(self.table.card, self.entries) if self.drawn else []

    @cached_property
    def curves(self) -> dict[str, list[Drawing]]:
        """By journal name."""
        return curve_figures(self.table.study, self.entries) if self.drawn else {}

    @property
    def figures(self) -> list[Drawing]:
        return [
            *self.differences,
            *self.scores,
            *(figure for curve in self.curves.values() for figure in curve),
        ]


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading, and what its template shows; left out if that is
    nothing."""

    name: str
    title: str
    template: str
    shown: Any


def write_figures(folder: Path, figures: Sequence[Drawing]) -> int:
    """Write every figure as SVG, PDF and PNG. The folder is created; files of the same names are
    replaced.

    Returns how many files there are."""
    files = {
        f"{figure.name}.{kind}": figure.content(kind)
        for figure in figures
        for kind in FIGURE_FORMATS
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return len(files)


def page(content: Content) -> str:
    """The page. The same study gives the same bytes."""
    sections = [section for section in _sections(content) if section.shown]
    known = {
        "study": content.table.study,
        "entries": content.entries,
        "facts": _facts(content),
        "sections": sections,
    }
    known["summary"] = content.table.findings.summary
    return templates(Path(__file__).parent / "templates").get_template("page.html").render(known)


def _sections(content: Content) -> list[Section]:
    table, (of_differences, of_scores) = content.table, _figure_notes(content.table)
    differences = content.differences and {"drawings": content.differences, "note": of_differences}
    scores = content.scores and {"drawings": content.scores, "note": of_scores}
    told = methods(table) if any(row.seeds for row in table.rows) else ""
    samples = enumerate(_samples(content).items(), 1)
    reference = reference_words(table.rows, table.findings.reference)
    heading = (
        "Differences between rows" if reference == SEVERAL else f"Differences from {reference}"
    )
    return [
        Section("table", "Results", "results.html", _results(content)),
        Section(
            "doubts", "What cannot be defended", "doubts.html", doubts_by_title(table.study.folder)
        ),
        Section(
            "sets", "Scores on every set", "set_scores.html", set_scores(table, content.entries)
        ),
        Section("differences", heading, "figures.html", differences),
        Section("verdict", "Against the published results", "text.html", _verdicts(table.findings)),
        Section("scores", "Score against cost", "figures.html", scores),
        Section("curves", "Learning curves", "curves.html", content.curves),
        Section("costs", "Costs", "costs.html", _costs(content)),
        *(
            Section(f"samples-{at}", name.capitalize(), "samples.html", of)
            for at, (name, of) in samples
        ),
        Section("methods", "Methods", "text.html", told and [("", told)]),
        Section("provenance", "Provenance", "provenance.html", _provenance(table.study)),
    ]


def _figure_notes(table: StudyTable) -> tuple[str, str]:
    """Below differences, and below scores against costs: what bars mean only where there are
    some."""
    findings = table.findings
    tested = any(
        family.tests for metric in table.card.tabled for family in findings.families_of(metric)
    )
    spread = any(value is not None for row in table.rows for value in row.sd.values())
    published = any(
        row.published.get(of.name) is not None for row in table.rows for of in table.card.tabled
    )
    of_differences = ((INTERVALS, tested), (HOLLOW_NOTE, published))
    of_scores = ((DEVIATIONS, spread), (SIDE_BY_SIDE, True), (PUBLISHED_COSTS, published))
    return _applying(of_differences), _applying(of_scores)


def _applying(notes: Iterable[tuple[str, bool]]) -> str:
    """Those of the notes that apply, as one text."""
    return " ".join(note for note, applies in notes if applies)


def _facts(content: Content) -> list[str]:
    """The line below the study's name."""
    study = content.table.study
    rows = content.table.rows
    seeds = len({trial.seed for trial in study.trials})
    active = last_active(study)
    diverged = sum(len(row.diverged) for row in rows)
    finished = sum(row.seeds for row in rows) + diverged
    return [
        f"Ablation study of {study.task.name}",
        f"{len(rows)} rows",
        f"{seeds} {plural('seed', seeds)}",
        f"{finished} of {len(study.trials)} trials finished",
        *([f"{diverged} diverged"] if diverged else []),
        *([f"last active {_utc(active)}"] if active else []),
    ]


def _verdicts(findings: Findings) -> list[tuple[str, str]]:
    """Only of tested rows. The rule stands below the counts."""
    given = [
        verdict
        for verdict in findings.verdicts.values()
        if findings.families[verdict.metric.name].tests
    ]
    return [
        ("note" if place else "lead", line)
        for verdict in given
        for place, line in enumerate(verdict.lines())
    ]


@dataclass(frozen=True)
class Score:
    """A cell of the page. ``about`` is shown when it is pointed at."""

    role: str  # first, delta or published
    text: str
    sd: str = ""
    about: str = ""
    known: bool = True  # whether it has a value, or needs none


def _results(content: Content) -> dict[str, Any]:
    """The study's table, and the lines below it."""
    table = content.table
    known = columns_of(content.table)
    costs = _known_costs(content.table)
    columns = [known[name] for name in (*score_names(table), *costs)]
    notes = caption(replace(table, view=View(intervals=True)), [*score_names(table), *COST_LABELS])
    return {
        "metrics": table.card.tabled,
        "published": published_names(table),
        "costs": [COST_LABELS[name] for name in costs],
        "findings": table.findings,
        "lines": [(entry, _cells(table, columns, entry.row)) for entry in content.entries],
        "notes": notes.splitlines(),
    }


SUMMED = ("flops", "seconds", "device_flops")
"""Costs of which a study has a sum."""


def _known_costs(table: StudyTable, labels: Collection[str] = COST_LABELS) -> list[str]:
    return [name for name in labels if any(getattr(row, name) is not None for row in table.rows)]


def _cells(table: StudyTable, columns: Sequence[StudyColumn], row: TableRow) -> list[Score]:
    """In a row without a finished seed: its state once, in place of the first number."""
    metrics = table.card.tabled
    findings = table.findings
    about = {f"delta_{metric.name}": _about(row, metric, findings) for metric in metrics}
    scores = {metric.name for metric in metrics}
    first_cost = next((column.name for column in columns if column.name in COST_LABELS), "")
    found = list[Score]()
    for column, cell in zip(columns, brief(table.card, columns, row), strict=True):
        text, _, sd = cell.text.partition(" ± ")
        first = column.name in (*scores, first_cost)
        role = _role(column, first, column.name in about)
        known = column.name not in (*scores, *about) or column.value(row) is not None
        found.append(Score(role, text, sd, about.get(column.name, ""), known))
    return found


def _role(column: Column[TableRow], is_first: bool, is_delta: bool) -> str:
    """The class of a cell in the page's style sheet, or none."""
    if is_first:
        return "first"
    if is_delta:
        return "delta"
    return "published" if column.faint else ""


def _about(row: TableRow, metric: Metric, findings: Findings) -> str:
    """What the test says of the difference."""
    said = findings.words(row, metric) if row.seeds else ""
    return "; ".join(filter(None, [said, interval_of(row, metric, findings)]))


def _costs(content: Content) -> dict[str, Any]:
    """Parameters, FLOPs and time per seed, each with its share of the highest one, and their sums
    over all finished trials, also those that diverged. Parameters are not summed: nobody pays for
    them twice. Empty if none is known."""
    study = content.table.study
    rows = content.table.rows
    labels = COST_LABELS | DEVICE_COST_LABELS
    known = _known_costs(content.table, labels)
    if not known:
        return {}
    write = cost_words(study.task)
    shown = {row.row for row in rows}
    seen = study.standings([trial for trial in study.trials if trial.row in shown])
    results = [each.result for each in seen if each.result is not None]
    top = {name: max(getattr(row, name) or 0 for row in rows) for name in known}
    cells = [
        [(write[name](of := getattr(row, name)), _share(of, top[name])) for name in known]
        for row in rows
    ]
    sums = {
        name: write[name](sum(result.get(name) or 0 for result in results))
        for name in known
        if name in SUMMED
    }
    notes = "; ".join(f"{labels[name]}: {cost_note(content.table, name)}" for name in known)
    return {
        "heads": [f"{labels[name]} per seed" if name in sums else labels[name] for name in known],
        "lines": list(zip(content.entries, cells, strict=True)),
        "sums": [sums.get(name, "") for name in known],
        "seeds": len(results),
        "note": f"{notes}. The sum counts finished trials, without interrupted attempts.",
    }


def _share(value: float | None, top: float) -> str:
    return f"{100 * value / top:.1f}%" if value and top else "0%"


def _provenance(study: Study) -> dict[str, Any]:
    """``facts``: by name and value, the trials that have it. What all trials share stands once."""
    facts: dict[str, dict[str, list[str]]] = {}
    for trial in study.trials:
        for name, value in _trial_facts(
            unless_damaged(study.trial_folder(trial).provenance, {})
        ).items():
            facts.setdefault(name, {}).setdefault(value, []).append(trial.name)
    asked = [
        (_utc(at) if (at := seconds(each["ts"])) else each["ts"], each["command"])
        for each in study.asked
    ]
    return {
        "asked": asked,
        "facts": facts,
        "trials": [(trial.name, _trial_cells(study, trial)) for trial in study.trials],
    }


def _trial_facts(held: Mapping[str, Any]) -> dict[str, str]:
    """As text, without what is unknown."""
    cpu = held.get("cpu") or {}
    versions = held.get("versions") or {}
    facts = {
        "commit": f"{held['commit']}{changes(held)}" if held.get("commit") else None,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "host": held.get("host"),
        "processor": f"{cpu.get('model') or 'unknown'}, {cpu.get('count')} CPUs" if cpu else None,
        "device": held.get("device"),
        "data fingerprint": held.get("data_fingerprint"),
    }
    return {name: str(value) for name, value in facts.items() if value}


def _trial_cells(study: Study, trial: StudyTrial) -> tuple[object, ...]:
    """State, attempts, step, time, key."""
    standing = study.standing(trial)
    held = standing.result or {}
    attempts = len(unless_damaged(study.trial_folder(trial).attempts.all, []))
    return (
        standing.state,
        attempts,
        stopped_at(held) or held.get("step", ""),
        time(held.get("seconds")),
        trial.key[:12],
    )


def _utc(ts: float) -> str:
    """Unix seconds as 2026-11-22 20:14 UTC."""
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class Output:
    """The lines that one row wrote, with its first finished seed."""

    entry: Entry
    seed: int
    lines: Mapping[int, str]  # by the place of the sample, from 1 on


def _samples(content: Content) -> dict[str, dict[str, Any]]:
    """By artifact; an artifact that no finished trial has is left out."""
    study = content.table.study
    found = dict[str, dict[str, Any]]()
    on = study.task.headline.set
    for artifact in study.task.artifacts:
        if outputs := [
            output for entry in content.entries if (output := _output(study, entry, artifact, on))
        ]:
            found[artifact] = _shown(outputs, content.texts, on)
    return found


def _output(study: Study, entry: Entry, artifact: str, set_name: str) -> Output | None:
    for trial in study.trials:
        folder = study.trial_folder(trial)
        if trial.row != entry.row.row:
            continue
        lines = folder.artifact_lines(artifact, set_name)
        if lines and study.standing(trial).result is not None:
            return Output(entry, trial.seed, lines)
    return None


def _shown(outputs: Sequence[Output], texts: SetTexts, set_name: str) -> dict[str, Any]:
    """Some of the lines that all rows have, evenly spaced among those on which rows differ."""
    shared = [line for line in outputs[0].lines if all(line in output.lines for output in outputs)]
    count = len(shared)
    given = {name: lines for name, lines in texts.items() if len(lines) == count}
    differing = [place for place in shared if len({output.lines[place] for output in outputs}) > 1]
    places = differing or shared
    chosen = (
        [places[at * len(places) // SHOWN_SAMPLES] for at in range(SHOWN_SAMPLES)]
        if len(places) > SHOWN_SAMPLES
        else places
    )
    seeds = ", ".join(map(str, sorted({output.seed for output in outputs})))
    words = f"{len(chosen)} of {count} lines of {set_name}, evenly spaced among those on which rows differ"
    marks = (
        f"Marked: words that the {[BASE, *given][-1]} does not have there. Struck: words left out."
    )
    return {
        "note": f"{words}; seed {seeds}. {marks}",
        "samples": [_sample(outputs, given, place) for place in chosen],
    }


def _sample(outputs: Sequence[Output], texts: SetTexts, place: int) -> dict[str, Any]:
    """``wrote``: each line with the rows that wrote it."""
    base = next((output for output in outputs if output.entry.is_base), outputs[0])
    given = {name: lines[place - 1] for name, lines in texts.items()}
    compared = [base.lines[place], *given.values()][-1]
    wrote: dict[str, list[Entry]] = {}
    for output in outputs:
        wrote.setdefault(output.lines[place], []).append(output.entry)
    parts = [(_marked(text, compared), rows) for text, rows in wrote.items()]
    return {"line": place, "given": given, "wrote": parts}


def _marked(text: str, compared: str) -> list[tuple[str, str]]:
    """The words of a text in parts: "equal" to the other text, not there in it, or, of its words,
    "delete"d."""
    ours = text.split()
    theirs = compared.split()
    changes = (
        difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes() if ours else []
    )
    return [
        (kind, " ".join(theirs[first:last] if kind == "delete" else ours[start:end]))
        for kind, first, last, start, end in changes
    ]
