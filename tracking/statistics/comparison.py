"""Two trials, rows or whole studies compared: configuration, every metric with both kinds of
chance, single samples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tracking.card import Metric
from tracking.code import Code, changed_files, code_diff, read_code
from tracking.files import unless_damaged
from tracking.statistics.comparable_scores import comparable_within, why_not_compared
from tracking.statistics.family import Family, RowTest, family, why_untested
from tracking.statistics.findings import find
from tracking.statistics.rows import metric_mean, minus, table
from tracking.statistics.samples import SampleTest, SetPair, evaluated, paired_tests, scores
from tracking.statistics.unlike_trials import THEN, aspects
from tracking.study import Study, StudyTrial, study_of_metrics
from tracking.words import listed

OF_A_RUN = {"key", "data_fingerprint", "row", "sweep", "tracking", "paths", "cluster"}
"""Groups of config.yaml that say how a trial ran, not what it is."""
SHOWN_TEXTS = 10
FIRST = "first"
SECOND = "second"


@dataclass(frozen=True)
class Side:
    """Finished trials of one row that did not diverge; ``label`` is the name that was asked for."""

    label: str
    study: Study
    trials: tuple[StudyTrial, ...]
    results: Mapping[int, dict[str, Any]]  # by seed
    diverged: tuple[int, ...] = ()  # the other finished seeds

    @staticmethod
    def of(label: str, study: Study, trials: Iterable[StudyTrial]) -> "Side":
        """Only the finished ones of these trials."""
        seen = study.standings(trials)
        kept = [(each.trial, each.counted) for each in seen if each.counted is not None]
        lost = tuple(each.trial.seed for each in seen if each.diverged is not None)
        results = {trial.seed: result for trial, result in kept}
        return Side(label, study, tuple(trial for trial, _ in kept), results, lost)

    @property
    def row(self) -> str:
        return self.trials[0].row

    @property
    def is_row(self) -> bool:
        """Whether these are all trials of their row that count, so that the study's table speaks of
        them."""
        others = [
            trial
            for trial in self.study.trials
            if trial.row == self.row and trial not in self.trials
        ]
        return all(standing.counted is None for standing in self.study.standings(others))

    def values(self, metric: Metric, set_name: str) -> dict[int, float | None]:
        """By seed, of the seeds that are evaluated on the set."""
        scores = {seed: result["scores"].get(set_name) for seed, result in self.results.items()}
        return {
            seed: of_set.get(metric.name) for seed, of_set in scores.items() if of_set is not None
        }


SidePair = tuple[Side, Side]


@dataclass(frozen=True)
class MetricCompared:
    """One metric on one set. Differences are second minus first."""

    metric: Metric
    set_name: str
    means: tuple[float | None, float | None]
    seeds: tuple[int, int]
    over_seeds: RowTest | str  # or why there is no test
    rows: int  # over which p and interval are adjusted: of the study, or the pairs that are tested together
    of_study: (
        bool  # whether the test is that of the study's table, with the first side as reference
    )
    over_samples: dict[str, SampleTest | str]  # by "seed 1"
    not_compared: str = ""  # why there is no difference, if scores are unlike
    common_means: tuple[float | None, float | None] | None = (
        None  # at the seeds of both, where rows are paired
    )

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
    """A pair of sides."""

    sides: SidePair
    configuration: dict[
        str, tuple[Any, Any]
    ]  # keys that differ; None for one that a side does not have
    origin: dict[
        str, tuple[str, str]
    ]  # packages, machine and code, where these are known of both and differ
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

    Two rows of one study are tested as in its table, with the first one as reference. Other pairs
    are adjusted over all pairs of which both sides can be tested.
    """
    tested = {
        metric.name: max(1, sum(_testable(pair, metric, set_name or metric.set) for pair in pairs))
        for metric in metrics
    }
    return [_compared(pair, metrics, set_name, tested) for pair in pairs]


