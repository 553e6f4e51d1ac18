"""The looks at the trials' files of a running sweep."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sweeps.processes.times import LOOK_AT_TRIALS_S
from sweeps.status.live import Watched
from sweeps.status.standings import Line
from tracking.files import DamagedFileError
from tracking.study import read_study
from tracking.words import trial_name

ACTIVE = ("starting", "running")


class SweepLooks:
    """Looks at the trials of a running sweep. While their files cannot be read, the last look
    stays.

    ``states`` returns a copy of the state of each trial, by name: another thread changes them.
    """

    def __init__(self, study: Path, states: Callable[[], Mapping[str, str]]) -> None:
        self._study = study
        self._states = states
        self._shown: Mapping[str, str] = {}  # the state of each trial just before the last look
        self.watched: Watched | None = None  # None until the study could be read

    def look(self) -> None:
        """Look at the trials that run or whose state changed, unless the last look is too fresh."""
        # before the look: a state that another thread changes meanwhile is looked at next time
        states = self._states()
        # a fault of storage: the process that writes there reports it
        with suppress(OSError, DamagedFileError):
            if self.watched is None:
                self.watched = self._watch(states)
                self.watched.look()
                self._shown = states
            elif self.watched.is_due():
                self.watched.look(self._due(states))
                self._shown = states

    def lines(self) -> Mapping[str, Line]:
        """The status line of each trial as of the last look, by the trial's name."""
        lines = () if self.watched is None else self.watched.lines
        return {trial_name(line["row"], line["seed"]): line for line in lines}

    def _watch(self, states: Mapping[str, str]) -> Watched:
        """The study with only the trials of the sweep."""
        study = read_study(self._study)
        ours = tuple(trial for trial in study.trials if trial.name in states)
        return Watched(replace(study, trials=ours), LOOK_AT_TRIALS_S)

    def _due(self, states: Mapping[str, str]) -> set[str]:
        """The trials that run, or whose state changed since the last look."""
        return {
            name
            for name, state in states.items()
            if state in ACTIVE or state != self._shown.get(name)
        }
