"""From which row each row differs, and whether seed by seed.

A row that only scores differs from the row whose weights it scores, its host; a trained row from
the study's reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tracking.study import Study


@dataclass(frozen=True)
class RowReference:
    """``paired``: differences are taken seed by seed, at the seeds that both rows have."""

    row: str
    shares_weights: bool
    paired: bool


def hosts_of(study: Study) -> dict[str, str]:
    """By each row that only scores, the row whose weights it scores."""
    row_of_trial = {trial.name: trial.row for trial in study.trials}
    hosts = dict[str, str]()
    for trial in study.trials:
        if trial.weights:
            without_seed = trial.weights.rpartition("-s")[0]  # of a trial that was dropped
            hosts[trial.row] = row_of_trial.get(trial.weights, without_seed)
    return hosts


def reference_of(
    row: str, reference: str, hosts: Mapping[str, str], study_is_paired: bool
) -> RowReference:
    """``reference`` is the study's; rows that share weights with it differ from it, too."""
    shares_weights = hosts.get(row, row) == hosts.get(reference, reference)
    if shares_weights:
        return RowReference(reference, row != reference, row != reference)
    if row in hosts:
        return RowReference(hosts[row], True, True)
    return RowReference(reference, False, study_is_paired)
