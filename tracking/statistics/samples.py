"""The samples behind a trial's scores: read, checked against its result, as arrays of counts, and scored again.

Shapes: N samples, C columns, K sums (one per choice of samples).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracking.card import Card, Metric
from tracking.files import DamagedFileError, unless_damaged
from tracking.statistics.seed_tests import LARGEST_EXPONENT
from tracking.study import Study, Trial

FIRST = 2
"""The line of the first sample in its file: the head is line 1."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A trial that counts on one set, as its result says."""

    study: Study
    trial: Trial
    step: int
    score: float
    decode: Mapping[str, Any]
    data: str  # the fingerprint of its data; "" if it is unknown


class UntestedError(ValueError):
    """Why a trial has no test, in a few words."""


def evaluated(study: Study, trial: Trial, metric: Metric, set_name: str) -> Evaluated:
    """The trial's score, and what identifies its samples. Raises UntestedError."""
    folder, (standing,) = study.trial_folder(trial), study.standings([trial])
    result = standing.counted
    if result is None:
        raise UntestedError(f"{trial.name} {'diverged' if standing.result else f'is {standing.state}'}")
    of_set = result["scores"].get(set_name)
    if of_set is None:
        raise UntestedError(f"{trial.name} is not evaluated on {set_name}")
    score = of_set.get(metric.name)
    if score is None:
        raise UntestedError(f"{metric.label} of {trial.name} is not known or not finite")
    if not folder.statistics_path(set_name).exists():
        raise UntestedError(f"{trial.name} has no statistics/{set_name}.jsonl")
    data = str(unless_damaged(folder.provenance, dict[str, Any]()).get("data_fingerprint") or "")
    return Evaluated(study, trial, result["step"], score, of_set.get("decode", {}), data)


def samples(metric: Metric, set_name: str, known: Evaluated) -> Floats:
    """[N, C]: the counts of each sample. Raises UntestedError if the file is damaged, or not that of the result."""
    name = f"{known.trial.name}: statistics/{set_name}.jsonl"
    try:
        found = known.study.trial_folder(known.trial).statistics(set_name)
        head, lines = found or ({}, [])
        if found and (head["key"], head["step"]) != (known.trial.key, known.step):
            raise ValueError("is of another training")
        counted = counts(lines, metric.from_counts)
    except DamagedFileError as error:
        raise UntestedError(f"{known.trial.name}: {error.note}") from None
    except ValueError as error:
        raise UntestedError(f"{name}: {error}") from None
    (total,) = scores(metric.from_counts[0], counted.sum(0, keepdims=True), len(counted))
    if not math.isclose(total, known.score, rel_tol=1e-6, abs_tol=1e-9):
        raise UntestedError(f"{name} adds up to {total:.6g}, but the result has {known.score:.6g}")
    return counted


def other_settings(card: Card, metric: Metric, ours: Evaluated, theirs: Evaluated, changed: Mapping[str, Any]) -> str:
    """The settings for scoring that change the metric and differ, such as "decode.alpha 1.0, not 0.6".

    ``changed`` are the short names of the row's own change, which is what the row is compared for.
    """
    names = dict.fromkeys((*ours.decode, *theirs.decode))
    differing = [name for name in names if ours.decode.get(name) != theirs.decode.get(name)]
    told = [name for name in differing if name.rpartition(".")[2] not in changed and metric.decided_by([name])]
    values = ((name, *(each.decode.get(name, "default") for each in (ours, theirs))) for name in told)
    return "; ".join(f"{card.setting(name)} {our}, not {their}" for name, our, their in values)


def counts(lines: Sequence[Mapping[str, Any]], from_counts: Sequence[str]) -> Floats:
    """[N, C]: the fields that the formula takes, side by side. Raises ValueError with the line at fault."""
    formula, *fields = from_counts
    if not lines:
        raise ValueError("has no samples")
    rows = [_numbers(line, fields, place) for place, line in enumerate(lines, FIRST)]
    for place, row in enumerate(rows, FIRST):
        if len(row) != len(rows[0]):
            raise ValueError(f"line {place} has another number of counts as {', '.join(fields)} than line {FIRST}")
    found = np.array(rows, np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"line {int(np.argwhere(~np.isfinite(found))[0, 0]) + FIRST} has a count that is not finite")
    if not _fits(formula, found.shape[1]):
        raise ValueError(f"{', '.join(fields)} has {found.shape[1]} counts, which {formula} cannot take")
    return found


