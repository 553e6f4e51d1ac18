"""Rows that only score: the row whose weights each of them scores, and why there is none."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sweeps.config.files import BASE
from sweeps.config.schema import Schema
from sweeps.planning.composition import Composition
from sweeps.schema import Problem, Values

DIFFERENT = "each row must change what decides training or scoring, after scaling and overrides"


@dataclass(frozen=True)
class Weights:
    """What a row's trial of one seed would train, and how it scores that."""

    row: str
    seed: int
    key: str  # of the trained weights
    scoring: Values

    @property
    def name(self) -> str:
        return f"{self.row}-s{self.seed}"


class Hosts:
    """``trials``: all of the study in order. ``base``: with each of their seeds, in the study or
    not. ``recorded``: the names of trials that the study has recorded as trained."""

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
        trained = [trial for trial in trials if self._rows[trial.row].builds_on is None]
        first = [trial for trial in trials if trial.name in recorded]
        by_precedence = [*base, *first, *trained]
        self._trained = {trial.key: trial for trial in reversed(by_precedence)}

    def of_scoring_trials(self) -> dict[str, str]:
        """By the name of each trial that only scores, that of the trial whose weights it scores."""
        hosts = dict[str, str]()
        for trial in self._trials:
            host = self._trained.get(trial.key)
            if host is not None and host.name != trial.name:
                hosts[trial.name] = host.name
        return hosts

    def problems(self) -> Iterator[Problem]:
        """Rows that equal an earlier one, and rows whose host is not in the study."""
        seen = {
            (trial.key, _text(trial.scoring)): trial
            for trial in reversed(list(self._trained.values()))
        }
        for trial in self._trials:
            host = self._trained.get(trial.key)
            twin = seen.setdefault((trial.key, _text(trial.scoring)), trial)
            if twin.row != trial.row:
                yield self._equal(trial, twin, host)
            elif host is None or (host.name != trial.name and host.name not in self._names):
                yield self._without_host(trial)

    def _equal(self, trial: Weights, twin: Weights, host: Weights | None) -> Problem:
        does = "train the same model" if twin == host else "score the same weights in the same way"
        found = f"lists {trial.row} and {twin.row}, which would {does}"
        return Problem("sweep.rows", found, DIFFERENT, None, self._rows[trial.row].place)

    def _without_host(self, trial: Weights) -> Problem:
        host = self._host_row(trial.row)
        place = self._rows[trial.row].place
        found = f"lists {trial.row}, which only scores the weights of {host}"
        if any(of.row == host for of in self._trials):
            allowed = f"give {host} the seed, too: each trial scores the weights of its own seed"
            return Problem(
                "sweep.seeds", f"{found}, but {host} has no seed {trial.seed}", allowed, None, place
            )
        found += f", but {host} is not in the study"
        return Problem("sweep.rows", found, f"add {host} to the rows", None, place)

    def _host_row(self, name: str) -> str:
        """The row that trains what this one scores; a row that builds on a scoring row has the same
        host."""
        above = self._rows[name].builds_on or BASE
        while above in self._rows and (further := self._rows[above].builds_on) is not None:
            above = further
        return above


def _text(scoring: Values) -> str:
    return repr(sorted(scoring.items()))


def changing_both(composition: Composition) -> list[str]:
    """The rows that change keys that decide training as well as keys that only score."""
    schema = Schema.of(composition.base.source.task)
    rows = list[str]()
    for row in composition.rows:
        scores = any(key in schema.scores for key in row.changes)
        trains = any(schema.decides_weights(key) for key in row.changes)
        if scores and trains and row.builds_on is None:
            rows.append(row.name)
    return rows
