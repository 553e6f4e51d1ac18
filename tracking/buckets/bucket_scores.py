"""A study's rows scored in each bucket of a set's samples, and how their differences change from
the first bucket to the last.

The rows of a bucket are those of the study's table with scores of its samples, summed from the
counts on disk. So each bucket has a table like the study's own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tracking.buckets.bucket import Bucket, buckets
from tracking.buckets.quantity import Quantity, Sample, UngroupedError, quantity, values
from tracking.card import Metric
from tracking.files import unless_damaged
from tracking.statistics.means import deviation, metric_mean, minus
from tracking.statistics.row_comparison import deltas_at_common_seeds
from tracking.statistics.samples import Floats, Statistics, evaluated, scores
from tracking.statistics.study_findings import over_seeds
from tracking.statistics.table_row import TableRow
from tracking.statistics.table_rows import table as table_of
from tracking.study import Study, StudyTrial
from tracking.table.study_table import StudyTable
from tracking.words import listed, trial_name

NO_COUNTS = "no counts"
"""In place of the scores of a row whose trials keep none that can be grouped."""
MetricValues = Mapping[str, float | None]


@dataclass(frozen=True)
class BucketScores:
    """``tables`` has a table per bucket. ``drift`` is that of the last bucket's score less the
    first one's, on the scale of the tests. Their rows are all rows of the study.

    ``left_out`` says of trials why they have no counts, and of metrics why they are not shown.
    """

    whole: StudyTable  # over all samples, with the rows to show
    quantity: Quantity
    buckets: tuple[Bucket, ...]
    tables: tuple[StudyTable, ...]
    drift: StudyTable
    left_out: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self.tables[0].card.tabled

    @property
    def set_name(self) -> str:
        return self.metrics[0].set

    def drift_metric(self, metric: Metric) -> Metric:
        """The metric whose scores a drift subtracts, such as NLL for PPL."""
        return next(other for other in self.drift.card.tabled if other.name == metric.name)

    def tested(self) -> "BucketScores":
        """The same with tests over seeds of the drift. Buckets are not tested: it is the drift that
        shows whether a difference depends on the quantity."""
        whole_findings = self.whole.findings
        findings = over_seeds(self.drift.study, self.drift.rows, whole_findings.reference)
        return replace(self, drift=replace(self.drift, findings=findings))


def bucket_scores(table: StudyTable, name: str, cuts: Sequence[float] = ()) -> BucketScores:
    """The tabled metrics of the study by the quantity of this name. Raises UngroupedError."""
    metrics, left_out = _counted_metrics(table)
    study = replace(table.study, task=replace(table.card, metrics=metrics), margins={})
    samples = _first_samples(study, metrics[0].set, table.findings.reference)
    grouped = quantity(name, table.card, samples)
    parts = buckets(grouped, cuts)
    values_of_trial, reasons = _values_of_trials(study, grouped, parts)
    if not values_of_trial:
        raise UngroupedError("has nothing to group", reasons[0])
    rows = table_of(study, table.findings.reference)
    tables = []
    for place in range(len(parts)):
        values_in_bucket = {trial: values[place] for trial, values in values_of_trial.items()}
        tables.append(_table(table, study, rows, values_in_bucket))
    drift = _drift(table, study, rows, tables[0].rows, tables[-1].rows)
    notes = (*left_out, *reasons)
    return BucketScores(table, grouped, parts, tuple(tables), drift, notes)


def _counted_metrics(table: StudyTable) -> tuple[tuple[Metric, ...], list[str]]:
    """The tabled metrics with counts on the set of the first of them; and of the others, why they
    are left out."""
    counted = [metric for metric in table.card.tabled if metric.from_counts]
    if not counted:
        labels = listed([metric.label for metric in table.card.tabled])
        names = [metric.name for metric in table.card.metrics if metric.from_counts]
        allowed = f"--metric must be one of {', '.join(names)}" if names else "no metric has counts"
        raise UngroupedError(f"needs counts of samples, but {labels} has none", allowed)
    shown = tuple(metric for metric in counted if metric.set == counted[0].set)
    left_out = []
    for metric in table.card.tabled:
        if not metric.from_counts:
            left_out.append(f"{metric.label} has no counts of samples")
        elif metric not in shown:
            left_out.append(f"{metric.label} is on {metric.set}")
    return shown, left_out


def _first_samples(study: Study, set_name: str, reference: str) -> Sequence[Sample]:
    """Those of the first finished trial that has some, if possible of the reference. Raises
    UngroupedError."""
    counted = [standing.trial for standing in study.standings() if standing.counted is not None]
    counted.sort(key=lambda trial: trial.row != reference)
    for trial in counted:
        statistics = _statistics(study, trial, set_name)
        if statistics is not None and statistics[1]:
            return statistics[1]
    noun = study.task.sample
    fault = f"needs counts of the {noun}s, but no trial of {study.name} has any on {set_name}"
    raise UngroupedError(fault, "a trial keeps them when it scores a set")


def _statistics(study: Study, trial: StudyTrial, set_name: str) -> Statistics | None:
    """None without a readable file."""
    return unless_damaged(partial(study.trial_folder(trial).statistics, set_name), None)


def _values_of_trials(
    study: Study, grouped: Quantity, parts: Sequence[Bucket]
) -> tuple[dict[str, Sequence[MetricValues]], list[str]]:
    """By trial that counts, its scores in each bucket; and why other trials have none to use."""
    values_of_trial = dict[str, Sequence[MetricValues]]()
    reasons = list[str]()
    for standing in study.standings():
        if standing.counted is not None:
            trial = standing.trial
            try:
                values_of_trial[trial.name] = _values_in_buckets(study, trial, grouped, parts)
            except ValueError as error:
                reasons.append(str(error))
    return values_of_trial, reasons


def _values_in_buckets(
    study: Study, trial: StudyTrial, grouped: Quantity, parts: Sequence[Bucket]
) -> Sequence[MetricValues]:
    """Raises ValueError if the trial's counts can't be used."""
    metrics = study.task.metrics
    set_name = metrics[0].set
    statistics = _statistics(study, trial, set_name)
    if statistics is not None:
        values_N = values(statistics[1], grouped.field)
        if not np.array_equal(values_N, grouped.values_N):
            noun = study.task.sample
            raise ValueError(f"{trial.name} has {noun}s with other numbers of {grouped.field}")
    values_in_buckets: list[dict[str, float | None]] = [{} for _ in parts]
    for metric in metrics:
        counted = evaluated(study, trial, metric, set_name, statistics)
        if isinstance(counted, str):
            raise ValueError(counted)
        for bucket, bucket_values in zip(parts, values_in_buckets, strict=True):
            bucket_values[metric.name] = score_in(bucket, metric, counted.counts_NC)
    return values_in_buckets


def score_in(bucket: Bucket, metric: Metric, counts_NC: Floats) -> float | None:
    """The score of the bucket's samples together; None if it is not finite."""
    sums_1C = counts_NC[bucket.is_inside_N].sum(axis=0, keepdims=True)
    (score,) = scores(metric.from_counts[0], sums_1C, bucket.samples).tolist()
    return score if np.isfinite(score) else None


