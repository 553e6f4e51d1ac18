"""A trained trial on disk as a verb of its task uses it, ``sweeps.task.Trained``, and how it is
read."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

from sweeps.config.row_naming import short_value, with_digest
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.fields import parse
from sweeps.planning.studies.known_studies import known_study
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.planning.study_rows.study_record import moved, moved_value
from sweeps.planning.user_code.files import user_code
from sweeps.planning.user_code.versions import scoring_code
from sweeps.problems import COMMAND_LINE, Problem, RefusedError
from sweeps.task import NO_TEXTS, Keep, MissingStepError, Numbers, Saved, Task, Texts, Typed
from sweeps.trees import assigned
from sweeps.verbs.command import TRIAL_KINDS, unfinished
from sweeps.verbs.stored_weights import StoredWeights, stored_weights, study_lineage
from sweeps.verbs.texts import data_folder
from sweeps.worker.calls import Call, evaluation
from sweeps.worker.checkpoint_files import MANIFEST, OwnFormat
from sweeps.worker.checkpoints import KEY_DIGITS, Checkpoints, root_name
from sweeps.worker.events import Evaluated
from sweeps.worker.prepared import data_place, prepared_folder
from tracking.attempts import Lineage
from tracking.card import Card
from tracking.code import Code, write_code
from tracking.files import unless_damaged, unless_lost
from tracking.provenance import of_process
from tracking.study import STUDY_FILE, read_study, task_of
from tracking.trial import TrialFolder, statistics_name, statistics_text
from tracking.uri import without_password
from tracking.weights import WEIGHTS, are_scored, is_head_of, joined_scores, weights_record

NOT_IN_NAMES = re.compile(r"[^\w.-]")
"""What the name of a file must not have."""
MODEL_NAME = re.compile(r"[^/:@]+(@(?!v\d+$|latest$)[\w-]+)?")
"""The names that may be registered: MLflow reads the aliases v1 and latest as versions."""


@dataclass(frozen=True)
class TrainedTrial:
    """``own`` is its configuration as trained; ``config`` may have other settings that only score.

    ``step`` is that of its last checkpoint, or of the named one; ``ended`` is the last, or 0 if
    training is not over. ``data_folder`` is its ``paths.data``. ``scorer`` is the user's code that
    scores; None for that of today.
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
    weights: StoredWeights
    data_folder: Path
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
        task = self.source.task
        provenance = self.files.provenance()
        code = provenance.get("code") or ""
        place = data_place(task, self.data_folder, self.fingerprint, code)
        if not place.is_dir() and task.fingerprint(self.own) != self.fingerprint:
            found = f"{self.name} was trained on other data than its settings name now"
            allowed = f"must hold {place.relative_to(self.data_folder)}, its prepared data"
            raise RefusedError([Problem("paths.data", found, allowed)])
        if not place.is_dir():
            today = user_code(self.source)
            code = "" if today is None else today.digest
        identity = provenance.get("data_identity") or ""
        return prepared_folder(task, [self.own], self.data_folder, self.fingerprint, identity, code)

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """Leaves out a set that lost a file, or that other code scored with these settings: it is
        scored again."""
        found = dict[str, Numbers]()
        if not (self._suffix or any(metric.from_counts for metric in self.source.task.metrics)):
            result = self.files.finished_result(self.key)
            is_current = result is not None and are_scored(self.weights.record, result)
            scores = result["scores"] if result is not None and is_current else {}
            found = {on: of for on, of in scores.items() if of["decode"] == self._settings}
        for label, head in self.files.scored_heads(self.key, self.step, self._settings).items():
            on, at, settings = label.partition("@")
            whole = unless_lost(partial(self.files.statistics, label), None) is not None
            is_of_weights = is_head_of(self.weights.record, head)
            is_by_scorer = not self._suffix or head.get("code") == self._code.get("code")
            if at + settings == self._suffix and whole and is_of_weights and is_by_scorer:
                found[on] = head["scores"]
        return found

    @property
    def provenance(self) -> Mapping[str, Any]:
        result = self.files.finished_result(self.key) or {}
        costs = {name: value for name, value in result.items() if name != "scores"}
        return {
            **self.files.provenance(),
            **costs,
            "key": self.key,
            "data_fingerprint": self.fingerprint,
        }

    def result(self) -> dict[str, Any]:
        """``result.json``. Raises RefusedError if the trial is not finished."""
        result = self.files.result()
        if result is None or result["key"] != self.key:
            raise RefusedError(
                [
                    unfinished(
                        "TRIAL", self.folder.name, [self.files.state(self.key)], self.folder.parent
                    )
                ]
            )
        return result

    def configured(self, config: Any) -> "TrainedTrial":
        changed = self._changed(config)
        scores = self._schema.scores
        if deciding := [key for key in changed if key not in scores]:
            raise ValueError(f"{', '.join(deciding)} cannot be changed once a model is trained")
        problems = [
            problem for problem in self.source.task.problems(config) if problem.key in scores
        ]
        if problems and changed:
            raise RefusedError(problems)
        return replace(self, config=config)

    def states(self, steps: Sequence[int] = ()) -> Iterator[Saved]:
        own = OwnFormat.of(self.source.task)
        at = self.weights
        store = Checkpoints(
            at.checkpoints, at.key, at.attempt, Keep(), own, lineage=study_lineage(at.files)
        )
        with closing(store) as checkpoints:
            try:
                yield from checkpoints.states(steps or [self.step])
            except MissingStepError as missing:
                allowed = "must be of steps whose checkpoints were kept"
                raise RefusedError(
                    [Problem(self.name, f"lacks a state: {missing}", allowed)]
                ) from None

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        event = evaluation(
            self.source.task, self.config, Call(on, scores, texts, samples), self._head
        )
        self.keep(event)

    def keep(self, event: Evaluated) -> None:
        """Write an evaluation, under a name of its own where the settings are not the trial's.

        Raises RefusedError while a sweep runs the trial."""
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
        """At ``tracking.uri``, by default in the study's last store."""
        from tracking.mlflow.ledger import Ledger, Sent, current_store  # MLflow
        from tracking.mlflow.store import RegistryError, register

        if not MODEL_NAME.fullmatch(name):
            allowed = "must be NAME or NAME@ALIAS: no / or : in NAME; only letters, digits, - and _ in ALIAS"
            raise RefusedError([Problem("the registered name", f'is "{name}"', allowed)])
        study, (plain, _, alias), card = (
            self.folder.parent,
            name.partition("@"),
            model / "README.md",
        )
        address = self.tracking_uri or current_store(study)
        run = (Ledger(study, address).get(self.key) or Sent("")).run
        if not run:
            found = f"has no run at {without_password(address, mark='')}"
            raise RefusedError(
                [
                    Problem(
                        f"{study.name}/{self.folder.name}", found, "run `allelse sync` to create it"
                    )
                ]
            )
        about = card.read_text("utf-8") if card.is_file() else ""
        try:
            register(model, plain, alias or None, run, address, about, study.parent)
        except RegistryError as error:
            raise RefusedError(
                [Problem(name, f"failed: {error}", "fix the cause, then run it again")]
            ) from error
        served = shlex.quote(f"models:/{plain}@{alias}" if alias else f"models:/{plain}/latest")
        place = shlex.quote(without_password(address))
        return f"MLFLOW_TRACKING_URI={place} mlflow models serve --model-uri {served} --env-manager local"

    @property
    def _head(self) -> dict[str, Any]:
        """How the statistics of a set begin, as an attempt writes it."""
        record = self.weights.record
        head = {"key": self.key, "step": self.step, "attempt": record.get("attempt", self.attempt)}
        is_own = self.weights.files.path == self.folder
        return head | self._code if is_own else head | self._code | {WEIGHTS: record}

    @property
    def _schema(self) -> Schema:
        return Schema.of(self.source.task)

    @property
    def _settings(self) -> dict[str, Any]:
        """Those that only score."""
        return self._schema.scoring(self.config)

    @property
    def _suffix(self) -> str:
        """Behind a set's name: what differs from the trial's own evaluation, such as @cut0.7; "" if
        nothing does."""
        steps = {"step": self.step} if self.step != self.ended else {}
        changed = {
            self._schema.short(key): value for key, value in self._changed(self.config).items()
        }
        settings = "-".join(
            f"{name}{short_value(value)}" for name, value in (steps | changed).items()
        )
        legal = NOT_IN_NAMES.sub("_", settings)
        return settings and f"@{legal if legal == settings else with_digest(legal, settings)}"

    def _changed(self, config: Any) -> dict[str, Any]:
        """The values that are not the trial's own."""
        own = self._schema.values(self.own)
        return {
            key: value for key, value in self._schema.values(config).items() if value != own[key]
        }

    def _renamed(self, text: str) -> str:
        path = PurePosixPath(text)
        return str(path.with_name(f"{path.stem}{self._suffix}{path.suffix}"))

    def _add_to_result(self, on: str, kept: dict[str, Any]) -> None:
        """Results never mix: after a change of settings `allelse sweep` scores all sets again."""
        result = self.result()
        weights = self.weights.record
        self._scored_now[on] = kept
        scores = joined_scores(result, self.key, weights, self._scored_now)
        if scores.keys() >= result["scores"].keys():
            if self._scorer is not None:
                write_code(self.folder.parent, self._scorer)
            self.files.scored_again(of_process() | self._code, on)
            scoring = {"scoring": result.get("scoring", 1) + 1, "step": weights["step"]}
            self.files.write_result(result | scoring | {"scores": scores, WEIGHTS: weights})

    @cached_property
    def _scored_now(self) -> dict[str, dict[str, Any]]:
        """The scores of this command, by set. Those of other weights are replaced once all sets are
        scored."""
        return {}

    @cached_property
    def _scorer(self) -> Code | None:
        return self.scorer or scoring_code(known_study(self.folder.parent), self.source)

    @property
    def _code(self) -> dict[str, str]:
        """What scores, as heads and provenance name it; {} for our own task."""
        return {"code": self._scorer.digest} if self._scorer else {}


