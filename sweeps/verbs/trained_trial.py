"""A trained trial on disk, as a verb of its task uses it: ``sweeps.task.Trained``."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource
from sweeps.planning.naming import must_finish
from sweeps.planning.trial_lock import trial_lock
from sweeps.planning.user_code import scoring_code
from sweeps.schema import Problem, RefusedError
from sweeps.task import NO_TEXTS, Keep, MissingStepError, Numbers, Saved, Texts
from sweeps.worker.calls import checked_artifacts, numbers, samples_text
from sweeps.worker.checkpoints import Checkpoints, OwnFormat
from sweeps.worker.prepared import data_place, prepared_folder
from tracking.files import unless_lost
from tracking.mlflow.ledger import Ledger, Sent, current_store
from tracking.mlflow.store import RegistryError, register
from tracking.provenance import of_process, write_code
from tracking.study import read_study
from tracking.trial import TrialFolder, statistics_name, statistics_text
from tracking.uri import without_password

NOT_IN_NAMES = re.compile(r"[^\w.-]")
"""Of files."""


@dataclass(frozen=True)
class TrainedTrial:
    """``own`` is its configuration as trained; ``config`` may have other settings that only score.

    ``step`` is that of its last checkpoint, or of the named one; ``ended`` is the last, or 0 if training is not over.
    ``places`` are the folders that may hold its prepared data.
    """

    source: TaskSource
    files: TrialFolder
    own: Any
    config: Any
    key: str
    fingerprint: str
    step: int
    ended: int
    attempt: int
    checkpoints: str
    places: tuple[Path, ...]
    tracking_uri: str | None

    @property
    def folder(self) -> Path:
        return self.files.path

    @property
    def name(self) -> str:
        name = f"{self.folder.parent.name}/{self.folder.name}"
        return name if self.step == self.ended else f"{name} at step {self.step}"

    @property
    def data(self) -> Path:
        task = self.source.task
        there = (place for place in self.places if data_place(task, place, self.fingerprint).is_dir())
        place = next(there, self.places[0])
        gone = data_place(task, place, self.fingerprint)
        if not gone.is_dir() and task.fingerprint(self.own) != self.fingerprint:
            found = f"{self.name} was trained on other data than its settings name now"
            allowed = f"must hold {gone.relative_to(place)}, its prepared data"
            raise RefusedError([Problem("paths.data", found, allowed)])
        identity = self.files.provenance().get("data_identity") or ""
        return prepared_folder(task, [self.own], place, self.fingerprint, identity)

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """Without a set of which a file is lost, so that it is scored again."""
        found = {} if self._has_samples else self._scored_without_samples()
        for label, head in self.files.evaluated().items():
            on, at, settings = label.partition("@")
            known = head["key"], head["step"], head["scores"]["decode"]
            whole = unless_lost(partial(self.files.statistics, label), None) is not None
            if at + settings == self._suffix and known == (self.key, self.step, self._settings) and whole:
                found[on] = head["scores"]
        return found

    @property
    def provenance(self) -> Mapping[str, Any]:
        result = self.files.finished_result(self.key) or {}
        costs = {name: value for name, value in result.items() if name != "scores"}
        return {**self.files.provenance(), **costs, "key": self.key, "data_fingerprint": self.fingerprint}

    def result(self) -> dict[str, Any]:
        """``result.json``. Raises RefusedError if the trial is not finished."""
        result = self.files.result()
        if result is None or result["key"] != self.key:
            raise RefusedError([not_finished(self.folder, self.files.state(self.key))])
        return result

    def configured(self, config: Any) -> "TrainedTrial":
        task, scores = self.source.task, self._schema.scores
        if deciding := [key for key in self._changed(config) if key not in scores]:
            raise ValueError(f"{', '.join(deciding)} cannot be changed once a model is trained")
        problems = [problem for problem in task.problems(config) if problem.key in scores]
        if problems and self._changed(config):
            raise RefusedError(problems)
        return replace(self, config=config)

    def states(self, steps: Sequence[int] = ()) -> Iterator[Saved]:
        save, load = self.source.task.save, self.source.task.load
        own = OwnFormat(save, load) if save is not None and load is not None else None
        with closing(Checkpoints(self.checkpoints, self.key, self.attempt, Keep(), own)) as checkpoints:
            try:
                yield from checkpoints.states(steps or [self.step])
            except MissingStepError as missing:
                allowed = "must be of steps whose checkpoints were kept"
                raise RefusedError([Problem(self.name, f"lacks a state: {missing}", allowed)]) from None

    def evaluated(self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()) -> None:
        signatures = [metric.signature for metric in self.source.task.metrics if metric.signature]
        measured = numbers(scores, f"the evaluation of {on}", signatures)
        kept = {**measured, "decode": self._settings}
        label = f"{on}{self._suffix}"
        head = {"key": self.key, "step": self.step, "attempt": self.attempt, "scores": kept}
        named = {self._renamed(name): text for name, text in checked_artifacts(texts).items()}
        if self._suffix:  # otherwise result.json keeps the scores of a set without samples
            named[statistics_name(label)] = statistics_text(head, ())
        with trial_lock(self.files, "wait for it"):
            for name, text in (named | samples_text(label, head, samples)).items():
                self.files.write_artifact(name, text)
            if not self._suffix:
                self._add_to_result(on, kept)

    def kept(self, text: str) -> Path:
        return self.folder / self._renamed(text)

    def register(self, model: Path, name: str) -> str:
        return registered(self.folder, self.key, self.tracking_uri, model, name)

    @property
    def _schema(self) -> Schema:
        return Schema.of(self.source.task)

    @property
    def _settings(self) -> dict[str, Any]:
        """Those that only score."""
        return self._schema.scoring(self.config)

    @property
    def _has_samples(self) -> bool:
        return any(metric.from_counts for metric in self.source.task.metrics)

    @property
    def _suffix(self) -> str:
        """Behind a set's name: what differs from the trial's own evaluation, such as @cut0.7; "" if nothing does."""
        steps = {"step": self.step} if self.step != self.ended else {}
        changed = {self._schema.short(key): value for key, value in self._changed(self.config).items()}
        other = "-".join(f"{name}{_short(value)}" for name, value in (steps | changed).items())
        return other and f"@{NOT_IN_NAMES.sub('_', other)}"

    def _changed(self, config: Any) -> dict[str, Any]:
        """The values that are not the trial's own."""
        own = self._schema.values(self.own)
        return {key: value for key, value in self._schema.values(config).items() if value != own[key]}

    def _renamed(self, text: str) -> str:
        path = PurePosixPath(text)
        return str(path.with_name(f"{path.stem}{self._suffix}{path.suffix}"))

    def _scored_without_samples(self) -> dict[str, Numbers]:
        if self._suffix:
            return {}
        scores = (self.files.finished_result(self.key) or {}).get("scores", {})
        return {on: of for on, of in scores.items() if of["decode"] == self._settings}

    def _add_to_result(self, on: str, kept: dict[str, Any]) -> None:
        """Results never mix: after a change of settings `allelse sweep` scores all sets again."""
        result = self.result()
        scores = result["scores"] | {on: kept}
        if all(of["decode"] == kept["decode"] for of in scores.values()):
            self.files.scored_again(of_process() | self._code(), on)
            self.files.write_result(result | {"scores": scores, "scoring": result.get("scoring", 1) + 1})

    def _code(self) -> dict[str, Any]:
        """What scores, kept in the study."""
        study = self.folder.parent
        code = scoring_code(read_study(study), self.source)
        if code is None:
            return {}
        write_code(study, code)
        return {"code": code.digest}


