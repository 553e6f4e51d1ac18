"""Chance over the samples of a set: a paired bootstrap of two trials.

It says whether another choice of samples could turn the difference between two trained models, and
nothing of other seeds: that is `family.py`, and the two are never mixed. After Koehn (EMNLP 2004,
aclanthology.org/W04-3250); the draws are those of sacreBLEU: the same generator, seed and order, so
that with as many draws both resample the same sets.

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
from tracking.statistics.finding import DRAWS
from tracking.statistics.seed_tests import LARGEST_EXPONENT
from tracking.study import Study, StudyTrial
from tracking.words import plural

FIRST = 2
"""The line of the first sample in its file: the head is line 1."""
LEAST_SAMPLES = 20
"""Fewer of them hardly differ from draw to draw, so that a bootstrap finds almost any difference
certain."""
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
    within: str  # within what its score can be compared; "" if it does not say so
    counts_NC: Floats


SetPair = tuple[EvaluatedSet | str, EvaluatedSet | str]
"""Two trials; in place of one that cannot be tested, why it cannot."""
K = TypeVar("K")


@dataclass(frozen=True)
class SampleTest:
    """One trial against another. ``low`` and ``high``: the 95 % interval."""

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
    blocks: list[Floats] = []
    for drawn_KN in _draws(
        samples, draws, max(1, CELLS_AT_ONCE // max(samples, side_by_side.shape[1]))
    ):
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
    return SampleTest(
        difference, float(low), float(high), (larger + 1) / (len(differences_D) + 1), samples
    )


def _draws(samples: int, draws: int, at_once: int) -> Iterator[Floats]:
    """Blocks of at most ``at_once`` draws, [K, N]: how often each sample is in each draw."""
    random = np.random.default_rng(SAMPLING_SEED)
    for start in range(0, draws, at_once):
        block = min(at_once, draws - start)
        places = (
            random.integers(0, samples, size=(block, samples)) + samples * np.arange(block)[:, None]
        )
        yield (
            np.bincount(places.ravel(), minlength=block * samples)
            .reshape(block, samples)
            .astype(np.float64)
        )


def paired_tests(
    metric: Metric, pairs: Mapping[K, SetPair], noun: str
) -> dict[K, SampleTest | str]:
    """The test of each pair, or why it has none. Trials with as many samples share their draws.

    ``noun`` is what a sample is called."""
    formula = metric.from_counts[0]
    found = dict[K, SampleTest | str]()
    sound = dict[K, tuple[EvaluatedSet, ...]]()
    for key, (ours, theirs) in pairs.items():
        if isinstance(ours, str) or isinstance(theirs, str):
            found[key] = ours if isinstance(ours, str) else str(theirs)
        elif few := _too_few(len(ours.counts_NC), noun):
            found[key] = few
        elif fault := _unlike(metric, ours, theirs) or _fault(formula, ours, theirs, noun):
            found[key] = fault
        else:
            sound[key] = ours, theirs
    for size in {len(ours.counts_NC) for ours, _ in sound.values()}:
        of_size = {key: pair for key, pair in sound.items() if len(pair[0].counts_NC) == size}
        trials = list(dict.fromkeys(each for pair in of_size.values() for each in pair))
        draws = resampled_scores(formula, [trial.counts_NC for trial in trials], DRAWS)
        drawn = dict(zip(trials, draws, strict=True))
        for key, (ours, theirs) in of_size.items():
            test = resampled(drawn[ours], drawn[theirs], ours.score - theirs.score, size)
            found[key] = test or "not every draw of the set has a score"
    return found


def _too_few(samples: int, noun: str) -> str:
    """Such as "3 sentences", if resampling them says nothing; otherwise empty."""
    return f"{samples} {plural(noun, samples)}" if samples < LEAST_SAMPLES else ""


def _unlike(metric: Metric, ours: EvaluatedSet, theirs: EvaluatedSet) -> str:
    """Why the two scores cannot be compared, if both say within what they can."""
    is_unlike = ours.within != theirs.within and ours.within and theirs.within
    return f"other {metric.within} than {theirs.trial.name}" if is_unlike else ""


def _fault(formula: str, ours: EvaluatedSet, theirs: EvaluatedSet, noun: str) -> str:
    """Why the two have no samples in common, if they have none."""
    counts = ours.counts_NC
    others = theirs.counts_NC
    if len(counts) != len(others):
        return f"{len(counts)} {noun}s, but {theirs.trial.name} has {len(others)}"
    fixed, expected = (
        each[:, SCORED[formula].reference] for each in (counts, others)
    )  # equal ones: the same samples
    other_data = ours.data != theirs.data and ours.data and theirs.data
    if not np.array_equal(fixed, expected) or (other_data and fixed.shape[1] == 0):
        return f"has different {noun}s than {theirs.trial.name}, or counts them in other units"
    return ""


def evaluated(study: Study, trial: StudyTrial, metric: Metric, set_name: str) -> EvaluatedSet | str:
    """The trial's score with its samples; or why it cannot be tested, in a few words."""
    (standing,) = study.standings([trial])
    if (result := standing.counted) is None:
        return f"{trial.name} {'diverged' if standing.result else f'is {standing.state}'}"
    if (of_set := result["scores"].get(set_name)) is None:
        return f"{trial.name} is not evaluated on {set_name}"
    if (score := of_set.get(metric.name)) is None:
        return f"{metric.label} of {trial.name} is not known or not finite"
    folder = study.trial_folder(trial)
    name = f"statistics/{set_name}.jsonl"
    try:
        if (found := folder.statistics(set_name)) is None:
            return f"{trial.name} has no {name}"
        counts_NC = _counts_behind(*found, metric, (trial.key, result["step"]), score)
    except DamagedFileError as error:
        return f"{trial.name}: {error.note}"
    except ValueError as error:
        return f"{trial.name}: {name}: {error}"
    data = str(unless_damaged(folder.provenance, dict[str, Any]()).get("data_fingerprint") or "")
    within = str(of_set.get(metric.within or "") or "")
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
        raise ValueError("is of another training")
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
    rows = [_numbers(line, fields, place) for place, line in enumerate(lines, FIRST)]
    for place, row in enumerate(rows, FIRST):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"line {place} has another number of counts as {', '.join(fields)} than line {FIRST}"
            )
    found = np.array(rows, np.float64)
    if not np.isfinite(found).all():
        raise ValueError(
            f"line {int(np.argwhere(~np.isfinite(found))[0, 0]) + FIRST} has a count that is not finite"
        )
    if not SCORED[formula].fits(found.shape[1]):
        raise ValueError(
            f"{', '.join(fields)} has {found.shape[1]} counts, which {formula} cannot take"
        )
    return found


