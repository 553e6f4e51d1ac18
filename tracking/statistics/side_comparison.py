"""Two sides compared, each a trial, a row or a study: configuration, every metric tested over seeds
and over samples, single samples."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracking.card import Metric
from tracking.code import Code, changed_files, code_diff
from tracking.statistics.means import metric_mean, minus
from tracking.statistics.references import comparable_within, why_not_compared
from tracking.statistics.samples import (
    EvaluatedSet,
    SampleTest,
    SetPair,
    evaluated,
    paired_tests,
    scores,
)
from tracking.statistics.seeds.family import Family, RowTest, SeedScores, family, why_untested
from tracking.statistics.sides import Side, SidePair, pair_name, paired_trials
from tracking.statistics.study_findings import find
from tracking.statistics.table_row import BASE
from tracking.statistics.table_rows import table
from tracking.study import StudyTrial, study_of_metrics
from tracking.words import listed

SHOWN_TEXTS = 10
FIRST = "first"
SECOND = "second"


@dataclass(frozen=True)
class MetricCompared:
    """One metric on its set. Differences are second minus first.

    ``rows`` is the number of tests over which p and the interval are adjusted: rows of the study,
    or pairs that are tested together. ``of_study``: the test is that of the study's table, with
    the first side as reference.
    """

    metric: Metric
    means: tuple[float | None, float | None]
    seeds: tuple[int, int]
    over_seeds: RowTest | str  # or why there is no test
    rows: int
    of_study: bool
    over_samples: dict[str, SampleTest | str]  # by "seed 1"
    not_compared: str = ""  # why there is no difference, if scores don't compare
    common_means: tuple[float | None, float | None] | None = None  # at common seeds, if paired

    @property
    def set_name(self) -> str:
        return self.metric.set

    @property
    def paired(self) -> bool:
        """Whether the two are compared seed by seed, at the seeds that both have."""
        return self.common_means is not None

    @property
    def difference(self) -> float | None:
        first, second = self.means if self.common_means is None else self.common_means
        return None if self.not_compared else minus(second, first)


@dataclass(frozen=True)
class SampleCompared:
    """One sample of the set; places count from 1, as lines of its texts do."""

    place: int
    first: float
    second: float
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        return self.second - self.first


@dataclass(frozen=True)
class Compared:
    """A pair of sides. Values are by key or name, first and second side."""

    sides: SidePair
    configuration: dict[str, tuple[Any, Any]]  # what differs; None for a key that a side lacks
    origin: dict[str, tuple[str, str]]  # packages, machine and code that differ, if both are known
    code: list[str]  # the diff of the user's code that was imported last, without secrets
    metrics: list[MetricCompared]


@dataclass(frozen=True)
class Differing:
    """The samples whose scores differ most, of one pair of trials; ``note`` says why there are
    none."""

    metric: Metric | None
    set_name: str
    trials: tuple[StudyTrial, StudyTrial] | None = None
    samples: list[SampleCompared] = field(default_factory=list)
    note: str = ""


def compared(
    pairs: Sequence[SidePair], metrics: Sequence[Metric], set_name: str | None
) -> list[Compared]:
    """Each pair by each metric, on the metric's own set unless one is named.

    Two rows of one study are tested as in its table, with the first one as reference. Tests of
    other pairs are adjusted over all pairs that can be tested.
    """
    metrics = [replace(metric, set=set_name or metric.set) for metric in metrics]
    tested_pairs = dict[str, int]()
    for metric in metrics:
        number = sum(_is_testable(pair, metric) for pair in pairs)
        tested_pairs[metric.name] = max(1, number)
    return [_compared(pair, metrics, set_name, tested_pairs) for pair in pairs]


def _compared(
    sides: SidePair,
    metrics: Sequence[Metric],
    set_name: str | None,
    tested_pairs: Mapping[str, int],
) -> Compared:
    first, second = sides
    families = _families_of_study(first, second, metrics, set_name)
    first_trials = (first.trials[0], second.trials[0])
    trials = next(iter(paired_trials(first, second)), first_trials)
    pairs = list(zip(sides, trials, strict=True))
    settings = [side.settings(trial, metrics[0].set) for side, trial in pairs]
    origins = [side.origin(trial) for side, trial in pairs]
    codes = [side.last_code(trial) for side, trial in pairs]
    compared_metrics = []
    for metric in metrics:
        family_of_study = families.get(metric.name)
        compared_metrics.append(_metric(sides, metric, family_of_study, tested_pairs[metric.name]))
    return Compared(
        sides,
        _unequal(*settings),
        _unequal_origin(*origins),
        _code_diff(*codes),
        compared_metrics,
    )


def _families_of_study(
    first: Side, second: Side, metrics: Sequence[Metric], set_name: str | None
) -> Mapping[str, Family]:
    """By metric, the tests of the study to which both rows belong, with the first as reference;
    {} for other pairs."""
    if first.study.folder != second.study.folder or first.row == second.row:
        return {}
    if not first.is_row or not second.is_row:
        return {}
    study = study_of_metrics(first.study, [metric.name for metric in metrics], set_name)
    reference = BASE
    if study.references.get(second.row, BASE) != first.row:  # as in the table with --base
        study = replace(study, references={})
        reference = first.row
    findings = find(study, table(study, reference), reference)
    families = dict[str, Family]()
    for metric in study.task.tabled:
        family_of_row = findings.family_of(second.row, metric)
        if family_of_row is not None and family_of_row.reference == first.row:
            families[metric.name] = family_of_row
    return families


def _is_testable(pair: SidePair, metric: Metric) -> bool:
    if _why_not_compared(pair, metric):
        return False
    first, second = pair
    first_values = metric.tested_values(first.values(metric))
    second_values = metric.tested_values(second.values(metric))
    if why_untested(first_values, reference=True):
        return False
    return not why_untested(second_values, second.diverged)


def _unequal(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    unequal = {}
    for name in dict.fromkeys([*first, *second]):
        values = (first.get(name), second.get(name))
        if values[0] != values[1]:
            unequal[name] = values
    return unequal


def _unequal_origin(
    first: Mapping[str, str], second: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Only of aspects that are known of both."""
    return {
        name: (value, second[name])
        for name, value in first.items()
        if name in second and second[name] != value
    }


