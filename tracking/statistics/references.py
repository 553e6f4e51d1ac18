"""What each row is compared with: its reference, seed by seed or not, and which scores compare.

A row that only scores differs from its host, the row whose weights it scores. A trained row differs
from the row that `sweep.references` names for it, or else from the study's reference.

Some scores compare only where a text that is recorded with them is the same, the one named by
``Metric.within``: perplexities, for example, only over the same pieces. Where any trial lacks it,
as older versions did not record it, the fingerprints of the trials' data stand in.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracking.card import Metric
from tracking.files import read_yaml, unless_damaged
from tracking.study import Study
from tracking.trial import TrialFolder
from tracking.words import row_and_seed

NOT_COMPARED = "not compared"
"""In place of a difference."""
ITS_REFERENCE = "its reference"
"""What rows are compared with, if not all with the same row."""
EvaluatedTrial = tuple[TrialFolder, Mapping[str, Any]]
"""The trial's folder and its result."""


@dataclass(frozen=True)
class RowReference:
    """``paired``: differences are taken seed by seed, at the seeds that both rows have."""

    row: str
    shares_weights: bool
    paired: bool


def hosts_of(study: Study) -> dict[str, str]:
    """For each row that only scores, the row whose weights it scores."""
    row_of_trial = {trial.name: trial.row for trial in study.trials}
    hosts = dict[str, str]()
    for trial in study.trials:
        if trial.weights:
            named_row, _ = row_and_seed(trial.weights)  # that of a trial that was dropped
            hosts[trial.row] = row_of_trial.get(trial.weights, named_row)
    return hosts


def reference_of(
    row: str, reference: str, hosts: Mapping[str, str], study_is_paired: bool
) -> RowReference:
    """``reference`` is the row's own or the study's; rows that share weights with it differ from
    it, too."""
    shares_weights = hosts.get(row, row) == hosts.get(reference, reference)
    if shares_weights:
        is_another_row = row != reference
        return RowReference(reference, is_another_row, is_another_row)
    if row in hosts:
        return RowReference(hosts[row], True, True)
    return RowReference(reference, False, study_is_paired)


def with_names(references: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The reference of each row, with the new ``names`` of renamed rows."""
    return {
        names.get(row, row): names.get(reference, reference)
        for row, reference in references.items()
    }


def comparable_within(metric: Metric, trials: Mapping[str, EvaluatedTrial]) -> dict[str, str]:
    """For each trial's name, a text: scores with equal texts compare. A trial without a text
    compares with all."""
    if metric.within is None:
        return {}
    recorded = dict[str, str]()
    for name, (_, result) in trials.items():
        set_scores = result["scores"].get(metric.set)
        if set_scores is not None:
            recorded[name] = str(set_scores.get(metric.within) or "")
    if all(recorded.values()):
        return recorded
    fingerprints = {name: _data_fingerprint(trials[name][0]) for name in recorded}
    return {name: fingerprint for name, fingerprint in fingerprints.items() if fingerprint}


def why_not_compared(
    metric: Metric,
    row_values: Collection[str],
    reference_values: Collection[str],
    reference: str,
) -> str:
    """Why a row has no difference, such as "different pieces from base"; empty if it has one.

    The values are those of ``comparable_within``; ``reference`` is the name of that row.
    """
    if len(set(reference_values)) > 1:
        return f"{reference} mixes different {metric.within}"
    if reference_values and not set(row_values) <= set(reference_values):
        return f"different {metric.within} from {reference}"
    return ""


def _data_fingerprint(folder: TrialFolder) -> str:
    """Empty if it is unknown."""
    fingerprint = unless_damaged(partial(read_yaml, folder.config_path, "data_fingerprint"), None)
    return "" if fingerprint is None else str(fingerprint)
