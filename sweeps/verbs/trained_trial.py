"""A trained trial on disk as a verb of its task uses it, ``sweeps.task.Trained``; its name and how it is read."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from sweeps.config.hydra import Library
from sweeps.config.overrides import parse_overrides
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.planning.compose import compose_settings
from sweeps.planning.composition import moved, moved_value
from sweeps.planning.naming import must_finish, naming
from sweeps.planning.trial_lock import trial_lock
from sweeps.planning.user_code import scoring_code
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, assigned, damaged, parse
from sweeps.task import NO_TEXTS, Keep, MissingStepError, Numbers, Saved, Task, Texts, Typed
from sweeps.verbs.command import TRIAL_KINDS, named_folder
from sweeps.verbs.ui import registered
from sweeps.worker.calls import checked_artifacts, numbers, samples_text
from sweeps.worker.checkpoint_files import MANIFEST
from sweeps.worker.checkpoints import KEY_DIGITS, Checkpoints, OwnFormat
from sweeps.worker.prepared import data_place, prepared_folder
from tracking.card import Card
from tracking.files import DamagedFileError, unless_damaged, unless_lost
from tracking.provenance import of_process, write_code
from tracking.study import STUDY_FILE, read_study, task_of
from tracking.trial import TrialFolder, statistics_name, statistics_text
from tracking.uri import without_password

NOT_IN_NAMES = re.compile(r"[^\w.-]")
"""What the name of a file must not have."""


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
        """Leaves out a set that lost a file: it is scored again."""
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
            raise RefusedError([_not_finished(self.folder, self.files.state(self.key))])
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
        own = OwnFormat.of(self.source.task)
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


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Request:
    """Names, the typed settings that only score, and the settings that locate the study."""

    source: TaskSource
    names: list[str]
    typed: Typed
    settings: Settings

    def trials(self) -> list[TrainedTrial]:
        """The named trials, each once. Raises RefusedError with all their problems."""
        found: dict[tuple[Path, int], TrainedTrial] = {}
        problems: list[Problem] = []
        for name in self.names:
            try:
                trial = self._read(named_folder(name, self.settings))
                found[trial.folder, trial.step] = trial
            except RefusedError as error:
                problems += error.problems
            except DamagedFileError as error:
                problems.append(damaged(error))
        if problems:
            raise RefusedError(problems)
        return list(found.values())

    def trial(self) -> TrainedTrial:
        """The one named trial. Raises RefusedError."""
        self._check_one("trial")
        return self.trials()[0]

    def trial_or_folder(self) -> TrainedTrial | Path:
        """The one named trial, or a folder that is none. Raises RefusedError."""
        self._check_one("trial or folder")
        path = named_folder(self.names[0], self.settings)
        return self._read(path) if _is_of_study(path) else path

    def _check_one(self, what: str) -> None:
        if len(self.names) > 1:
            found = f"names {len(self.names)}: {', '.join(self.names)}"
            raise RefusedError([Problem("TRIAL", found, f"must name one {what}")])

    def _read(self, path: Path) -> TrainedTrial:
        """Raises RefusedError or DamagedFileError."""
        trial = _read_trained(path, self.source, self.settings)
        try:
            tree = assigned(asdict(trial.own), self.typed)
            return trial.configured(Schema.of(self.source.task).config(tree)) if self.typed else trial
        except RefusedError as error:
            raise RefusedError(replace(each, place=COMMAND_LINE) for each in error.problems) from None


def read_request(verb: str, arguments: list[str], source: TaskSource) -> Request:
    """Arguments without ``=`` are names, the others are overrides. Raises RefusedError with every problem."""
    names = [argument for argument in arguments if "=" not in argument or Path(argument).exists()]
    overrides = [argument for argument in arguments if argument not in names]
    library = Library(source, Path.cwd())
    parsed, problems = parse_overrides(overrides, library)
    for key in (*parsed.choices, *parsed.values):
        if key not in library.schema.scores and not naming([f"{key}="]):
            ways = ", ".join(name for name in library.schema.short_names if name in library.schema.scores)
            allowed = f"`allelse {verb}` takes {f'{ways}; and ' if ways else ''}what names a study, such as scale="
            found = "cannot be changed once a model is trained"
            problems.append(Problem(key, found, allowed, None, COMMAND_LINE))
    if not names:
        problems.append(Problem("TRIAL", "is missing", "must name a trial; `allelse status` lists them"))
    if problems:
        raise RefusedError(problems)
    typed = Typed({key: value for key, value in parsed.values.items() if key in library.schema.scores})
    return Request(source, names, typed, compose_settings(naming(overrides)))


OWN_FILES = ("config.yaml", "attempts.jsonl", MANIFEST, STUDY_FILE)


def _is_of_study(path: Path) -> bool:
    """Whether this is the place of a trial, or the folder of a checkpoint or a study."""
    return (path.parent / STUDY_FILE).exists() or any((path / name).exists() for name in OWN_FILES)


def _read_trained(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """The finished trial of this folder, or a trial as it was at this checkpoint.

    Raises RefusedError or DamagedFileError.
    """
    if (path / MANIFEST).is_file():
        return _at_checkpoint(path, source, settings)
    trial = _read(path, source, settings)
    trial.result()
    return trial


def _at_checkpoint(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    place = re.search(rf"/([0-9a-f]{{{KEY_DIGITS}}})/a(\d+)/step-(\d+)$", path.as_posix())
    if place is None:
        allowed = "must be the folder <key>/a<attempt>/step-<n> of a trial's checkpoints"
        raise RefusedError([Problem("TRIAL", f"{path} is not a checkpoint of a trial", allowed)])
    key, folder = place[1], path.parents[2]
    trial = _read(_owner(folder, settings), source, settings)
    if not trial.key.startswith(key):
        found = f"{path} belongs to trial {key}, but the key of {trial.name} is {trial.key[:KEY_DIGITS]}"
        raise RefusedError([Problem("TRIAL", found, "must lie in the folder of its own trial")])
    return replace(trial, checkpoints=str(folder), attempt=int(place[2]), step=int(place[3]))


def _owner(checkpoints: Path, settings: Settings) -> Path:
    """The folder of the trial that owns these checkpoints; ``paths.checkpoints`` may place them elsewhere."""
    if checkpoints.name == "checkpoints":
        return checkpoints.parent
    return Path(settings.paths.runs) / checkpoints.parent.name / checkpoints.name


def _read(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """A trial that has begun."""
    task, folder = source.task, TrialFolder(path, _card(path, source.task))
    stored = folder.config()
    if stored is None and (path / STUDY_FILE).exists():
        allowed = f"must be one of its trials, such as {path / read_study(path).trials[0].name}"
        raise RefusedError([Problem("TRIAL", f"{path} is a study", allowed)])
    if stored is None:
        state = folder.state()
        known = state != "missing" or not path.is_dir()
        no_trial = Problem("TRIAL", f"{path} holds no trial", TRIAL_KINDS)
        raise RefusedError([_not_finished(path, state) if known else no_trial])
    config, problems = parse(task.schema, {group: stored.get(group) for group in Schema.of(task).groups})
    if config is None:
        raise RefusedError(replace(problem, place=str(folder.config_path)) for problem in problems)
    before, now = stored["paths"]["runs"], path.parent.parent
    config = _with_places(config, task, settings, before, now)
    result = folder.result()
    step, attempt = (result["step"], result["attempt"]) if result and result["key"] == stored["key"] else (0, 0)
    return TrainedTrial(
        source=source,
        files=folder,
        own=config,
        config=config,
        key=stored["key"],
        fingerprint=stored["data_fingerprint"],
        step=step,
        ended=step,
        attempt=attempt,
        checkpoints=folder.checkpoints_url(_elsewhere(stored["paths"], settings.paths.checkpoints, now)),
        places=(Path(settings.paths.data), Path(moved(stored["paths"]["data"], before, now))),
        tracking_uri=settings.tracking.uri,
    )


def _card(path: Path, task: Task[Any]) -> Card:
    """That of the trial's study. Raises RefusedError if it is of another task."""
    known = (path.parent / STUDY_FILE).exists()
    card = (unless_damaged(partial(task_of, path.parent), None) if known else None) or task_card(task)
    if card.name != task.name:
        allowed = f"must be one of the task {task.name}; `allelse table` shows the results of any task"
        raise RefusedError([Problem("TRIAL", f"{path.name} is a trial of the task {card.name}", allowed)])
    return card


