"""One side of a comparison: the finished trials of a trial, a row or a study's row, with their
settings and origin."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracking.card import Metric
from tracking.code import Code, read_code
from tracking.files import unless_damaged
from tracking.statistics.unlike_trials import THEN, aspects
from tracking.study import Study, StudyTrial, dotted

OF_A_RUN = {
    *("key", "data_fingerprint", "weights_key"),
    *("row", "sweep", "tracking", "paths", "cluster"),
}
"""Keys and groups of config.yaml that say how a trial ran, not what it is."""


@dataclass(frozen=True)
class Side:
    """Finished trials of one row that did not diverge; ``label`` is the name that the user
    typed."""

    label: str
    study: Study
    trials: tuple[StudyTrial, ...]
    results: Mapping[int, dict[str, Any]]  # by seed
    diverged: tuple[int, ...] = ()  # the other finished seeds

    @staticmethod
    def of(label: str, study: Study, trials: Iterable[StudyTrial]) -> "Side":
        """Only the finished ones of these trials."""
        finished = list[StudyTrial]()
        results = dict[int, dict[str, Any]]()
        diverged = list[int]()
        for standing in study.standings(trials):
            trial = standing.trial
            if standing.counted is not None:
                finished.append(trial)
                results[trial.seed] = standing.counted
            elif standing.diverged is not None:
                diverged.append(trial.seed)
        return Side(label, study, tuple(finished), results, tuple(diverged))

    @property
    def row(self) -> str:
        return self.trials[0].row

    @property
    def is_row(self) -> bool:
        """Whether these are all trials of their row that count, as in the study's table."""
        row_trials = [trial for trial in self.study.trials if trial.row == self.row]
        missing = [trial for trial in row_trials if trial not in self.trials]
        return all(standing.counted is None for standing in self.study.standings(missing))

    def values(self, metric: Metric) -> dict[int, float | None]:
        """By seed, of the seeds that are evaluated on the metric's set."""
        values = dict[int, float | None]()
        for seed, result in self.results.items():
            set_scores = result["scores"].get(metric.set)
            if set_scores is not None:
                values[seed] = set_scores.get(metric.name)
        return values

    def settings(self, trial: StudyTrial, set_name: str) -> dict[str, Any]:
        """Dotted keys of the task's groups. The scoring behind the scores replaces what was
        configured."""
        card = self.study.task
        config = unless_damaged(self.study.trial_folder(trial).config, None) or {}
        task_groups = {group: values for group, values in config.items() if group not in OF_A_RUN}
        settings = dotted(task_groups)
        decode = self.results[trial.seed]["scores"].get(set_name, {}).get("decode", {})
        for name, value in decode.items():
            settings[card.setting(name)] = value
        if config.get("data_fingerprint"):
            settings["data"] = str(config["data_fingerprint"])[:16]
        return settings

    def origin(self, trial: StudyTrial) -> dict[str, str]:
        """Packages, machine and code behind the trial, as text."""
        trial_aspects = aspects(self.study, trial) or {}
        return {aspect: THEN.join(values) for aspect, values in trial_aspects.items()}

    def last_code(self, trial: StudyTrial) -> Code | None:
        """The user's code that the trial imported last; None if it is unknown."""
        digest = unless_damaged(self.study.trial_folder(trial).provenance, {}).get("code")
        if not digest:
            return None
        return unless_damaged(partial(read_code, self.study.folder, digest), None)


SidePair = tuple[Side, Side]


def paired_trials(first: Side, second: Side) -> list[tuple[StudyTrial, StudyTrial]]:
    """Trials of one seed, or the only trials of both."""
    if len(first.trials) == len(second.trials) == 1:
        return [(first.trials[0], second.trials[0])]
    trial_of_seed = {trial.seed: trial for trial in second.trials}
    return [
        (trial, trial_of_seed[trial.seed]) for trial in first.trials if trial.seed in trial_of_seed
    ]


def pair_name(first: StudyTrial, second: StudyTrial) -> str:
    """Such as "seed 1"."""
    if first.seed == second.seed:
        return f"seed {first.seed}"
    return f"seeds {first.seed} and {second.seed}"