def not_finished(path: Path, state: str) -> Problem:
    """Why the trial has no model yet."""
    fault = {"missing": "was never started", "running": "is still running"}.get(state, f"is not finished, but {state}")
    return Problem("TRIAL", f"{path.name} {fault}", must_finish(path.parent))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


MODEL_NAME = re.compile(r"[^/:@]+(@(?!v\d+$|latest$)[\w-]+)?")
"""The names that may be registered: MLflow reads the aliases v1 and latest as versions."""


def registered(trial: Path, key: str, uri: str | None, model: Path, name: str) -> str:
    """Register the model as ``NAME`` or ``NAME@ALIAS`` at ``uri``, by default in the study's last store.

    Returns the command that serves it. Raises RefusedError.
    """
    runs = trial.parents[1]
    address = uri or current_store(trial.parent)
    run = (Ledger(trial.parent, address).get(key) or Sent("")).run
    if problems := list(_problems(f"{trial.parent.name}/{trial.name}", name, run, address)):
        raise RefusedError(problems)
    plain, _, alias = name.partition("@")
    card = model / "README.md"
    about = card.read_text("utf-8") if card.is_file() else ""
    try:
        register(model, plain, alias or None, run, address, about, runs)
    except RegistryError as error:
        raise RefusedError([Problem(name, f"failed: {error}", "fix the cause, then run it again")]) from error
    served = shlex.quote(f"models:/{plain}@{alias}" if alias else f"models:/{plain}/latest")
    place = shlex.quote(without_password(address))
    return f"MLFLOW_TRACKING_URI={place} mlflow models serve --model-uri {served} --env-manager local"


def _problems(trial: str, name: str, run: str, address: str) -> Iterator[Problem]:
    if not MODEL_NAME.fullmatch(name):
        allowed = "must be NAME or NAME@ALIAS: no / or : in NAME; only letters, digits, - and _ in ALIAS"
        yield Problem("the registered name", f'is "{name}"', allowed)
    if not run:
        found = f"has no run at {without_password(address, mark='')}"
        yield Problem(trial, found, "run `allelse sync` to create it")
