"""One trial of a plan: a row with a seed, its key, its cost, and whether it is finished."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.command_task.command_task import planned_steps_of
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.planning.studies.known_studies import known_study
from sweeps.task import Costs, Task
from sweeps.trees import Tree, Values
from sweeps.worker.prepared import TaskData
from tracking.files import unless_damaged
from tracking.study import StudyTrial, trial_folder
from tracking.trial import TrialFolder, TrialState
from tracking.uri import without_passwords
from tracking.weights import are_current


@dataclass(frozen=True)
class PlannedTrial:
    """One row with one seed. Its costs are computed, before training.

    ``code`` is the hash of the user's code with which it will be trained; "" for our own task.
    ``host`` is the trial whose weights it only scores; None if it trains its own. ``kept_steps``
    are the checkpoints that stay for its scoring, and for rows that score its weights.
    """

    trial: StudyTrial
    settings: Settings
    fingerprint: str
    costs: Costs
    code: str = ""
    host: "PlannedTrial | None" = None
    kept_steps: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.trial.name

    @property
    def task(self) -> Task[Any]:
        return self.settings.task

    @property
    def schema(self) -> Schema:
        return self.settings.schema

    @property
    def config(self) -> Any:
        """The task's configuration."""
        return self.settings.config

    @property
    def steps(self) -> int:
        return self.task.steps(self.config)

    @property
    def stated_steps(self) -> int | None:
        """None for a command that doesn't state its number of steps."""
        return planned_steps_of(self.task, self.config)

    @property
    def effort(self) -> float:
        """What the trial takes, relative to the others of its study: its FLOPs, or its steps if
        these are unknown."""
        return 0.0 if self.host else self.costs.flops or float(self.steps)

    @property
    def scoring(self) -> Values:
        """The settings that only score, by name."""
        return self.schema.scoring(self.config)

    @property
    def data(self) -> TaskData:
        return TaskData(self.task, Path(self.settings.paths.data), self.fingerprint, self.code)

    @cached_property
    def folder(self) -> TrialFolder:
        return trial_folder(self.settings.study_folder, self.trial.name, task_card(self.task))

    @property
    def checkpoints(self) -> str:
        """The fsspec URL under which the trial's attempts keep their checkpoints."""
        return self.folder.checkpoints_url(self.settings.paths.checkpoints)

    @property
    def state(self) -> TrialState:
        return self.folder.state(self.trial.key)

    @property
    def result(self) -> dict[str, Any] | None:
        """The result of a finished training, however it was scored; None before."""
        return self.folder.finished_result(self.trial.key)

    @property
    def finished(self) -> bool:
        """Trained, and scored with these decode settings."""
        return self.is_scored(self.result)

    def is_scored(self, result: dict[str, Any] | None) -> bool:
        """Whether this is a result with these decode settings."""
        if result is None:
            return False
        if self.host is not None and not are_current(result, self.host.result):
            return False  # the weights have been trained again since
        scoring = self.scoring
        return all(scores["decode"] == scoring for scores in result["scores"].values())

    @property
    def has_weights(self) -> bool:
        """Whether training is over, so that rows can score its weights."""
        return self.result is not None

    @property
    def can_run(self) -> bool:
        """Whether it is not finished, and the weights that it is to score did not diverge."""
        host_result = self.host.result if self.host else None
        diverged = host_result is not None and host_result.get("diverged") is not None
        return not diverged and not self.finished

    @property
    def scored_otherwise(self) -> bool:
        """Whether it is finished, with other settings for scoring."""
        # a scoring trial's key holds the settings, so that its result may have another key
        result = self.result if self.host is None else unless_damaged(self.folder.result, None)
        if result is None:
            return False
        return result["key"] != self.trial.key or not self.is_scored(result)

    @property
    def is_recorded(self) -> bool:
        """Whether the study's or the trial's record confirms that the folder holds this trial, or
        no folder exists."""
        if not self.folder.path.is_dir() or self.result:
            return True
        study = known_study(self.folder.path.parent)
        return study is not None and self.trial.key in {trial.key for trial in study.trials}


def configurations(trials: Iterable[PlannedTrial]) -> list[Any]:
    """The trials' configurations, each once whatever its seed."""
    by_text = {}
    for planned in trials:
        schema = planned.schema
        by_text[repr(schema.seeded(planned.config, 1))] = planned.config
    return list(by_text.values())


def config_dict(planned: PlannedTrial) -> Tree:
    """The resolved configuration for the trial's folder, without passwords: others may read it."""
    head = {
        "key": planned.trial.key,
        "data_fingerprint": planned.fingerprint,
        "task": planned.settings.source.name,
    }
    if planned.host is not None:
        head |= {"weights": planned.trial.weights, "weights_key": planned.host.trial.key}
    return {**head, **without_passwords(planned.settings.to_dict())}
