"""For each trained row, the best of the rows that score its weights: chosen by a metric on its own
set, shown with its scores on the other sets.

A score that was chosen is the best of several, so it is marked everywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller

from rich.table import Table

from tracking.card import Metric
from tracking.statistics.means import deviation, metric_mean
from tracking.statistics.table_row import BASE, TableRow
from tracking.statistics.table_rows import table as table_of
from tracking.study import Study, study_of_metrics
from tracking.table.columns import change_of
from tracking.table.latex import latex
from tracking.table.source_captions import lock_lines
from tracking.table.text import (
    FOR_PROGRAMS,
    Column,
    TextTable,
    for_programs,
    html,
    lines_of,
    markdown,
    program_column,
    terminal,
)
from tracking.words import grouped, listed, number, plural, ranges

CHOSEN = "†"
"""The mark of a score that was chosen among several."""
NO_SCORE = "not scored"
NOTHING_CHOSEN = "nothing chosen: no common seed"


@dataclass(frozen=True)
class ChosenRow:
    """The best row with the same weights. ``values`` are by set and seed, at the seeds that all its
    rivals have."""

    row: TableRow
    weights: str  # the row that trained them
    group: str
    among: int  # rows with these weights that were compared, this one included
    values: dict[str, dict[int, float | None]]
    note: str = ""
    unscored: tuple[str, ...] = ()  # rows with these weights that have no score to compare

    @property
    def is_chosen(self) -> bool:
        return self.among > 1

    @property
    def lacks_seeds(self) -> bool:
        """Whether the row has seeds that a rival lacks."""
        return any(len(seeds) < len(self.row.finished_seeds) for seeds in self.values.values())

    def mean(self, metric: Metric, set_name: str) -> float | None:
        return metric_mean(metric, [*self.values.get(set_name, {}).values()])

    def sd(self, set_name: str) -> float | None:
        return deviation([*self.values.get(set_name, {}).values()])


@dataclass(frozen=True)
class ChosenTable:
    """One line for the weights of each trained row. ``sets`` begin with the metric's own, on which
    rows are chosen."""

    study: Study
    metric: Metric
    sets: tuple[str, ...]
    rows: tuple[ChosenRow, ...]


def chosen_table(study: Study, metric: Metric) -> ChosenTable:
    """For every trained row, with those that score its weights."""
    sets = [metric.set]
    for set_name, metrics in study.measured_sets().items():
        if metric.name in metrics and set_name != metric.set:
            sets.append(set_name)
    rows_of_set = {}
    for set_name in sets:
        rows_of_set[set_name] = table_of(study_of_metrics(study, [metric.name], set_name))
    groups = grouped((row.weights or row.row, row) for row in rows_of_set[metric.set])
    rows = [_best(metric, weights, rivals, rows_of_set) for weights, rivals in groups.items()]
    return ChosenTable(study, metric, tuple(sets), tuple(rows))


def _best(
    metric: Metric, weights: str, rivals: Sequence[TableRow], rows_of_set: dict[str, list[TableRow]]
) -> ChosenRow:
    """Rivals are compared at the seeds that all of them have; of equals, the first in the table is
    the best."""
    scored = [row for row in rivals if _is_scored(row, metric)]
    unscored = tuple(row.row for row in rivals if row not in scored)
    first = rivals[0]
    group = first.group
    if not scored:
        return ChosenRow(first, weights, group, 0, {}, first.notes.full or NO_SCORE)
    seeds = _common_seeds(scored)
    if not seeds:
        return ChosenRow(first, weights, group, 0, {}, NOTHING_CHOSEN, unscored)
    best = scored[0]
    for row in scored[1:]:
        means = [rival.mean_at(metric, seeds) for rival in (best, row)]
        if metric.best(means) != means[0]:
            best = row
    values = {name: _values_at(metric, best.row, rows, seeds) for name, rows in rows_of_set.items()}
    return ChosenRow(best, weights, group, len(scored), values, best.notes.full, unscored)


def _common_seeds(rows: Sequence[TableRow]) -> list[int]:
    seeds = set(rows[0].finished_seeds)
    for row in rows:
        seeds &= set(row.finished_seeds)
    return sorted(seeds)


def _is_scored(row: TableRow, metric: Metric) -> bool:
    """Whether it has a score, and only its own change sets its settings for scoring apart."""
    if row.comparison.shares_weights and metric.decided_by(row.comparison.other_decode):
        return False
    return row.scores[metric.name] is not None


def _values_at(
    metric: Metric, name: str, rows: Sequence[TableRow], seeds: Sequence[int]
) -> dict[int, float | None]:
    (row,) = [row for row in rows if row.row == name]
    return {seed: row.seed_values[metric.name].get(seed) for seed in seeds}


def shown(table: ChosenTable, width: int, caption: str | None = None) -> Table:
    """For a terminal."""
    return terminal(_for_people(table, caption), width, 1 + len(table.sets))


def table_text(kind: str, table: ChosenTable, caption: str | None = None, label: str = "") -> str:
    """The table as md, csv, json, tex or html. CSV and JSON hold unrounded numbers."""
    if kind in FOR_PROGRAMS:
        return for_programs(kind, _program_columns(table), table.rows)
    text_table = _for_people(table, caption)
    if kind == "tex":
        return latex(text_table, [], label)
    return markdown(text_table) if kind == "md" else html(text_table)


def _for_people(table: ChosenTable, caption: str | None) -> TextTable:
    metric = table.metric
    columns: list[Column[ChosenRow]] = [Column("change", "change", _change, _change, "text")]
    for set_name in table.sets:
        text = partial(_score, metric, set_name)
        value = methodcaller("mean", metric, set_name)
        head = f"{metric.label} on {set_name}"
        columns.append(Column(f"{metric.name}_{set_name}", head, text, value))
    columns.append(program_column("chosen_among", _among))
    return TextTable(
        table.study.name,
        tuple(columns),
        lines_of(columns, table.rows),
        groups=tuple(row.group for row in table.rows),
        caption=_caption(table) if caption is None else caption,
    )


def _change(chosen: ChosenRow) -> str:
    """The change of the row, with a note below it."""
    change = change_of(chosen.row)
    return f"{change}\n{chosen.note}" if chosen.note else change


def _score(metric: Metric, set_name: str, chosen: ChosenRow) -> str:
    """Such as "26.4 ± 0.3†"."""
    mean = chosen.mean(metric, set_name)
    sd = chosen.sd(set_name)
    if mean is None:
        return "–"
    text = number(mean, metric.places)
    if sd is not None:
        text += f" ± {number(sd, metric.places)}"
    return f"{text}{CHOSEN}" if chosen.is_chosen else text


def _among(chosen: ChosenRow) -> int | None:
    """None where there was nothing to choose."""
    return chosen.among if chosen.is_chosen else None


def _program_columns(table: ChosenTable) -> list[Column[ChosenRow]]:
    """``chosen_among`` is empty, or null, where nothing was chosen."""
    metric = table.metric
    columns = [
        program_column("row", lambda chosen: chosen.row.row),
        program_column("weights", lambda chosen: chosen.weights),
        program_column("group", lambda chosen: chosen.group),
        program_column("change", lambda chosen: change_of(chosen.row)),
        program_column("chosen_among", _among),
        program_column("chosen_on", lambda chosen: metric.set if chosen.is_chosen else None),
        program_column("seeds", lambda chosen: len(chosen.values.get(metric.set, {}))),
    ]
    for name in table.sets:
        columns.append(program_column(f"{metric.name}_{name}", methodcaller("mean", metric, name)))
        columns.append(program_column(f"sd_{metric.name}_{name}", methodcaller("sd", name)))
    return [*columns, program_column("note", lambda chosen: chosen.note)]


def _caption(table: ChosenTable) -> str:
    """What was chosen, among how many, and what that does to the score."""
    metric = table.metric
    chosen_rows = [chosen for chosen in table.rows if chosen.is_chosen]
    rows_of_number = grouped((chosen.among, chosen.row.row) for chosen in chosen_rows)
    parts = [
        f"{listed(rows)} chosen among {rivals} on {metric.set}"
        for rivals, rows in rows_of_number.items()
    ]
    if not parts:
        nothing = "Nothing to choose: no two scored rows share weights."
        return " ".join([nothing, *_lock_lines(table)])
    best = f"of the rows that score the same weights, the best by {metric.label}"
    lines = [
        f"{CHOSEN}: {best}: {'; '.join(parts)}.",
        f"The score on {metric.set} is the best of several, so it looks better than it is.",
    ]
    if table.sets[1:]:
        lines.append(f"The choice did not use {listed(list(table.sets[1:]))}.")
    lines.append("Scores without a mark were not chosen.")
    lines += [_seeds_line(chosen, metric.set) for chosen in chosen_rows if chosen.lacks_seeds]
    unscored = [row for chosen in table.rows for row in chosen.unscored]
    if unscored:
        lines.append(f"Excluded because they have no score on {metric.set}: {listed(unscored)}.")
    return " ".join([*lines, *_lock_lines(table)])


def _lock_lines(table: ChosenTable) -> Iterator[str]:
    metrics = [replace(table.metric, set=set_name) for set_name in table.sets]
    return lock_lines(table.study, metrics, BASE)


def _seeds_line(chosen: ChosenRow, set_name: str) -> str:
    """Such as "Scores of beam_8 are at seeds 1, 2, which all 3 rows with base's weights have."."""
    seeds = [*chosen.values[set_name]]
    noun = plural("seed", len(seeds))
    rivals = f"all {chosen.among} rows with {chosen.weights}'s weights"
    return f"Scores of {chosen.row.row} are at {noun} {ranges(seeds)}, which {rivals} have."