def of_reference(formula: str, counts_NC: Floats) -> Floats:
    """[N, R]: the columns that depend on the sample's reference alone, so that equal ones mean the same samples."""
    match formula:
        case "mean":
            return counts_NC[:, :0]
        case "ngram_f":
            return counts_NC[:, 1::3]
        case _:
            return counts_NC[:, 1:2]


def scores(formula: str, sums_KC: Floats, samples: int, partly: bool = False) -> Floats:
    """[K]: the score of each sum over ``samples`` samples; NaN where it is undefined.

    ``partly``, for sums of one sample: a sample too short for the longest n-grams is scored by the shorter ones.
    """
    match formula:
        case "mean":
            return sums_KC[:, 0] / samples if samples else np.full(len(sums_KC), np.nan)
        case "ratio":
            return _ratio(sums_KC[:, 0], sums_KC[:, 1])
        case "exp_ratio":
            return np.asarray(np.exp(np.minimum(_ratio(sums_KC[:, 0], sums_KC[:, 1]), LARGEST_EXPONENT)), np.float64)
        case "ngram_precision":
            return _ngram_precision(sums_KC, smooth=True, partly=partly)
        case "ngram_precision_unsmoothed":
            return _ngram_precision(sums_KC, smooth=False, partly=partly)
        case "ngram_f":
            return _ngram_f(sums_KC)
        case _:
            raise ValueError(f"{formula} is not a formula")


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


def _fits(formula: str, columns: int) -> bool:
    match formula:
        case "mean":
            return columns == 1
        case "ratio" | "exp_ratio":
            return columns == 2
        case "ngram_f":
            return columns >= 3 and columns % 3 == 0
        case _:
            return columns >= 4 and columns % 2 == 0


def _ratio(above_K: Floats, below_K: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(below_K > 0, above_K / below_K, np.nan), np.float64)


def _ngram_precision(sums_KC: Floats, smooth: bool, partly: bool) -> Floats:
    """As sacreBLEU computes it, over K sums at once: bit for bit the same operations where it matters."""
    orders = (sums_KC.shape[1] - 2) // 2
    length_K, reference_K = sums_KC[:, 0], sums_KC[:, 1]
    matching_KO, all_KO = sums_KC[:, 2 : 2 + orders], sums_KC[:, 2 + orders :]
    known_KO = np.cumprod(all_KO > 0, axis=1).astype(bool)  # up to the first order without n-grams
    blank_KO = known_KO & (matching_KO == 0)
    counted_KO = np.where(blank_KO, 0.5 ** np.cumsum(blank_KO, axis=1) if smooth else 0.0, matching_KO)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs_KO = np.log(100.0 * counted_KO / all_KO)
        used_K = known_KO.sum(1) if partly else np.full(len(sums_KC), orders)
        total_K = np.where(known_KO, logs_KO, 0.0 if partly else -np.inf).sum(1)
        brevity_K = np.where(length_K < reference_K, np.exp(1 - reference_K / length_K), 1.0)
        found_K = brevity_K * np.exp(total_K / used_K)
    return np.where(matching_KO.any(1) & (length_K > 0), found_K, 0.0)


def _ngram_f(sums_KC: Floats, beta: float = 2.0) -> Floats:
    """sacreBLEU's ``CHRF._compute_f_score`` without its eps smoothing, over K sums at once."""
    ours_KO, reference_KO, both_KO = sums_KC[:, 0::3], sums_KC[:, 1::3], sums_KC[:, 2::3]
    known_KO = (ours_KO > 0) & (reference_KO > 0)
    orders_K = np.maximum(known_KO.sum(1), 1)
    precision_K = np.divide(both_KO, ours_KO, out=np.zeros_like(both_KO), where=known_KO).sum(1) / orders_K
    recall_K = np.divide(both_KO, reference_KO, out=np.zeros_like(both_KO), where=known_KO).sum(1) / orders_K
    below_K = beta**2 * precision_K + recall_K
    above_K = 100 * (1 + beta**2) * precision_K * recall_K
    found_K: Floats = np.divide(above_K, below_K, out=np.zeros_like(above_K), where=below_K > 0)
    return found_K