def _code_diff(first: Code | None, second: Code | None) -> list[str]:
    """Empty if the code of either is unknown."""
    if first is None or second is None:
        return []
    return list(code_diff(first, second, changed_files(first, second)))


def differing(
    first: Side, second: Side, metrics: Sequence[Metric], set_name: str | None
) -> Differing:
    """By the first of these metrics that has counts of its samples."""
    noun = first.study.task.sample
    metric = next((metric for metric in metrics if metric.from_counts), None)
    if metric is None:
        labels = listed([metric.label for metric in metrics])
        note = f"no {noun} can be tested or listed: trials have no counts for {labels}"
        return Differing(None, set_name or metrics[0].set, note=note)
    metric = replace(metric, set=set_name or metric.set)
    pair = _first_evaluated_pair(first, second, metric)
    if pair is None:
        return Differing(metric, metric.set, note="the two have no evaluated trials to pair")
    first_set, second_set = pair
    if len(first_set.counts_NC) != len(second_set.counts_NC):
        return Differing(metric, metric.set, note=f"the two are scored on different {noun}s")
    samples = samples_by_difference(metric, first_set, second_set)
    note = "" if samples else f"every {noun} has the same {metric.label}"
    trials = (first_set.trial, second_set.trial)
    return Differing(metric, metric.set, trials, samples[:SHOWN_TEXTS], note)


def _first_evaluated_pair(
    first: Side, second: Side, metric: Metric
) -> tuple[EvaluatedSet, EvaluatedSet] | None:
    for first_set, second_set in _set_pairs(first, second, metric).values():
        if not isinstance(first_set, str) and not isinstance(second_set, str):
            return first_set, second_set
    return None