def _table(
    whole: StudyTable,
    study: Study,
    rows: Sequence[TableRow],
    values_of_trial: Mapping[str, MetricValues],
) -> StudyTable:
    """A table of all rows with these scores, without tests."""
    bucket_rows = {row.row: _with_scores(study, row, values_of_trial) for row in rows}
    compared = [_with_deltas(study, row, bucket_rows) for row in bucket_rows.values()]
    return StudyTable(study, compared, replace(whole.findings, families={}))


def _with_scores(
    study: Study, row: TableRow, values_of_trial: Mapping[str, MetricValues]
) -> TableRow:
    """The row with the scores of its trials that have some, by trial and metric."""
    seeds = [seed for seed in row.finished_seeds if trial_name(row.row, seed) in values_of_trial]
    seed_values = dict[str, dict[int, float | None]]()
    means = dict[str, float | None]()
    deviations = dict[str, float | None]()
    for metric in study.task.metrics:
        name = metric.name
        values_of_seed = {seed: values_of_trial[trial_name(row.row, seed)][name] for seed in seeds}
        seed_values[name] = values_of_seed
        has_mean = row.scores[name] is not None
        means[name] = metric_mean(metric, [*values_of_seed.values()]) if has_mean else None
        deviations[name] = deviation([*values_of_seed.values()]) if has_mean else None
    notes = row.notes
    if row.seeds > 0 and not seeds:
        notes = replace(notes, full=NO_COUNTS, brief=NO_COUNTS)
    return replace(
        row,
        seeds=len(seeds),
        scores=means,
        sd=deviations,
        seed_values=seed_values,
        notes=notes,
    )


def _with_deltas(study: Study, row: TableRow, rows: Mapping[str, TableRow]) -> TableRow:
    """The row with its differences from its reference, where the study's table has one."""
    comparison = row.comparison
    reference = rows.get(comparison.reference)
    if reference is None:
        return row
    metrics = study.task.metrics
    if comparison.paired:
        new_deltas = deltas_at_common_seeds(metrics, row, reference)
    else:
        new_deltas = {}
        for name, score in row.scores.items():
            new_deltas[name] = minus(score, reference.scores[name])
    deltas = dict[str, float | None]()
    for metric in metrics:
        name = metric.name
        deltas[name] = None if comparison.deltas[name] is None else new_deltas[name]
    new_comparison = replace(
        comparison, reference_seeds=reference.finished_seeds, deltas=deltas, common_deltas={}
    )
    return replace(row, comparison=new_comparison)


def _drift(
    whole: StudyTable,
    study: Study,
    rows: Sequence[TableRow],
    first: Iterable[TableRow],
    last: Iterable[TableRow],
) -> StudyTable:
    """For each trial its score in the last bucket less that in the first one. Of perplexities, the
    difference is that of their logarithms."""
    values_of_trial = dict[str, dict[str, float | None]]()
    for first_row, last_row in zip(first, last, strict=True):
        for metric in study.task.metrics:
            first_values = metric.tested_values(first_row.seed_values[metric.name])
            last_values = metric.tested_values(last_row.seed_values[metric.name])
            for seed, last_value in last_values.items():
                trial_values = values_of_trial.setdefault(trial_name(last_row.row, seed), {})
                trial_values[metric.name] = minus(last_value, first_values[seed])
    metrics = []
    for metric in study.task.metrics:
        tested_metric = whole.card.tested(metric)
        metrics.append(replace(tested_metric, name=metric.name, set=metric.set, tabled=True))
    drift_study = replace(study, task=replace(study.task, metrics=tuple(metrics)))
    return _table(whole, drift_study, rows, values_of_trial)
