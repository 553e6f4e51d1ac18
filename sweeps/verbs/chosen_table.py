"""The table that the options of `allelse table` choose, with every wrong option refused at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sweeps.config.settings import Settings
from sweeps.planning.naming import chosen
from sweeps.schema import Problem, RefusedError, nearest
from tracking.statistics.findings import Findings, find, with_verdicts
from tracking.statistics.rows import BASE, TableRow, table
from tracking.study import Study
from tracking.table.layout import column_names, viewed
from tracking.table.view import View, measured_sets, study_of_metrics, study_of_seeds

NO_SELECTION = ("sweep.vary", "sweep.grid", "row=")
"""Overrides that choose rows of a sweep, but none of a recorded study."""


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


def chosen_table(
    study: Study, settings: Settings, overrides: Sequence[str], asked: Asked, programs: bool = False
) -> Chosen:
    """``programs``: for CSV and JSON, which hold everything. Raises RefusedError."""
    checked = _Checked(_selections(overrides))
    seeds = _typed_seeds(study, settings, overrides, checked)
    study = study_of_seeds(study, seeds) if seeds else study
    headline, study = study.task.headline, _measured(study, asked, checked)
    names = list(dict.fromkeys(trial.row for trial in study.trials))
    base = checked.known("--base", _given(asked.base), names, "row of the study")
    shown = _rows(asked, settings, overrides, names, checked)
    if checked.problems:  # the columns depend on the metrics
        raise RefusedError(checked.problems)
    reference = (base or [BASE])[0]
    rows = table(study, reference)
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


def _selections(overrides: Sequence[str]) -> list[Problem]:
    """Overrides that look as if they chose rows."""
    allowed = "choose rows of the table with --rows NAME,NAME"
    return [
        Problem(text.partition("=")[0], "does not select rows of a table", allowed)
        for text in chosen(list(overrides), NO_SELECTION)
    ]


def _typed_seeds(study: Study, settings: Settings, overrides: Sequence[str], checked: _Checked) -> tuple[int, ...]:
    """The seeds of ``sweep.seeds``, if it was typed and leaves any out."""
    if not chosen(list(overrides), ("sweep.seeds=",)):
        return ()
    allowed = [str(seed) for seed in dict.fromkeys(trial.seed for trial in study.trials)]
    known = checked.known("sweep.seeds", map(str, settings.sweep.seeds), allowed, "seed of the study")
    return tuple(map(int, known)) if len(known) < len(allowed) else ()


def _rows(
    asked: Asked, settings: Settings, overrides: Sequence[str], names: Sequence[str], checked: _Checked
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
