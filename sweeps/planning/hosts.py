"""Rows that only score: the row whose weights each of them scores, and why there is none."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sweeps.config.files import BASE
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.problems import Problem
from sweeps.trees import Values
from tracking.words import trial_name

DIFFERENT = (
    "each row must change something that affects training or scoring, after scaling and overrides"
)


@dataclass(frozen=True)
class Weights:
    """What a row's trial of one seed would train, and how it scores that. ``key`` is the key of the
    trained weights."""

    row: str
    seed: int
    key: str
    scoring: Values

    @property
    def name(self) -> str:
        return trial_name(self.row, self.seed)

    @property
    def scored(self) -> tuple[str, str]:
        """The weights and how they are scored, equal for trials that do the same."""
        return self.key, repr(sorted(self.scoring.items()))


class Hosts:
    """Finds the trial whose weights each trial scores.

    ``trials``: all of the study in order. ``base``: base with each of their seeds, in the study or
    not. ``recorded``: the names of trials that the study has recorded as trained.
    """

    def __init__(
        self,
        composition: Composition,
        trials: Sequence[Weights],
        base: Sequence[Weights],
        recorded: Collection[str] = (),
    ) -> None:
        self._rows = {row.name: row for row in composition.rows}
        self._trials = trials
        self._names = {trial.name for trial in trials}
        by_precedence = list(base)
        by_precedence += [trial for trial in trials if trial.name in recorded]
        by_precedence += [trial for trial in trials if self._rows[trial.row].builds_on is None]
        self._trained = dict[str, Weights]()
        for trial in by_precedence:
            self._trained.setdefault(trial.key, trial)

    def of_scoring_trials(self) -> dict[str, str]:
        """For the name of each trial that only scores, the name of the trial whose weights it
        scores."""
        hosts = dict[str, str]()
        for trial in self._trials:
            host = self._trained.get(trial.key)
            if host is not None and host.name != trial.name:
                hosts[trial.name] = host.name
        return hosts

    def problems(self) -> Iterator[Problem]:
        """Rows that equal an earlier one, and rows whose host is not in the study."""
        first_trials = {trial.scored: trial for trial in self._trained.values()}
        for trial in self._trials:
            host = self._trained.get(trial.key)
            twin = first_trials.setdefault(trial.scored, trial)
            if twin.row != trial.row:
                yield self._equal(trial, twin, host)
            elif host is None or (host.name != trial.name and host.name not in self._names):
                yield self._without_host(trial)

    def _equal(self, trial: Weights, twin: Weights, host: Weights | None) -> Problem:
        does = "train the same model" if twin == host else "score the same weights in the same way"
        fault = f"lists {trial.row} and {twin.row}, which would {does}"
        location = self._rows[trial.row].location
        return Problem("sweep.rows", fault, DIFFERENT, place=location)

    def _without_host(self, trial: Weights) -> Problem:
        host = self._host_row(trial.row)
        location = self._rows[trial.row].location
        fault = f"lists {trial.row}, which only scores the weights of {host}, but {host}"
        if any(other_trial.row == host for other_trial in self._trials):
            fault += f" has no seed {trial.seed}"
            allowed = f"give {host} the seed, too: each trial scores the weights of its own seed"
            return Problem("sweep.seeds", fault, allowed, place=location)
        fault += " is not in the study"
        return Problem("sweep.rows", fault, f"add {host} to the rows", place=location)

    def _host_row(self, name: str) -> str:
        """The row that trains what this one scores; a row that builds on a scoring row has the same
        host."""
        host = self._rows[name].builds_on or BASE
        while host in self._rows:
            next_host = self._rows[host].builds_on
            if next_host is None:
                break
            host = next_host
        return host


def changing_both(composition: Composition) -> list[str]:
    """The rows that change keys that decide training as well as keys that only score."""
    schema = composition.schema
    rows = []
    for row in composition.rows:
        scores = any(key in schema.scores for key in row.changes)
        trains = any(schema.decides_weights(key) for key in row.changes)
        if scores and trains and row.builds_on is None:
            rows.append(row.name)
    return rows
