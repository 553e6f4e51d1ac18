"""Within what the scores of a metric can be compared: perplexities, for example, over the same
pieces alone.

A trial records it with its scores, under the name in ``Metric.within``. Where any trial lacks it,
such as one of an older version, trials are told apart by the fingerprints of their data.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from tracking.card import Metric
from tracking.files import read_yaml, unless_damaged
from tracking.trial import TrialFolder

NOT_COMPARED = "not compared"
"""In place of a difference."""
EvaluatedTrial = tuple[TrialFolder, Mapping[str, Any]]
"""The trial's folder, and its result."""


def comparable_within(metric: Metric, trials: Mapping[str, EvaluatedTrial]) -> dict[str, str]:
    """By the names of ``trials``: those with equal values can be compared, and those without one
    with all others."""
    if metric.within is None:
        return {}
    scores = {name: result["scores"].get(metric.set) for name, (_, result) in trials.items()}
    evaluated = {name: of_set for name, of_set in scores.items() if of_set is not None}
    recorded = {name: str(of_set.get(metric.within) or "") for name, of_set in evaluated.items()}
    if all(recorded.values()):
        return recorded
    fingerprints = {name: _data_fingerprint(trials[name][0]) for name in evaluated}
    return {name: fingerprint for name, fingerprint in fingerprints.items() if fingerprint}


def why_not_compared(
    metric: Metric, row: Collection[str], reference: Collection[str], name: str
) -> str:
    """Why a row with these values differs from nothing, such as "other pieces than base"; empty if
    it can be compared.

    ``name`` is that of the reference."""
    if len(set(reference)) > 1:
        return f"{name} mixes different {metric.within}"
    return (
        f"other {metric.within} than {name}" if reference and not set(row) <= set(reference) else ""
    )


def _data_fingerprint(folder: TrialFolder) -> str:
    """Empty if it is unknown."""
    fingerprint = unless_damaged(partial(read_yaml, folder.config_path, "data_fingerprint"), None)
    return "" if fingerprint is None else str(fingerprint)
