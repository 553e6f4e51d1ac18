"""A trained trial on disk as a verb of its task uses it: ``sweeps.task.Trained``."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

from sweeps.checkpoints.own_format import OwnFormat
from sweeps.checkpoints.reader import CheckpointReader
from sweeps.config.rows.row_naming import short_value, with_digest
from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource
from sweeps.planning.studies.known_studies import known_study
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.planning.user_code.files import user_code
from sweeps.planning.user_code.versions import scoring_code
from sweeps.problems import RefusedError, refusal
from sweeps.processes.events import Evaluated, Head, SetScores
from sweeps.task import NO_TEXTS, MissingStepError, Numbers, Saved, Texts
from sweeps.trees import Values
from sweeps.verbs.names import unfinished
from sweeps.verbs.trained.stored_weights import StoredWeights, study_lineage
from sweeps.worker.calls import Call, evaluation
from sweeps.worker.prepared import TaskData
from tracking.code import Code, write_code
from tracking.files import unless_lost
from tracking.provenance import of_process
from tracking.trial import TrialFolder, statistics_name, statistics_text
from tracking.uri import without_password
from tracking.weights import WEIGHTS, are_scored, is_head_of, joined_scores

NOT_IN_NAMES = re.compile(r"[^\w.-]")
"""Characters that the name of a file must not have."""
MODEL_NAME = re.compile(r"[^/:@]+(@(?!v\d+$|latest$)[\w-]+)?")
"""A name to register, perhaps with an alias. MLflow reads the aliases v1 and latest as versions."""


@dataclass(frozen=True)
class TrainedTrial:
    """``trained_config`` is its configuration as trained; ``config`` may differ in scoring.

    ``step`` is that of its last checkpoint, or of the named one. ``ended`` is the last step, or 0
    if training is not over. ``task_data`` is what it was trained on. ``scorer`` is the user's code
    that scores; None for today's.
    """

    source: TaskSource
    files: TrialFolder
    trained_config: Any
    config: Any
    key: str
    step: int
    ended: int
    attempt: int
    weights: StoredWeights
    task_data: TaskData
    tracking_uri: str | None
    scorer: Code | None = None

    @property
    def folder(self) -> Path:
        return self.files.path

    @property
    def name(self) -> str:
        name = f"{self.folder.parent.name}/{self.folder.name}"
        return name if self.step == self.ended else f"{name} at step {self.step}"

    @property
    def data(self) -> Path:
        data = self.task_data
        identity = self.files.provenance().get("data_identity") or ""
        if not data.folder.is_dir():
            if self.source.task.fingerprint(self.trained_config) != data.fingerprint:
                fault = f"{self.name} was trained on different data than its settings name now"
                folder = data.folder.relative_to(data.place)
                raise refusal("paths.data", fault, f"must hold {folder}, its prepared data")
            current = user_code(self.source)
            data = replace(data, code="" if current is None else current.digest)
        return data.open([self.trained_config], identity)

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """The scores by set, without sets that need to be scored again.

        These have lost a file, or other code scored them with these settings.
        """
        scores: dict[str, Numbers] = {}
        if not (self._suffix or any(metric.from_counts for metric in self.source.task.metrics)):
            scores = self._scores_of_result()
        for label, head in self.files.scored_heads(self.key, self.step, self._settings).items():
            set_name, at_sign, settings = label.partition("@")
            if at_sign + settings == self._suffix and self._is_current(label, head):
                scores[set_name] = head["scores"]
        return scores

    def _scores_of_result(self) -> dict[str, Numbers]:
        """The scores in ``result.json`` that are of these weights and settings."""
        result = self.files.finished_result(self.key)
        if result is None or not are_scored(self.weights.record, result):
            return {}
        return {
            set_name: scores
            for set_name, scores in result["scores"].items()
            if scores["decode"] == self._settings
        }

    def _is_current(self, label: str, head: Mapping[str, Any]) -> bool:
        """Whether these statistics are complete, of these weights, and from the code that
        scores."""
        if unless_lost(partial(self.files.statistics, label), None) is None:
            return False
        is_from_scorer = not self._suffix or head.get("code") == self._code.get("code")
        return is_from_scorer and is_head_of(self.weights.record, head)

    @property
    def provenance(self) -> Mapping[str, Any]:
        result = self.files.finished_result(self.key) or {}
        costs = {name: value for name, value in result.items() if name != "scores"}
        return {
            **self.files.provenance(),
            **costs,
            "key": self.key,
            "data_fingerprint": self.task_data.fingerprint,
        }

    def result(self) -> dict[str, Any]:
        """``result.json``. Raises RefusedError if the trial is not finished."""
        result = self.files.result()
        if result is None or result["key"] != self.key:
            states = [self.files.state(self.key)]
            raise RefusedError([unfinished("TRIAL", self.folder.name, states, self.folder.parent)])
        return result

    def configured(self, config: Any) -> "TrainedTrial":
        changed = self._changed(config)
        scoring_keys = self._schema.scores
        training_keys = [key for key in changed if key not in scoring_keys]
        if training_keys:
            keys = ", ".join(training_keys)
            raise ValueError(f"{keys} cannot be changed once a model is trained")
        conflicts = self.source.task.problems(config)
        problems = [problem for problem in conflicts if problem.key in scoring_keys]
        if problems and changed:
            raise RefusedError(problems)
        return replace(self, config=config)

    def states(self, steps: Sequence[int] = ()) -> Iterator[Saved]:
        weights = self.weights
        checkpoints = CheckpointReader(
            weights.checkpoints,
            weights.key,
            study_lineage(weights.files),
            weights.attempt,
            OwnFormat.of(self.source.task),
        )
        try:
            yield from checkpoints.states(steps or [self.step])
        except MissingStepError as missing:
            fault = f"lacks a state: {missing}"
            allowed = "must be steps with a checkpoint"
            raise refusal(self.name, fault, allowed) from None

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        call = Call(on, scores, texts, samples)
        self.keep(evaluation(self.source.task, self.config, call, self._head))

    def keep(self, event: Evaluated) -> None:
        """Write an evaluation. If the settings are not the trial's own, its files have names of
        their own.

        Raises RefusedError while a sweep runs the trial.
        """
        artifacts = dict(event.artifacts)
        if self._suffix:  # otherwise result.json keeps the scores of a set without samples
            head = self._head | {"scores": event.scores}
            artifacts.setdefault(statistics_name(event.set_name), statistics_text(head, ()))
        with trial_lock(self.files, "wait for it"):
            for name, text in artifacts.items():
                self.files.write_artifact(self._renamed(name), text)
            if not self._suffix:
                self._add_to_result(event.set_name, event.scores)

    def kept(self, text: str) -> Path:
        return self.folder / self._renamed(text)

    def register(self, model: Path, name: str) -> str:
        """Register it at ``tracking.uri``, by default in the study's last store."""
        from tracking.mlflow.ledger import Ledger, Sent, current_store  # MLflow
        from tracking.mlflow.registry import RegistryError, register

        if not MODEL_NAME.fullmatch(name):
            rules = "no / or : in NAME; only letters, digits, - and _ in ALIAS"
            allowed = f"must be NAME or NAME@ALIAS: {rules}"
            raise refusal("the registered name", f'is "{name}"', allowed)
        study = self.folder.parent
        address = self.tracking_uri or current_store(study)
        run = (Ledger(study, address).get(self.key) or Sent("")).run
        if not run:
            trial = f"{study.name}/{self.folder.name}"
            fault = f"has no run at {without_password(address, mark='')}"
            raise refusal(trial, fault, "run `allelse sync` to create it")
        model_name, _, alias = name.partition("@")
        readme = model / "README.md"
        description = readme.read_text("utf-8") if readme.is_file() else ""
        try:
            register(model, model_name, alias or None, run, address, description, study.parent)
        except RegistryError as error:
            fix = "fix the cause, then run it again"
            raise refusal(name, f"failed: {error}", fix) from error
        version = f"{model_name}@{alias}" if alias else f"{model_name}/latest"
        return _serve_command(without_password(address), f"models:/{version}")

    @property
    def _head(self) -> Head:
        """The first line of a set's statistics, as an attempt writes it."""
        record = self.weights.record
        attempt = record.get("attempt", self.attempt)
        head = {"key": self.key, "step": self.step, "attempt": attempt, **self._code}
        if self.weights.files.path != self.folder:
            head[WEIGHTS] = record
        return head

    @property
    def _schema(self) -> Schema:
        return Schema.of(self.source.task)

    @property
    def _settings(self) -> Values:
        """The settings for scoring."""
        return self._schema.scoring(self.config)

    @property
    def _suffix(self) -> str:
        """What differs from the trial's own evaluation, such as @cut0.7. It ends a set's name."""
        parts = [] if self.step == self.ended else [f"step{short_value(self.step)}"]
        for key, value in self._changed(self.config).items():
            parts.append(f"{self._schema.short(key)}{short_value(value)}")
        if not parts:
            return ""
        settings = "-".join(parts)
        legal = NOT_IN_NAMES.sub("_", settings)
        return f"@{legal}" if legal == settings else f"@{with_digest(legal, settings)}"

    def _changed(self, config: Any) -> Values:
        """The values that differ from the trial's own, by dotted key."""
        own_values = self._schema.values(self.trained_config)
        values = self._schema.values(config)
        return {key: value for key, value in values.items() if value != own_values[key]}

    def _renamed(self, text: str) -> str:
        path = PurePosixPath(text)
        return str(path.with_name(f"{path.stem}{self._suffix}{path.suffix}"))

    def _add_to_result(self, set_name: str, new_scores: SetScores) -> None:
        """Write ``result.json`` once all sets have scores of these weights: results never mix.

        After a change of settings, `allelse sweep` scores all sets again.
        """
        result = self.result()
        weights = self.weights.record
        self._new_scores[set_name] = new_scores
        scores = joined_scores(result, self.key, weights, self._new_scores)
        if scores.keys() >= result["scores"].keys():
            if self._scorer is not None:
                write_code(self.folder.parent, self._scorer)
            self.files.scored_again(of_process() | self._code, set_name)
            scoring = {"scoring": result.get("scoring", 1) + 1, "step": weights["step"]}
            self.files.write_result(result | scoring | {"scores": scores, WEIGHTS: weights})

    @cached_property
    def _new_scores(self) -> dict[str, SetScores]:
        """The scores that this command has made, by set."""
        return {}

    @cached_property
    def _scorer(self) -> Code | None:
        return self.scorer or scoring_code(known_study(self.folder.parent), self.source)

    @property
    def _code(self) -> dict[str, str]:
        """The code that scores, as heads and provenance name it; {} for our own task."""
        return {"code": self._scorer.digest} if self._scorer else {}


def _serve_command(address: str, model_uri: str) -> str:
    """The command that serves a registered model."""
    options = f"--model-uri {shlex.quote(model_uri)} --env-manager local"
    return f"MLFLOW_TRACKING_URI={shlex.quote(address)} mlflow models serve {options}"
