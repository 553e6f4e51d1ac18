"""Chance over the samples of a set: a paired bootstrap of two trials.

It says whether a different choice of samples could reverse the difference between two trained
models. It says nothing about other seeds: that is `family.py`, and the two are never mixed. After
Koehn (EMNLP 2004, aclanthology.org/W04-3250). The draws are those of sacreBLEU: the same generator,
seed and order, so that with as many draws both resample the same sets.

Below: the samples behind a trial's scores, read, checked against its result, and scored again.
Shapes: D draws, N samples, C columns of counts, K sums (one per choice of samples), T trials.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tracking.card import Metric
from tracking.files import DamagedFileError, unless_damaged
from tracking.statistics.seeds.finding import DRAWS
from tracking.statistics.seeds.seed_tests import LARGEST_EXPONENT
from tracking.study import Study, StudyTrial
from tracking.words import count_of

FIRST_LINE = 2
"""Of the samples in their file: the head is line 1."""
LEAST_SAMPLES = 20
"""Fewer hardly vary between draws, so that a bootstrap is certain of almost any difference."""
SAMPLING_SEED = 12345  # sacreBLEU's default
BETA = 2.0  # of the F score of n-grams
CELLS_AT_ONCE = 4_000_000  # of a block of draws: 32 MB
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EvaluatedSet:
    """A trial that counts, on one set: its score, and the counts of the samples behind it."""

    trial: StudyTrial
    score: float
    data: str  # the fingerprint of its data; "" if it is unknown
    within: str  # the text of ``Metric.within``: scores with equal texts compare; or ""
    counts_NC: Floats


Statistics = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]
"""The head and the samples of a set's file."""
SetPair = tuple[EvaluatedSet | str, EvaluatedSet | str]
"""Two trials; in place of one that cannot be tested, why it cannot."""
K = TypeVar("K")


@dataclass(frozen=True)
class SampleTest:
    """One trial against another one. ``low`` and ``high``: the 95 % interval."""

    difference: float
    low: float
    high: float
    p: float  # two-sided
    samples: int  # of the set