def samples_by_difference(
    metric: Metric, first: EvaluatedSet, second: EvaluatedSet
) -> list[SampleCompared]:
    """Those whose scores differ, the largest difference first."""
    formula = metric.from_counts[0]
    first_scores = scores(formula, first.counts_NC, 1, partly=True).tolist()
    second_scores = scores(formula, second.counts_NC, 1, partly=True).tolist()
    samples = list[SampleCompared]()
    for place, pair in enumerate(zip(first_scores, second_scores, strict=True), start=1):
        sample = SampleCompared(place, *pair)
        # the score of a sample is undefined if what it is divided by is 0
        if math.isfinite(sample.difference) and sample.difference != 0:
            samples.append(sample)
    return sorted(samples, key=lambda sample: (-abs(sample.difference), sample.place))


def _metric(
    sides: SidePair, metric: Metric, study_family: Family | None, pairs: int
) -> MetricCompared:
    first, second = sides
    first_values = first.values(metric)
    second_values = second.values(metric)
    row = second.row
    tested_family = study_family
    if tested_family is None:
        row = SECOND
        values = {
            FIRST: metric.tested_values(first_values),
            SECOND: metric.tested_values(second_values),
        }
        diverged = {FIRST: first.diverged, SECOND: second.diverged}
        tested_family = family(SeedScores(metric, values, diverged, n_families=pairs), FIRST)
    assert tested_family is not None, "the reference is one of the two"
    common_means = None
    if tested_family.paired:
        seeds = [seed for seed in first_values if seed in second_values]
        common_means = (
            metric_mean(metric, [first_values[seed] for seed in seeds]),
            metric_mean(metric, [second_values[seed] for seed in seeds]),
        )
    means = (
        metric_mean(metric, [*first_values.values()]),
        metric_mean(metric, [*second_values.values()]),
    )
    reason = _why_not_compared(sides, metric)
    return MetricCompared(
        metric,
        means,
        (len(first_values), len(second_values)),
        reason or tested_family.rows.get(row, "not tested"),
        tested_family.comparisons * pairs,
        study_family is not None,
        _over_samples(first, second, metric),
        reason,
        common_means,
    )


def _why_not_compared(sides: SidePair, metric: Metric) -> str:
    """Such as "different pieces from base"; empty if their scores can be compared."""
    trials = {}
    for side in sides:
        for trial in side.trials:
            folder = side.study.trial_folder(trial)
            trials[_label(side, trial)] = (folder, side.results[trial.seed])
    text_of_trial = comparable_within(metric, trials)
    first, second = sides
    first_texts = _texts(first, text_of_trial)
    return why_not_compared(metric, _texts(second, text_of_trial), first_texts, first.label)


def _label(side: Side, trial: StudyTrial) -> str:
    return f"{side.label} {trial.name}"


def _texts(side: Side, text_of_trial: Mapping[str, str]) -> list[str]:
    labels = [_label(side, trial) for trial in side.trials]
    return [text_of_trial[label] for label in labels if label in text_of_trial]


def _over_samples(first: Side, second: Side, metric: Metric) -> dict[str, SampleTest | str]:
    if not metric.from_counts:
        return {"": f"trials have no counts for {metric.label}"}
    second_minus_first = {
        name: (second_set, first_set)
        for name, (first_set, second_set) in _set_pairs(first, second, metric).items()
    }
    return paired_tests(metric, second_minus_first, first.study.task.sample)


def _set_pairs(first: Side, second: Side, metric: Metric) -> dict[str, SetPair]:
    """Trials of one seed, or the only trials of both, each pair with its name."""
    set_pairs = dict[str, SetPair]()
    for first_trial, second_trial in paired_trials(first, second):
        first_set = evaluated(first.study, first_trial, metric, metric.set)
        second_set = evaluated(second.study, second_trial, metric, metric.set)
        set_pairs[pair_name(first_trial, second_trial)] = (first_set, second_set)
    return set_pairs