OWN_FILES = ("config.yaml", "attempts.jsonl", MANIFEST, STUDY_FILE)


def is_of_study(path: Path) -> bool:
    """Whether this is the place of a trial, or the folder of a checkpoint or a study."""
    return (path.parent / STUDY_FILE).exists() or any((path / name).exists() for name in OWN_FILES)


def read_trained(path: Path, source: TaskSource, settings: Settings, typed: Typed) -> TrainedTrial:
    """The finished trial of this folder, or a trial as it was at this checkpoint, with the settings
    that were typed.

    Raises RefusedError or DamagedFileError.
    """
    if (path / MANIFEST).is_file():
        trial = _at_checkpoint(path, source, settings)
    else:
        trial = _read(path, source, settings)
        trial.result()
        _refuse_without_weights(trial.weights)
    try:
        tree = assigned(asdict(trial.own), typed)
        return trial.configured(Schema.of(source.task).config(tree)) if typed else trial
    except RefusedError as error:
        raise RefusedError(
            replace(problem, place=COMMAND_LINE) for problem in error.problems
        ) from None


def _refuse_without_weights(weights: StoredWeights) -> None:
    """Raises RefusedError if the trial whose weights are scored is not finished any more."""
    if not weights.record:
        host = weights.files.path
        raise RefusedError(
            [unfinished("TRIAL", host.name, [weights.files.state(weights.key)], host.parent)]
        )


