"""The best score that a trial reported while it trained, and its step. The table shows the last checkpoint's scores."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tracking.card import Metric
from tracking.damage import unless_damaged
from tracking.journal import Journal
from tracking.statistics.means import mean, metric_mean
from tracking.statistics.seeds import standings
from tracking.study import Study


@dataclass(frozen=True)
class BestReport:
    """The best values of a row's seeds that count, each with its step."""

    values: dict[int, float]
    steps: dict[int, int]

    def mean(self, metric: Metric) -> float | None:
        return metric_mean(metric, list(self.values.values()))

    @property
    def step(self) -> float | None:
        """The mean over the seeds."""
        return mean(list(self.steps.values()))


def best_reports(study: Study, metric: Metric) -> dict[str, BestReport]:
    """By row. A trial that does not count, or that reported no score while it trained, is left out."""
    found: dict[str, BestReport] = {}
    for trial in [each.trial for each in standings(study) if each.counted is not None]:
        if best := unless_damaged(partial(best_of, study.trial_folder(trial).journal_path, metric), None):
            of_row = found.setdefault(trial.row, BestReport({}, {}))
            of_row.values[trial.seed], of_row.steps[trial.seed] = best
    return found


def best_of(journal: Path, metric: Metric) -> tuple[float, int] | None:
    """The best value and the first step that has it; None without a report of the metric on its set.

    Only reports of it are parsed."""
    point = f"{metric.set}/{metric.name}"
    reports = reversed([*Journal(journal).newest_first(holding=point)])
    seen = [(report.metrics[point], report.step) for report in reports if point in report.metrics]
    best = metric.best(value for value, _ in seen)
    return next(((value, step) for value, step in seen if value == best), None)
