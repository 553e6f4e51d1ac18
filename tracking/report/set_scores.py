"""The scores of each set that was evaluated, for which the study's table has no room."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracking.card import Metric
from tracking.report.drawing import Entry
from tracking.statistics.means import metric_mean
from tracking.statistics.study_findings import MIXED_SETTINGS
from tracking.study import Standing
from tracking.study_lock import not_locked
from tracking.table.study_table import StudyTable


def set_scores(table: StudyTable, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """For each set its metrics, and a line of means over seeds for each row.

    Empty if the study's table shows all of them.
    """
    study = table.study
    tabled = {(metric.set, metric.name) for metric in table.card.tabled}
    has_further_scores = False
    standings = study.standings()
    sets = []
    for set_name, names in study.measured_sets().items():
        metrics = [
            replace(metric, set=set_name) for metric in table.card.printed if metric.name in names
        ]
        if any((set_name, metric.name) not in tabled for metric in metrics):
            has_further_scores = True
        if metrics:
            lines = list(_lines(metrics, entries, standings))
            lock_note = not_locked(study, metrics)
            sets.append(
                {"name": set_name, "metrics": metrics, "lines": lines, "not_locked": lock_note}
            )
    return sets if has_further_scores else []


def _lines(
    metrics: Sequence[Metric], entries: Sequence[Entry], standings: Sequence[Standing]
) -> Iterator[tuple[Entry, list[str]]]:
    for entry in entries:
        results = [
            standing.counted
            for standing in standings
            if standing.trial.row == entry.row.row and standing.counted is not None
        ]
        yield entry, [_cell(metric, entry, results) for metric in metrics]


def _cell(metric: Metric, entry: Entry, results: Sequence[Mapping[str, Any]]) -> str:
    """The mean over seeds; empty if a seed has no value."""
    if metric.decided_by(entry.row.mixed_decode):
        return MIXED_SETTINGS
    all_scores = [result["scores"].get(metric.set, {}) for result in results]
    values = [scores.get(metric.name) for scores in all_scores]
    return metric.text(metric_mean(metric, values))
