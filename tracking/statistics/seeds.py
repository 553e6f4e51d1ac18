"""The seeds of a study: sets with scores, the best scores on the way, and seeds added after first results."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tracking.card import Metric
from tracking.files import unless_damaged
from tracking.journal import Journal
from tracking.statistics.rows import mean, metric_mean
from tracking.study import Study, seconds


def measured_sets(study: Study) -> dict[str, list[str]]:
    """The sets with scores in any trial that counts, each with the metrics that have a value there."""
    found: dict[str, list[str]] = {}
    for each in study.standings():
        for name, of_set in (each.counted or {}).get("scores", {}).items():
            metrics = [metric.name for metric in study.task.metrics if of_set.get(metric.name) is not None]
            found[name] = list(dict.fromkeys([*found.get(name, []), *metrics]))
    return found


@dataclass(frozen=True)
class BestReport:
    """The best values of a row's seeds that count, each with its step. The table shows the last checkpoint's scores."""

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
    for trial in [each.trial for each in study.standings() if each.counted is not None]:
        if best := unless_damaged(partial(_best_of, study.trial_folder(trial).journal_path, metric), None):
            of_row = found.setdefault(trial.row, BestReport({}, {}))
            of_row.values[trial.seed], of_row.steps[trial.seed] = best
    return found


def _best_of(journal: Path, metric: Metric) -> tuple[float, int] | None:
    """The best value and the first step that has it; None without a report of the metric on its set.

    Only reports of it are parsed."""
    point = f"{metric.set}/{metric.name}"
    reports = reversed([*Journal(journal).newest_first(holding=point)])
    seen = [(report.metrics[point], report.step) for report in reports if point in report.metrics]
    best = metric.best(value for value, _ in seen)
    return next(((value, step) for value, step in seen if value == best), None)


def later_note(study: Study) -> str:
    """What was added or dropped when results could already be seen, such as "Seeds were added twice after first results
    (4, 5, 6): …"; or nothing. Who adds until a difference is marked finds one too often, and so does who drops.

    By what each command of `study.json` added and dropped, and by when the first trial finished. Seeds of a row that is
    new itself are no added ones, and neither are planned seeds that finish later. A command that drops trials tells
    whether it saw results, which may be gone with them."""
    first = min(_ends(study), default=None)
    added, drops, known, saw = list[list[int]](), 0, set[str](), False
    for asked in study.asked:
        new = [(trial.row, trial.seed) for trial in study.trials if trial.name in asked.get("added", ())]
        seeds = sorted({seed for row, seed in new if row in known})
        known |= {row for row, _ in new}
        saw |= asked.get("saw_results", False) or (first is not None and (seconds(asked["ts"]) or 0.0) > first)
        if saw:
            added += [seeds] * bool(seeds)
            drops += bool(asked.get("dropped"))
    listed = ", ".join(dict.fromkeys(str(seed) for seeds in added for seed in seeds))
    told = f"Seeds were added {_often(len(added))} after first results ({listed}): p values assume a fixed number."
    dropped = f"Trials were dropped {_often(drops)} after first results: p values do not account for that."
    return " ".join([told] * bool(added) + [dropped] * bool(drops))


def _ends(study: Study) -> Iterator[float]:
    """When trials finished, in Unix seconds."""
    for trial in study.trials:
        for attempt in unless_damaged(study.trial_folder(trial).attempts.all, []):
            if attempt.ended is not None and attempt.reason == "finished":
                yield attempt.ended


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")
