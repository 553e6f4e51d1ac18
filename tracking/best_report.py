"""The best score that a trial reported while it trained, and its step. The table shows the last checkpoint's scores."""

from collections.abc import Iterable
from dataclasses import dataclass

from tracking.damage import unless_damaged
from tracking.journal import JournalLine
from tracking.metrics import Metric
from tracking.row_means import mean, metric_mean
from tracking.study import Study


@dataclass(frozen=True)
class BestReport:
    """The best values of a row's finished seeds, each with its step."""

    values: dict[int, float]
    steps: dict[int, int]

    def mean(self, metric: Metric) -> float | None:
        return metric_mean(metric, list(self.values.values()))

    @property
    def step(self) -> float | None:
        """The mean over the seeds."""
        return mean(list(self.steps.values()))


def best_reports(study: Study, metric: Metric) -> dict[str, BestReport]:
    """By row. A trial that is not finished, or that reported no score while it trained, is left out."""
    found: dict[str, BestReport] = {}
    for trial in study.trials:
        folder = study.trial_folder(trial)
        if folder.finished_result(trial.key) is None:
            continue
        if best := best_of(unless_damaged(folder.journal, []), metric):
            of_row = found.setdefault(trial.row, BestReport({}, {}))
            of_row.values[trial.seed], of_row.steps[trial.seed] = best
    return found


def best_of(journal: Iterable[JournalLine], metric: Metric) -> tuple[float, int] | None:
    """The best value and the first step that has it; None without a report of the metric on its set."""
    point = f"{metric.set}/{metric.name}"
    seen = [(line.metrics[point], line.step) for line in journal if point in line.metrics]
    best = metric.best(value for value, _ in seen)
    return next(((value, step) for value, step in seen if value == best), None)
