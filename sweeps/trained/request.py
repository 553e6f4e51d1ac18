"""The arguments of a task's verb: names of trained trials, and overrides of the settings that only score."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweeps.config.library import Library
from sweeps.config.overrides import parse_overrides
from sweeps.config.places import COMMAND_LINE
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.planning.compose import compose_settings
from sweeps.planning.naming import naming
from sweeps.planning.stored_study import damaged
from sweeps.schema import Problem, RefusedError, parse
from sweeps.task import Typed
from sweeps.trained.names import find
from sweeps.trained.reading import is_of_study, read_trained
from sweeps.trained.trained_trial import TrainedTrial
from tracking.damage import DamagedFileError


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
            return trial.configured(_changed(self.source.task.schema, trial.own, self.typed)) if self.typed else trial
        except RefusedError as error:
            raise RefusedError(replace(each, place=COMMAND_LINE) for each in error.problems) from None


def _changed(schema: type, config: Any, typed: Typed) -> Any:
    """The configuration with these values. Raises RefusedError."""
    tree = asdict(config)
    for key, value in typed.items():
        group, _, name = key.partition(".")
        tree[group][name] = value
    found, problems = parse(schema, tree)
    if found is None:
        raise RefusedError(problems)
    return found


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
