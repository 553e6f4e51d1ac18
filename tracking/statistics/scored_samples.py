"""The samples of a trial's evaluated set, checked against the scores of its result."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tracking.card import Card, Metric
from tracking.damage import DamagedFileError
from tracking.files import read_whole
from tracking.study import Study, Trial

if TYPE_CHECKING:  # NumPy is imported where samples are read: a table with cached tests needs none
    from tracking.statistics.counts import Floats


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A finished trial on one set, as its result says."""

    study: Study
    trial: Trial
    step: int
    score: float
    decode: Mapping[str, Any]
    data: str  # the fingerprint of its data; "" if it is unknown
    digest: str  # of the file with its samples


class UntestedError(ValueError):
    """Why a trial has no test, in a few words."""


def evaluated(study: Study, trial: Trial, metric: Metric, set_name: str) -> Evaluated:
    """The trial's score, and what identifies its samples. Raises UntestedError."""
    folder = study.trial_folder(trial)
    state, result = folder.standing(trial.key)
    if result is None:
        raise UntestedError(f"{trial.name} is {state}")
    scores = result["scores"].get(set_name)
    if scores is None:
        raise UntestedError(f"{trial.name} is not evaluated on {set_name}")
    score = scores.get(metric.name)
    if score is None:
        raise UntestedError(f"{metric.label} of {trial.name} is not known or not finite")
    try:
        content = read_whole(folder.statistics_path(set_name))
        data = str(folder.provenance().get("data_fingerprint") or "")
    except DamagedFileError as error:
        raise UntestedError(f"{trial.name}: {error.note}") from None
    if content is None:
        raise UntestedError(f"{trial.name} has no statistics/{set_name}.jsonl")
    digest = blake2b(content, digest_size=16).hexdigest()
    return Evaluated(study, trial, result["step"], score, scores.get("decode", {}), data, digest)


def samples(metric: Metric, set_name: str, known: Evaluated) -> "Floats":
    """[N, C]: the counts of each sample. Raises UntestedError if the file is damaged, or not that of the result."""
    from tracking.statistics.counts import counts, scores

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