def _at_checkpoint(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    place = re.search(rf"/([0-9a-f]{{{KEY_DIGITS}}}(?:-\w+)?)/a(\d+)/step-(\d+)$", path.as_posix())
    if place is None:
        allowed = "must be the folder <key>-<lineage>/a<attempt>/step-<n> of a trial's checkpoints"
        raise RefusedError([Problem("TRIAL", f"{path} is not a checkpoint of a trial", allowed)])
    root = place[1]
    folder = path.parents[2]
    trial = _read(_owner(folder, settings), source, settings)
    lineage = study_lineage(trial.files)
    own = root_name(trial.key, lineage.name if lineage else "")
    if root != own:
        found = f"{path} belongs to trial {root}, but {trial.name} is {own}"
        raise RefusedError([Problem("TRIAL", found, "must lie in the folder of its own trial")])
    attempt = int(place[2])
    record = weights_record(lineage or Lineage(), attempt, int(place[3]))
    weights = replace(trial.weights, checkpoints=str(folder), attempt=attempt, record=record)
    return replace(trial, weights=weights, attempt=attempt, step=int(place[3]))


def _owner(checkpoints: Path, settings: Settings) -> Path:
    """The folder of the trial that owns these checkpoints; ``paths.checkpoints`` may place them
    elsewhere."""
    if checkpoints.name == "checkpoints":
        return checkpoints.parent
    return Path(settings.paths.runs) / checkpoints.parent.name / checkpoints.name


def _read(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """A trial that has begun."""
    task = source.task
    folder = TrialFolder(path, _card(path, source.task))
    stored = folder.config()
    if stored is None:
        raise RefusedError([_no_trial(folder)])
    config, problems = parse(
        task.schema, {group: stored.get(group) for group in Schema.of(task).groups}
    )
    if config is None:
        raise RefusedError(replace(problem, place=str(folder.config_path)) for problem in problems)
    before = stored["paths"]["runs"]
    now = path.parent.parent
    config = _with_places(config, task, settings, before, now)
    result = folder.result()
    if result is None or result["key"] != stored["key"]:
        result = {}
    elsewhere = _elsewhere(stored["paths"], settings.paths.checkpoints, now)
    weights = stored_weights(folder, stored, elsewhere)
    step = weights.record.get("step", result.get("step", 0))
    return TrainedTrial(
        source=source,
        files=folder,
        own=config,
        config=config,
        key=stored["key"],
        fingerprint=stored["data_fingerprint"],
        step=step,
        ended=step,
        attempt=result.get("attempt", 0),
        weights=weights,
        data_folder=data_folder(task, stored, Path(settings.paths.data), folder),
        tracking_uri=settings.tracking.uri,
    )


def _card(path: Path, task: Task[Any]) -> Card:
    """That of the trial's study; which sets have no files, the task of today says. Raises
    RefusedError if it is of another task."""
    known = (path.parent / STUDY_FILE).exists()
    today = task_card(task)
    card = (unless_damaged(partial(task_of, path.parent), None) if known else None) or today
    if card.name != task.name:
        allowed = (
            f"must be one of the task {task.name}; `allelse table` shows the results of any task"
        )
        raise RefusedError(
            [Problem("TRIAL", f"{path.name} is a trial of the task {card.name}", allowed)]
        )
    return replace(card, sets_without_artifacts=today.sets_without_artifacts)


def _with_places(config: Any, task: Task[Any], settings: Settings, before: str, now: Path) -> Any:
    """The configuration with each place of its data where it is now. An address may get its
    password again."""
    schema = Schema.of(task)
    recorded, typed = (
        schema.values(config),
        schema.values(settings.trial),
    )  # of another task: without these keys
    there = {
        key: _as_typed(moved_value(recorded[key], before, now), typed.get(key))
        for key, role in schema.fingerprinted.items()
        if role.place
    }
    return schema.config(assigned(asdict(config), there))


def _elsewhere(stored: dict[str, Any], typed: str | None, now: Path) -> str | None:
    """``paths.checkpoints`` of the trial. A folder may have been moved with the runs, or to where
    it is typed."""
    recorded = stored.get("checkpoints")
    if recorded is None:
        return None
    place = moved(recorded, stored["runs"], now)
    gone = "://" not in place and not Path(place).exists()
    return typed if gone and typed else str(_as_typed(place, typed))


def _as_typed(stored: Any, typed: Any) -> Any:
    """``typed``, which may hold a password, if ``stored`` is the same address without it; otherwise
    ``stored``."""
    return typed if isinstance(typed, str) and without_password(typed) == stored else stored


def _no_trial(folder: TrialFolder) -> Problem:
    """Why a folder without config.yaml has no model."""
    path = folder.path
    state = folder.state()
    if (path / STUDY_FILE).exists():
        allowed = f"must be one of its trials, such as {path / read_study(path).trials[0].name}"
        return Problem("TRIAL", f"{path} is a study", allowed)
    if state == "missing" and path.is_dir():
        return Problem("TRIAL", f"{path} holds no trial", TRIAL_KINDS)
    return unfinished("TRIAL", path.name, [state], path.parent)