def _numbers(line: Mapping[str, Any], fields: Sequence[str], place: int) -> list[float]:
    """The fields of a sample, each a number or a list of numbers. Raises ValueError."""
    found: list[float] = []
    for name in fields:
        value = line.get(name)
        values: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(each, int | float) for each in values):
            raise ValueError(f"line {place} must have numbers as {name}, but has {value!r:.40}")
        found += values
    return found


def scores(formula: str, sums_KC: Floats, samples: int, partly: bool = False) -> Floats:
    """[K]: the score of each sum over ``samples`` samples; NaN where it is undefined.

    ``partly``, for sums of one sample: a sample too short for the longest n-grams is scored by the
    shorter ones.
    """
    return SCORED[formula].score(sums_KC, samples, partly)


def _mean(sums_KC: Floats, samples: int, _: bool) -> Floats:
    return np.asarray(sums_KC[:, 0] / samples, np.float64)


def _ratio(sums_KC: Floats, *_: object) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where(sums_KC[:, 1] > 0, sums_KC[:, 0] / sums_KC[:, 1], np.nan), np.float64
        )


def _exp_ratio(sums_KC: Floats, *_: object) -> Floats:
    return np.asarray(np.exp(np.minimum(_ratio(sums_KC), LARGEST_EXPONENT)), np.float64)


def _ngram_precision(smooth: bool, sums_KC: Floats, _: int, partly: bool) -> Floats:
    """As sacreBLEU computes it, over K sums at once: bit for bit the same operations where it
    matters."""
    orders = (sums_KC.shape[1] - 2) // 2
    length_K = sums_KC[:, 0]
    reference_K = sums_KC[:, 1]
    matching_KO = sums_KC[:, 2 : 2 + orders]
    all_KO = sums_KC[:, 2 + orders :]
    known_KO = np.cumprod(all_KO > 0, axis=1).astype(bool)  # up to the first order without n-grams
    blank_KO = known_KO & (matching_KO == 0)
    counted_KO = np.where(
        blank_KO, 0.5 ** np.cumsum(blank_KO, axis=1) if smooth else 0.0, matching_KO
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs_KO = np.log(100.0 * counted_KO / all_KO)
        used_K = known_KO.sum(1) if partly else np.full(len(sums_KC), orders)
        total_K = np.where(known_KO, logs_KO, 0.0 if partly else -np.inf).sum(1)
        brevity_K = np.where(length_K < reference_K, np.exp(1 - reference_K / length_K), 1.0)
        found_K = brevity_K * np.exp(total_K / used_K)
    return np.where(matching_KO.any(1) & (length_K > 0), found_K, 0.0)


def _ngram_f(sums_KC: Floats, *_: object) -> Floats:
    """sacreBLEU's ``CHRF._compute_f_score`` without its eps smoothing, over K sums at once."""
    ours_KO = sums_KC[:, 0::3]
    reference_KO = sums_KC[:, 1::3]
    both_KO = sums_KC[:, 2::3]
    known_KO = (ours_KO > 0) & (reference_KO > 0)
    orders_K = np.maximum(known_KO.sum(1), 1)
    precision_K = (
        np.divide(both_KO, ours_KO, out=np.zeros_like(both_KO), where=known_KO).sum(1) / orders_K
    )
    recall_K = (
        np.divide(both_KO, reference_KO, out=np.zeros_like(both_KO), where=known_KO).sum(1)
        / orders_K
    )
    below_K = BETA**2 * precision_K + recall_K
    above_K = 100 * (1 + BETA**2) * precision_K * recall_K
    found_K: Floats = np.divide(above_K, below_K, out=np.zeros_like(above_K), where=below_K > 0)
    return found_K


@dataclass(frozen=True)
class Scored:
    """How a formula scores sums of counts, and which counts it takes."""

    score: Callable[[Floats, int, bool], Floats]
    least: int  # columns
    more: int  # columns come in so many more; 0: no more
    reference: slice  # the columns that depend on the sample's reference alone

    def fits(self, columns: int) -> bool:
        over = columns - self.least
        return over >= 0 and over % self.more == 0 if self.more else over == 0


SCORED = {
    "mean": Scored(_mean, 1, 0, slice(0)),
    "ratio": Scored(_ratio, 2, 0, slice(1, 2)),
    "exp_ratio": Scored(_exp_ratio, 2, 0, slice(1, 2)),
    "ngram_precision": Scored(partial(_ngram_precision, True), 4, 2, slice(1, 2)),
    "ngram_precision_unsmoothed": Scored(partial(_ngram_precision, False), 4, 2, slice(1, 2)),
    "ngram_f": Scored(_ngram_f, 3, 3, slice(1, None, 3)),
}