def _compared(
    sides: SidePair, metrics: Sequence[Metric], set_name: str | None, tested: Mapping[str, int]
) -> Compared:
    families = _families_of_study(*sides, metrics, set_name)
    shown = next(iter(_seeds_in_common(*sides)), (sides[0].trials[0], sides[1].trials[0]))
    both = list(zip(sides, shown, strict=True))
    ours, theirs = (_settings(side, trial, set_name or metrics[0].set) for side, trial in both)
    began, other = (_origin(side, trial) for side, trial in both)
    code, other_code = (_last_code(side, trial) for side, trial in both)
    return Compared(
        sides,
        _unequal(ours, theirs, [*ours, *theirs]),
        _unequal(began, other, [name for name in began if name in other]),
        list(code_diff(code, other_code, changed_files(code, other_code)))
        if code and other_code
        else [],
        [
            _metric(
                sides,
                metric,
                set_name or metric.set,
                families.get(metric.name),
                tested[metric.name],
            )
            for metric in metrics
        ],
    )


def _families_of_study(
    first: Side, second: Side, metrics: Sequence[Metric], set_name: str | None
) -> Mapping[str, Family]:
    """The tests of the study to which both rows belong, with the first as reference, by metric; {}
    for other pairs."""
    if (
        first.study.folder != second.study.folder
        or first.row == second.row
        or not (first.is_row and second.is_row)
    ):
        return {}
    study = study_of_metrics(first.study, [metric.name for metric in metrics], set_name)
    findings = find(study, table(study, first.row), first.row)
    families = dict[str, Family]()
    for metric in study.task.tabled:
        family_of_row = findings.family_of(second.row, metric)
        if family_of_row is not None and family_of_row.reference == first.row:
            families[metric.name] = family_of_row
    return families


def _testable(pair: SidePair, metric: Metric, set_name: str) -> bool:
    if _why_not_compared(pair, metric, set_name):
        return False
    first, second = (metric.tested_values(side.values(metric, set_name)) for side in pair)
    return not (why_untested(first, reference=True) or why_untested(second, pair[1].diverged))


def _unequal(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], names: Iterable[str]
) -> dict[str, tuple[Any, Any]]:
    both = {name: (ours.get(name), theirs.get(name)) for name in names}
    return {name: (one, other) for name, (one, other) in both.items() if one != other}


def _origin(side: Side, trial: StudyTrial) -> dict[str, str]:
    return {name: THEN.join(values) for name, values in (aspects(side.study, trial) or {}).items()}


def _last_code(side: Side, trial: StudyTrial) -> Code | None:
    digest = unless_damaged(side.study.trial_folder(trial).provenance, {}).get("code")
    return unless_damaged(partial(read_code, side.study.folder, digest), None) if digest else None


def differing(
    first: Side, second: Side, metrics: Sequence[Metric], set_name: str | None
) -> Differing:
    """By the first of these metrics that has counts of its samples."""
    metric = next((metric for metric in metrics if metric.from_counts), None)
    noun = first.study.task.sample
    of_set = set_name or (metric or metrics[0]).set
    if metric is None:
        labels = listed([metric.label for metric in metrics])
        return Differing(
            None, of_set, note=f"no {noun} can be named: trials keep no counts of {labels}"
        )
    pairs = [
        [each for each in pair if not isinstance(each, str)]
        for _, pair in _pairs(first, second, metric, of_set)
    ]
    both = next((pair for pair in pairs if len(pair) == 2), None)
    if both is None:
        return Differing(metric, of_set, note="the two have no evaluated trials to pair")
    if len(both[0].counts_NC) != len(both[1].counts_NC):
        return Differing(metric, of_set, note=f"the two are scored on different {noun}s")
    each = [scores(metric.from_counts[0], side.counts_NC, 1, partly=True).tolist() for side in both]
    found = [
        SampleCompared(place, *pair) for place, pair in enumerate(zip(*each, strict=True), start=1)
    ]
    ordered = sorted(
        (one for one in found if one.difference), key=lambda one: (-abs(one.difference), one.place)
    )
    note = "" if ordered else f"every {noun} has the same {metric.label}"
    return Differing(metric, of_set, (both[0].trial, both[1].trial), ordered[:SHOWN_TEXTS], note)


