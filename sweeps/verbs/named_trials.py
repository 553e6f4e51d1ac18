"""The arguments of a task's verb: names of trained trials, and overrides of the settings that only score."""

import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sweeps.config.hydra import Library
from sweeps.config.overrides import parse_overrides
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.planning.compose import compose_settings
from sweeps.planning.composition import moved, moved_value
from sweeps.planning.naming import known_study, naming, studies_there
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, assigned, damaged, nearest, parse
from sweeps.task import Task, Typed
from sweeps.verbs.names import meant, unknown
from sweeps.verbs.trained_trial import TrainedTrial, not_finished
from sweeps.worker.checkpoint_files import MANIFEST
from sweeps.worker.checkpoints import KEY_DIGITS
from tracking.card import Card
from tracking.files import DamagedFileError, unless_damaged
from tracking.mlflow.ledger import trial_of_run
from tracking.study import STUDY_FILE, studies, task_of
from tracking.trial import TrialFolder
from tracking.uri import without_password


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
                trial = self._read(find(name, self.settings))
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
        path = find(self.names[0], self.settings)
        return self._read(path) if is_of_study(path) else path

    def _check_one(self, what: str) -> None:
        if len(self.names) > 1:
            found = f"names {len(self.names)}: {', '.join(self.names)}"
            raise RefusedError([Problem("TRIAL", found, f"must name one {what}")])

    def _read(self, path: Path) -> TrainedTrial:
        """Raises RefusedError or DamagedFileError."""
        trial = read_trained(path, self.source, self.settings)
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
    problems += [_foreign(verb, key, library) for key in (*parsed.choices, *parsed.values) if not _means(key, library)]
    if not names:
        problems.append(Problem("TRIAL", "is missing", "must name a trial; `allelse status` lists them"))
    if problems:
        raise RefusedError(problems)
    typed = Typed({key: value for key, value in parsed.values.items() if key in library.schema.scores})
    return Request(source, names, typed, compose_settings(naming(overrides)))


def _means(key: str, library: Library) -> bool:
    return key in library.schema.scores or bool(naming([f"{key}="]))


def _foreign(verb: str, key: str, library: Library) -> Problem:
    ways = ", ".join(name for name in library.schema.short_names if name in library.schema.scores)
    data = "data=, " if "data" in library.groups else ""
    where = f"{data}scale=, sweep.name=, paths. and tracking., to find the study and its runs"
    allowed = f"`allelse {verb}` takes {f'{ways}; and ' if ways else ''}{where}"
    return Problem(key, "cannot be changed once a model is trained", allowed, None, COMMAND_LINE)


OWN_FILES = ("config.yaml", "attempts.jsonl", MANIFEST, STUDY_FILE)


def is_of_study(path: Path) -> bool:
    """Whether this is the place of a trial, or the folder of a checkpoint or a study."""
    return (path.parent / STUDY_FILE).exists() or any((path / name).exists() for name in OWN_FILES)


def read_trained(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
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
    stored = folder.trained_config()
    if stored is None:
        raise RefusedError([_no_trial(path, folder)])
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


def _no_trial(path: Path, folder: TrialFolder) -> Problem:
    state, study = folder.state(), known_study(path)
    if study is not None:
        return Problem(
            "TRIAL", f"{path} is a study", f"must be one of its trials, such as {path / study.trials[0].name}"
        )
    if state == "missing" and path.is_dir():
        return Problem("TRIAL", f"{path} holds no trial", TRIAL_KINDS)
    return not_finished(path, state)


TRIAL_KINDS = "must be a trial, the folder of a trial or checkpoint, or an MLflow run id"


def find(name: str, settings: Settings) -> Path:
    """The folder of the trial that ``name`` stands for, or the folder of this name.

    Raises RefusedError with the nearest known name, also for a damaged study that hides its trials.
    """
    runs, here = Path(settings.paths.runs), None if "/" in name else known_study(settings.study_folder)
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser().resolve()
    named = meant(name, here, runs)
    if named is not None and len(named.trials) == 1 and named.row:
        return named.study.trial_folder(named.trials[0]).path
    if re.fullmatch("[0-9a-f]{32}", name) and (found := trial_of_run(runs, name)):
        return found
    raise RefusedError([_unknown(name, settings)])


def _unknown(name: str, settings: Settings) -> Problem:
    runs, here = Path(settings.paths.runs), known_study(settings.study_folder)
    everywhere = [f"{study.name}/{trial.name}" for study in studies(runs)[0] for trial in study.trials]
    if here is not None and "/" not in name:
        return unknown("TRIAL", name, here, "trials", TRIAL_KINDS, everywhere)
    missing = "such trial" if "/" in name else f"study {settings.study_folder.name}"
    same_name = (other for other in everywhere if other.rpartition("/")[2] == name)
    found = f'is "{name}", but {runs} holds no {missing}; {studies_there(runs)}'
    return Problem("TRIAL", found, TRIAL_KINDS, next(same_name, nearest(name, everywhere)))