def _with_places(config: Any, task: Task[Any], settings: Settings, before: str, now: Path) -> Any:
    """The configuration with each place of its data where it is now. An address may get its password again."""
    same = settings.source.task.name == task.name
    for key, role in Schema.of(task).fingerprinted.items():
        if role.place:
            group, _, name = key.partition(".")
            values = getattr(config, group)
            typed = getattr(getattr(settings.trial, group), name) if same else None
            value = getattr(values, name)
            there = _as_typed(value, typed) if isinstance(value, str) else moved_value(value, before, now)
            config = replace(config, **{group: replace(values, **{name: there})})
    return config


def _elsewhere(stored: dict[str, Any], typed: str | None, now: Path) -> str | None:
    """``paths.checkpoints`` of the trial. A folder may have been moved with the runs, or to where it is typed."""
    if stored["checkpoints"] is None:
        return None
    place = moved(stored["checkpoints"], stored["runs"], now)
    gone = "://" not in place and not Path(place).exists()
    return typed if gone and typed else _as_typed(place, typed)


def _as_typed(stored: str, typed: str | None) -> str:
    """``typed``, which may hold a password, if ``stored`` is the same address without it; otherwise ``stored``."""
    return typed if typed and without_password(typed) == stored else stored


def _not_finished(path: Path, state: str) -> Problem:
    """Why the trial has no model yet."""
    fault = {"missing": "was never started", "running": "is still running"}.get(state, f"is not finished, but {state}")
    return Problem("TRIAL", f"{path.name} {fault}", must_finish(path.parent))