def _metric(
    sides: SidePair, metric: Metric, set_name: str, known: Family | None, pairs: int
) -> MetricCompared:
    first, second = sides
    values = [side.values(metric, set_name) for side in sides]
    row = second.row
    found = known
    if found is None:
        two = {
            name: metric.tested_values(of) for name, of in zip((FIRST, SECOND), values, strict=True)
        }
        diverged = {FIRST: first.diverged, SECOND: second.diverged}
        row = SECOND
        found = family(metric, two, FIRST, diverged, families=pairs)
    assert found is not None, "the reference is among the two"
    why = _why_not_compared(sides, metric, set_name)
    common_means = None
    if found.paired:
        common_seeds = [seed for seed in values[0] if seed in values[1]]
        first_values, second_values = (
            [of_side[seed] for seed in common_seeds] for of_side in values
        )
        common_means = metric_mean(metric, first_values), metric_mean(metric, second_values)
    return MetricCompared(
        metric,
        set_name,
        (metric_mean(metric, [*values[0].values()]), metric_mean(metric, [*values[1].values()])),
        (len(values[0]), len(values[1])),
        why or found.rows.get(row, "not tested"),
        len(found.tests) * pairs,
        known is not None,
        _over_samples(first, second, metric, set_name),
        why,
        common_means,
    )


def _why_not_compared(sides: SidePair, metric: Metric, set_name: str) -> str:
    """Such as "other pieces than base"; empty if their scores can be compared."""
    there = replace(metric, set=set_name)
    trials = {
        f"{side.label} {trial.name}": (side.study.trial_folder(trial), side.results[trial.seed])
        for side in sides
        for trial in side.trials
    }
    within = comparable_within(there, trials)
    first, second = (
        [within[name] for trial in side.trials if (name := f"{side.label} {trial.name}") in within]
        for side in sides
    )
    return why_not_compared(there, second, first, sides[0].label)


def _over_samples(
    first: Side, second: Side, metric: Metric, set_name: str
) -> dict[str, SampleTest | str]:
    if not metric.from_counts:
        return {"": f"trials keep no counts of {metric.label}"}
    backward = {
        name: (theirs, ours) for name, (ours, theirs) in _pairs(first, second, metric, set_name)
    }
    return paired_tests(metric, backward, first.study.task.sample)  # second minus first


def _pairs(
    first: Side, second: Side, metric: Metric, set_name: str
) -> Iterator[tuple[str, SetPair]]:
    """Trials of one seed, or the only trials of both, each pair with its name."""
    for ours, theirs in _seeds_in_common(first, second):
        sides = ((first.study, ours), (second.study, theirs))
        one, other = (evaluated(study, trial, metric, set_name) for study, trial in sides)
        yield _pair_name(ours, theirs), (one, other)


def _seeds_in_common(first: Side, second: Side) -> list[tuple[StudyTrial, StudyTrial]]:
    seeds = {trial.seed: trial for trial in second.trials}
    found = [(trial, seeds[trial.seed]) for trial in first.trials if trial.seed in seeds]
    alone = len(first.trials) == len(second.trials) == 1
    return [(first.trials[0], second.trials[0])] if alone else found


def _settings(side: Side, trial: StudyTrial, set_name: str) -> dict[str, Any]:
    """Dotted keys of the task's groups, with the scoring behind the scores in place of what was
    configured."""
    card = side.study.task
    config = unless_damaged(side.study.trial_folder(trial).config, None) or {}
    flat = dict(_flat({group: of for group, of in config.items() if group not in OF_A_RUN}))
    decode = side.results[trial.seed]["scores"].get(set_name, {}).get("decode", {})
    data = {"data": str(config["data_fingerprint"])[:16]} if config.get("data_fingerprint") else {}
    return flat | {card.setting(name): value for name, value in decode.items()} | data


def _flat(tree: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _pair_name(ours: StudyTrial, theirs: StudyTrial) -> str:
    return (
        f"seed {ours.seed}" if ours.seed == theirs.seed else f"seeds {ours.seed} and {theirs.seed}"
    )
