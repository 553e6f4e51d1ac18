"""What you type after a verb of a task: names of trials, and the settings to score them with."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.config.tasks import TaskSource
from sweeps.planning.studies.study_overrides import naming
from sweeps.problems import COMMAND_LINE, Problem, RefusedError, damaged, refusal, refuse
from sweeps.task import Typed
from sweeps.verbs.names import named_folder, named_folders
from tracking.files import DamagedFileError

if TYPE_CHECKING:
    from sweeps.config.settings import Settings
    from sweeps.verbs.trained.trained_trial import TrainedTrial


@dataclass(frozen=True)
class Request:
    """Names, the typed settings for scoring, and the settings that locate the study.

    ``swept`` has several values of a key, for verbs that take many trials. ``texts`` are the words
    after the trial, for verbs that take some.
    """

    source: TaskSource
    names: list[str]
    typed: Typed
    settings: "Settings"
    swept: dict[str, list[Any]] = field(default_factory=dict)
    texts: Sequence[str] = ()

    def opened(self, types: Collection[Any]) -> Any:
        """What the first parameter of a verb takes, by the types in its annotation.

        Raises RefusedError.
        """
        from sweeps.verbs.trained.reading import is_of_study  # loads what no list of verbs needs

        if Sequence in types:
            return self._trials()
        takes_folder = Path in types
        if len(self.names) > 1:
            fault = f"names {len(self.names)}: {', '.join(self.names)}"
            allowed = "must name one trial or folder" if takes_folder else "must name one trial"
            raise refusal("TRIAL", fault, allowed)
        path = named_folder(self.names[0], self.settings)
        if takes_folder and not is_of_study(path):
            return path
        return self._read(path, self.typed)

    def _trials(self) -> list["TrainedTrial"]:
        """The named trials with all typed settings, each once.

        Raises RefusedError with all problems.
        """
        trials: dict[tuple[Path, int, str], TrainedTrial] = {}
        problems: list[Problem] = []
        for name in self.names:
            try:
                for folder, typed in product(named_folders(name, self.settings), self._typed()):
                    trial = self._read(folder, typed)
                    trials[trial.folder, trial.step, repr(trial.config)] = trial
            except RefusedError as error:
                problems += error.problems
            except DamagedFileError as error:
                problems.append(damaged(error))
        refuse(problems)
        return list(trials.values())

    def _typed(self) -> list[Typed]:
        """The typed settings, once for each combination of swept values."""
        return [
            Typed({**self.typed, **dict(zip(self.swept, values, strict=True))})
            for values in product(*self.swept.values())
        ]

    def _read(self, path: Path, typed: Typed) -> "TrainedTrial":
        from sweeps.verbs.trained.reading import read_trained

        return read_trained(path, self.source, self.settings, typed)


def read_request(
    verb: str,
    arguments: list[str],
    source: TaskSource,
    several: bool = False,
    texts: Sequence[str] = (),
) -> Request:
    """Arguments without ``=`` are names, the others are overrides. ``several``: the verb takes
    several values of a key for scoring. ``texts``: it takes as many words after the trial, which
    refusals call so.

    Raises RefusedError with every problem.
    """
    from sweeps.config.library import Library
    from sweeps.config.overrides import parse_overrides
    from sweeps.planning.study_rows.compose import compose_settings
    from sweeps.planning.study_rows.task_choice import library_of

    overrides = [argument for argument in arguments if _is_override(argument, bool(texts))]
    names = [argument for argument in arguments if argument not in overrides]
    library = Library(source, Path.cwd())
    scoring_keys = library.schema.scores
    parsed, problems = parse_overrides(overrides, library, sweeps=several)
    allowed = _allowed_keys(
        verb, [key for key in library.schema.short_names if key in scoring_keys]
    )
    for key in (*parsed.choices, *parsed.values, *parsed.sweeps):
        if key not in scoring_keys and not naming([f"{key}="]):
            fault = "cannot be changed once a model is trained"
            problems.append(Problem(key, fault, allowed, None, COMMAND_LINE))
    if not names:
        allowed_names = "must name a trial; `allelse status` lists them"
        problems.append(Problem("TRIAL", "is missing", allowed_names))
    values = names[1 : 1 + len(texts)]
    for missing in texts[len(values) :]:
        problems.append(Problem(missing, "is missing", "must follow the trial, in quotes"))
    refuse(problems)
    typed = Typed({key: value for key, value in parsed.values.items() if key in scoring_keys})
    trials = [*names[:1], *names[1 + len(values) :]]
    names_study = naming(overrides)
    settings = compose_settings(names_study, library_of(names_study, Path.cwd(), trains=False))
    return Request(source, trials, typed, settings, parsed.sweeps, values)


def _is_override(argument: str, among_texts: bool) -> bool:
    """Whether an argument is KEY=VALUE. A text may contain ``=``, but no key contains a space."""
    key, equals, _ = argument.partition("=")
    if among_texts and " " in key:
        return False
    return bool(equals) and not Path(argument).exists()


def _allowed_keys(verb: str, scoring_keys: Iterable[str]) -> str:
    """The overrides that the verb takes."""
    keys = ", ".join(scoring_keys)
    and_keys = f"{keys}; and " if keys else ""
    return f"`allelse {verb}` takes {and_keys}settings that name a study, such as scale="
