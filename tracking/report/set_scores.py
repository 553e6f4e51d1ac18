"""The scores of each set that was evaluated: what the study's table has no room for."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tracking.card import Metric
from tracking.report.drawing import Entry
from tracking.statistics.findings import MIXED_SETTINGS
from tracking.statistics.means import metric_mean
from tracking.study import Standing
from tracking.study_lock import not_locked
from tracking.table.columns import StudyTable


def set_scores(table: StudyTable, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Of each set the metrics that it has, and a line of means over seeds for each row.

    Empty if the study's table shows all of them.
    """
    card = table.card
    measured = table.study.measured_sets()
    tabled = {(metric.set, metric.name) for metric in card.tabled}
    shown = {
        name: [metric for metric in card.printed if metric.name in of]
        for name, of in measured.items()
    }
    if {(name, metric.name) for name, metrics in shown.items() for metric in metrics} <= tabled:
        return []
    standings = table.study.standings()
    return [
        {
            "name": name,
            "metrics": metrics,
            "lines": list(_lines(name, metrics, entries, standings)),
            "not_locked": not_locked(
                table.study, [replace(metric, set=name) for metric in metrics]
            ),
        }
        for name, metrics in shown.items()
        if metrics
    ]


def _lines(
    set_name: str,
    metrics: Sequence[Metric],
    entries: Sequence[Entry],
    standings: Sequence[Standing],
) -> Iterator[tuple[Entry, list[str]]]:
    for entry in entries:
        results = [
            standing.counted for standing in standings if standing.trial.row == entry.row.row
        ]
        scores = [result["scores"].get(set_name, {}) for result in results if result is not None]
        yield (
            entry,
            [
                _cell(metric, entry, [of_seed.get(metric.name) for of_seed in scores])
                for metric in metrics
            ],
        )


def _cell(metric: Metric, entry: Entry, values: Sequence[float | None]) -> str:
    """The mean over seeds; empty if a seed has no value."""
    if metric.decided_by(entry.row.mixed_decode):
        return MIXED_SETTINGS
    return metric.text(metric_mean(metric, values))
