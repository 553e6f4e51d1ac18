"""One side of a comparison: finished trials of one row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracking.card import Metric
from tracking.study import Study, Trial


@dataclass(frozen=True)
class Side:
    """Finished trials of one row, by seed; ``label`` is the name that was asked for."""

    label: str
    study: Study
    trials: tuple[Trial, ...]
    results: Mapping[int, Mapping[str, Any]]  # by seed

    @staticmethod
    def of(label: str, study: Study, trials: Iterable[Trial]) -> "Side":
        """Only the finished ones of these trials."""
        found = {trial.seed: (trial, study.trial_folder(trial).standing(trial.key)[1]) for trial in trials}
        finished = {seed: (trial, result) for seed, (trial, result) in found.items() if result is not None}
        results = {seed: result for seed, (_, result) in finished.items()}
        return Side(label, study, tuple(trial for trial, _ in finished.values()), results)

    def values(self, metric: Metric, set_name: str) -> dict[int, float | None]:
        """By seed, of the seeds that are evaluated on the set."""
        scores = {seed: result["scores"].get(set_name) for seed, result in self.results.items()}
        return {seed: of_set.get(metric.name) for seed, of_set in scores.items() if of_set is not None}