def resampled_scores(formula: str, counts_TNC: Sequence[Floats], draws: int) -> Floats:
    """[T, D]: the score of each trial on each draw of N samples with replacement; all trials share
    the draws."""
    samples, columns = counts_TNC[0].shape
    side_by_side = np.concatenate(counts_TNC, axis=1)  # [N, T * C]
    cells_per_draw = max(samples, side_by_side.shape[1])
    draws_at_once = max(1, CELLS_AT_ONCE // cells_per_draw)
    blocks: list[Floats] = []
    for drawn_KN in _draws(samples, draws, draws_at_once):
        sums_KTC = (drawn_KN @ side_by_side).reshape(-1, columns)
        blocks.append(scores(formula, sums_KTC, samples).reshape(len(drawn_KN), -1))
    return np.concatenate(blocks).T


def resampled(
    ours_D: Floats, theirs_D: Floats, difference: float, samples: int
) -> SampleTest | None:
    """The difference of two trials over the same draws, with a percentile interval.

    p is the share of draws whose difference, shifted to mean zero, is at least as large as the
    measured one: a two-sided test of no difference, where sacreBLEU's is nearly one-sided (it takes
    absolute values before it shifts). Both counts have one added, as in sacreBLEU, so that p is
    never 0. None if a draw has no score.
    """
    differences_D = ours_D - theirs_D
    if not np.isfinite(differences_D).all():
        return None
    low, high = np.quantile(differences_D, (0.025, 0.975))
    shifted_D = np.abs(differences_D - differences_D.mean())
    larger = int(np.count_nonzero(shifted_D >= abs(difference)))
    p = (larger + 1) / (len(differences_D) + 1)
    return SampleTest(difference, float(low), float(high), p, samples)


def _draws(samples: int, draws: int, at_once: int) -> Iterator[Floats]:
    """Blocks of at most ``at_once`` draws, [K, N]: how often each sample is in each draw."""
    random = np.random.default_rng(SAMPLING_SEED)
    for start in range(0, draws, at_once):
        block = min(at_once, draws - start)
        drawn_KN = random.integers(0, samples, size=(block, samples))
        cells_KN = drawn_KN + samples * np.arange(block)[:, None]
        frequencies = np.bincount(cells_KN.ravel(), minlength=block * samples)
        yield frequencies.reshape(block, samples).astype(np.float64)


def paired_tests(
    metric: Metric, pairs: Mapping[K, SetPair], noun: str
) -> dict[K, SampleTest | str]:
    """The test of each pair, or why it has none. Trials with as many samples share their draws.

    ``noun`` is what a sample is called."""
    tests = dict[K, SampleTest | str]()
    pairs_of_size: dict[int, dict[K, tuple[EvaluatedSet, EvaluatedSet]]] = {}
    for key, (ours, theirs) in pairs.items():
        if isinstance(ours, str) or isinstance(theirs, str):
            tests[key] = ours if isinstance(ours, str) else str(theirs)
        elif reason := _why_unpaired(metric, ours, theirs, noun):
            tests[key] = reason
        else:
            pairs_of_size.setdefault(len(ours.counts_NC), {})[key] = ours, theirs
    for size, size_pairs in pairs_of_size.items():
        trials = list(dict.fromkeys(trial for pair in size_pairs.values() for trial in pair))
        counts_TNC = [trial.counts_NC for trial in trials]
        draws = resampled_scores(metric.from_counts[0], counts_TNC, DRAWS)
        draws_of_trial = dict(zip(trials, draws, strict=True))
        for key, (ours, theirs) in size_pairs.items():
            difference = ours.score - theirs.score
            test = resampled(draws_of_trial[ours], draws_of_trial[theirs], difference, size)
            tests[key] = test or "not every draw of the set has a score"
    return tests


def _why_unpaired(metric: Metric, ours: EvaluatedSet, theirs: EvaluatedSet, noun: str) -> str:
    """Why the two cannot be tested; empty if they can."""
    return (
        _too_few(len(ours.counts_NC), noun)
        or _unlike(metric, ours, theirs)
        or _unlike_samples(metric.from_counts[0], ours, theirs, noun)
    )


def _too_few(samples: int, noun: str) -> str:
    """Such as "3 sentences", if resampling them says nothing; otherwise empty."""
    return count_of(samples, noun) if samples < LEAST_SAMPLES else ""


def _unlike(metric: Metric, ours: EvaluatedSet, theirs: EvaluatedSet) -> str:
    """Why the two scores cannot be compared; empty if they can, or if either lacks its text."""
    if ours.within and theirs.within and ours.within != theirs.within:
        return f"different {metric.within} from {theirs.trial.name}"
    return ""


def _unlike_samples(formula: str, ours: EvaluatedSet, theirs: EvaluatedSet, noun: str) -> str:
    """Why the two are not scored on the same samples; empty if they are."""
    our_size = len(ours.counts_NC)
    their_size = len(theirs.counts_NC)
    if our_size != their_size:
        return f"{our_size} {noun}s, but {theirs.trial.name} has {their_size}"
    reference = SCORED[formula].reference
    our_references = ours.counts_NC[:, reference]
    has_same_references = np.array_equal(our_references, theirs.counts_NC[:, reference])
    no_references = our_references.shape[1] == 0
    has_other_data = ours.data != theirs.data and ours.data and theirs.data
    if not has_same_references or (no_references and has_other_data):
        return f"has different {noun}s from {theirs.trial.name}, or counts them in different units"
    return ""


def evaluated(
    study: Study,
    trial: StudyTrial,
    metric: Metric,
    set_name: str,
    statistics: Statistics | None = None,
) -> EvaluatedSet | str:
    """The trial's score with its samples; or why it cannot be tested, in a few words.

    ``statistics`` is the content of their file if it was read already."""
    standing = study.standing(trial)
    result = standing.counted
    if result is None:
        state = "diverged" if standing.result else f"is {standing.state}"
        return f"{trial.name} {state}"
    set_scores = result["scores"].get(set_name)
    if set_scores is None:
        return f"{trial.name} is not evaluated on {set_name}"
    score = set_scores.get(metric.name)
    if score is None:
        return f"{metric.label} of {trial.name} is not known or not finite"
    folder = study.trial_folder(trial)
    name = f"statistics/{set_name}.jsonl"
    try:
        statistics = statistics or folder.statistics(set_name)
        if statistics is None:
            return f"{trial.name} has no {name}"
        counts_NC = _counts_behind(*statistics, metric, (trial.key, result["step"]), score)
    except DamagedFileError as error:
        return f"{trial.name}: {error.note}"
    except ValueError as error:
        return f"{trial.name}: {name}: {error}"
    data = str(unless_damaged(folder.provenance, dict[str, Any]()).get("data_fingerprint") or "")
    within = str(set_scores.get(metric.within or "") or "")
    return EvaluatedSet(trial, score, data, within, counts_NC)


def _counts_behind(
    head: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
    metric: Metric,
    training: tuple[str, int],
    score: float,
) -> Floats:
    """[N, C] of a file's head and lines. Raises ValueError if they are not those of this training
    and score."""
    if (head["key"], head["step"]) != training:
        raise ValueError("belongs to a different training run")
    counts_NC = counts(lines, metric.from_counts)
    (total,) = scores(metric.from_counts[0], counts_NC.sum(0, keepdims=True), len(counts_NC))
    if not math.isclose(total, score, rel_tol=1e-6, abs_tol=1e-9):
        raise ValueError(f"adds up to {total:.6g}, but the result has {score:.6g}")
    return counts_NC


def counts(lines: Sequence[Mapping[str, Any]], from_counts: Sequence[str]) -> Floats:
    """[N, C]: the fields that the formula takes, side by side. Raises ValueError with the line at
    fault."""
    formula, *fields = from_counts
    if not lines:
        raise ValueError("has no samples")
    names = ", ".join(fields)
    rows = [_numbers(line, fields, place) for place, line in enumerate(lines, FIRST_LINE)]
    columns = len(rows[0])
    for place, row in enumerate(rows, FIRST_LINE):
        if len(row) != columns:
            raise ValueError(
                f"line {place} has {len(row)} counts as {names}, "
                f"but line {FIRST_LINE} has {columns}"
            )
    counts_NC = np.array(rows, np.float64)
    faulty_rows = np.argwhere(~np.isfinite(counts_NC))
    if len(faulty_rows):
        line = int(faulty_rows[0, 0]) + FIRST_LINE
        raise ValueError(f"line {line} has a count that is not finite")
    if not SCORED[formula].fits(columns):
        raise ValueError(f"{names} has {columns} counts, which {formula} cannot take")
    return counts_NC


def _numbers(line: Mapping[str, Any], fields: Sequence[str], place: int) -> list[float]:
    """The fields of a sample, each a number or a list of numbers. Raises ValueError."""
    numbers: list[float] = []
    for name in fields:
        field = line.get(name)
        values: list[Any] = field if isinstance(field, list) else [field]
        if not all(isinstance(value, int | float) for value in values):
            raise ValueError(f"line {place} must have numbers as {name}, but has {field!r:.40}")
        numbers += values
    return numbers


def scores(formula: str, sums_KC: Floats, samples: int, partly: bool = False) -> Floats:
    """[K]: the score of each sum over ``samples`` samples; NaN where it is undefined.

    ``partly``, for sums of one sample: a sample too short for the longest n-grams is scored by the
    shorter ones.
    """
    return SCORED[formula].score(sums_KC, samples, partly)


def _mean(sums_KC: Floats, samples: int, _: bool) -> Floats:
    return np.asarray(sums_KC[:, 0] / samples, np.float64)


def _ratio(sums_KC: Floats, *_: object) -> Floats:
    numerator_K = sums_KC[:, 0]
    denominator_K = sums_KC[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_K = np.where(denominator_K > 0, numerator_K / denominator_K, np.nan)
    return np.asarray(ratio_K, np.float64)


def _exp_ratio(sums_KC: Floats, *_: object) -> Floats:
    return np.asarray(np.exp(np.minimum(_ratio(sums_KC), LARGEST_EXPONENT)), np.float64)


def _ngram_precision(smooth: bool, sums_KC: Floats, _: int, partly: bool) -> Floats:
    """As sacreBLEU computes it, over K sums at once: bit for bit the same operations where it
    matters."""
    orders = (sums_KC.shape[1] - 2) // 2
    length_K = sums_KC[:, 0]
    reference_K = sums_KC[:, 1]
    matching_KO = sums_KC[:, 2 : 2 + orders]
    ngrams_KO = sums_KC[:, 2 + orders :]
    has_ngrams_KO = np.cumprod(ngrams_KO > 0, axis=1).astype(bool)  # and so has every lower order
    blank_KO = has_ngrams_KO & (matching_KO == 0)
    blank_matches = 0.5 ** np.cumsum(blank_KO, axis=1) if smooth else 0.0
    smoothed_KO = np.where(blank_KO, blank_matches, matching_KO)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs_KO = np.log(100.0 * smoothed_KO / ngrams_KO)
        orders_K = has_ngrams_KO.sum(1) if partly else np.full(len(sums_KC), orders)
        total_K = np.where(has_ngrams_KO, logs_KO, 0.0 if partly else -np.inf).sum(1)
        brevity_K = np.where(length_K < reference_K, np.exp(1 - reference_K / length_K), 1.0)
        score_K = brevity_K * np.exp(total_K / orders_K)
    return np.where(matching_KO.any(1) & (length_K > 0), score_K, 0.0)


def _ngram_f(sums_KC: Floats, *_: object) -> Floats:
    """sacreBLEU's ``CHRF._compute_f_score`` without its eps smoothing, over K sums at once."""
    ours_KO = sums_KC[:, 0::3]
    reference_KO = sums_KC[:, 1::3]
    matching_KO = sums_KC[:, 2::3]
    has_ngrams_KO = (ours_KO > 0) & (reference_KO > 0)
    orders_K = np.maximum(has_ngrams_KO.sum(1), 1)
    precision_K = _quotients(matching_KO, ours_KO, has_ngrams_KO).sum(1) / orders_K
    recall_K = _quotients(matching_KO, reference_KO, has_ngrams_KO).sum(1) / orders_K
    denominator_K = BETA**2 * precision_K + recall_K
    numerator_K = 100 * (1 + BETA**2) * precision_K * recall_K
    return _quotients(numerator_K, denominator_K, denominator_K > 0)


def _quotients(numerator: Floats, denominator: Floats, where: npt.NDArray[np.bool_]) -> Floats:
    """0 elsewhere."""
    quotients: Floats = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=where)
    return quotients


@dataclass(frozen=True)
class Scored:
    """How a formula scores sums of counts, and which counts it takes."""

    score: Callable[[Floats, int, bool], Floats]
    least: int  # columns
    step: int  # further columns come in groups of this size; 0: there are none
    reference: slice  # the columns that depend only on the sample's reference

    def fits(self, columns: int) -> bool:
        further = columns - self.least
        if self.step == 0:
            return further == 0
        return further >= 0 and further % self.step == 0


SCORED = {
    "mean": Scored(_mean, 1, 0, slice(0)),
    "ratio": Scored(_ratio, 2, 0, slice(1, 2)),
    "exp_ratio": Scored(_exp_ratio, 2, 0, slice(1, 2)),
    "ngram_precision": Scored(partial(_ngram_precision, True), 4, 2, slice(1, 2)),
    "ngram_precision_unsmoothed": Scored(partial(_ngram_precision, False), 4, 2, slice(1, 2)),
    "ngram_f": Scored(_ngram_f, 3, 3, slice(1, None, 3)),
}
