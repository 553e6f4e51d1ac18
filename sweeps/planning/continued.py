"""A plan of a study that may already be recorded: recorded trials resume, new ones need --add."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sweeps.config.hydra import option
from sweeps.config.library import COMMAND_LINE, Library, place_of
from sweeps.config.overrides import parse_overrides
from sweeps.config.schema import Schema
from sweeps.config.settings import Settings
from sweeps.config.trees import Values
from sweeps.planning.compose import compose_row, compose_settings, compose_sweep
from sweeps.planning.composition import ComposedRow, Composition
from sweeps.planning.naming import known_study, naming, other_study
from sweeps.planning.plan import Plan, PlannedTrial, make_plan, plan_trials
from sweeps.planning.recorded import Record, decides_weights, read_record, values_of
from sweeps.planning.task_of import KEY, library_of, source_of_study
from sweeps.schema import Problem, RefusedError
from tracking.study import Study
from tracking.words import shell_line

RowSeed = tuple[str, int]
NAMING_KEYS = ("sweep.name", "task", "data", "scale", "paths.runs")
SWEEPING = ("plan", "sweep")
"""The verbs that take several values of a key."""


def plan_sweep(overrides: list[str], add: bool = False, verb: str = "sweep", here: Path | None = None) -> Plan:
    """What ``allelse sweep`` runs. Raises RefusedError."""
    here = here or Path.cwd()
    library = library_of(overrides, here)
    study = study_there(overrides, here, library)
    if study is None:
        composition = compose_sweep(overrides, here, library=library)
        return make_plan(composition, composition.shared.sweep.seeds)
    return _Continued(overrides, here, study, verb).sweep(add)


def plan_row(overrides: list[str], add: bool = False, here: Path | None = None) -> Plan:
    """What ``allelse train`` runs: one trial. Raises RefusedError."""
    here = here or Path.cwd()
    library = library_of(overrides, here)
    study = study_there(overrides, here, library)
    if study is None:
        composition = compose_row(overrides, here, library=library)
        return make_plan(composition, [single_seed(composition.shared)])
    return _Continued(overrides, here, study, "train").row(add)


def single_seed(settings: Settings) -> int:
    """The seed of `allelse train`: the task's own key, or the first of ``sweep.seeds``."""
    key = Schema.of(settings.source.task).seed
    if key is None:
        return settings.sweep.seeds[0]
    group, name = key.split(".")
    return int(getattr(getattr(settings.trial, group), name))


def study_there(overrides: list[str], here: Path, library: Library) -> Study | None:
    """The study that the overrides name, if it is recorded. Raises RefusedError if its file is damaged."""
    if _misnamed(overrides, library):  # another study than the one that is meant would contradict the other overrides
        return None
    try:
        settings = compose_settings(naming(overrides), here, library=library)
    except RefusedError:  # reported with all other problems when the rows are composed
        return None
    return known_study(settings.study_folder)


def _misnamed(overrides: list[str], library: Library) -> bool:
    """Whether an override that names the study or its place is refused."""
    typed, _ = parse_overrides(overrides, library)
    return not typed.refused.isdisjoint(NAMING_KEYS)


class _Continued:
    """One command on a recorded study. Collects every contradiction to the record."""

    def __init__(self, overrides: list[str], here: Path, study: Study, verb: str) -> None:
        record = read_record(study, source_of_study(study, here))
        self.argv, self.here, self.verb, self.library = overrides, here, verb, library_of(overrides, here, record)
        self.schema = self.library.schema
        self.typed, _ = parse_overrides(overrides, self.library, tuple(record.rows), verb in SWEEPING)
        self.record = self._composable(record)
        self.problems: list[Problem] = []

    def sweep(self, add: bool) -> Plan:
        composition = self._composed(compose_sweep)
        rows = composition.shared.sweep.rows if self.typed.names_rows(self.schema.seed) else None
        seeds = composition.shared.sweep.seeds if self.typed.names_seeds(self.schema.seed) else None
        return self._plan(composition, self._asked(rows, seeds, add), add)

    def row(self, add: bool) -> Plan:
        row = self.typed.choices.get("row") or self._usual_row()
        composition = self._composed(compose_row, row)
        seed = self._seed(row, single_seed(composition.shared))
        return self._plan(composition, [(row, seed)], add)

    def _asked(self, rows: list[str] | None, seeds: list[int] | None, add: bool) -> list[RowSeed]:
        """The requested trials. With --add, or if rows and seeds are both named: every row with every seed."""
        recorded = self.record.pairs
        if add or (rows and seeds):
            all_seeds = seeds or list(dict.fromkeys(seed for _, seed in recorded))
            return [(row, seed) for row in rows or self.record.rows for seed in all_seeds]
        found = [(row, seed) for row, seed in recorded if row in (rows or [row]) and seed in (seeds or [seed])]
        new = [(row, seed) for row in rows or () for seed in dict.fromkeys(seed for _, seed in recorded)]
        new += [(row, seed) for seed in seeds or () for row in self.record.rows]
        known_rows, known_seeds = {row for row, _ in recorded}, {seed for _, seed in recorded}
        return found + [(row, seed) for row, seed in new if row not in known_rows or seed not in known_seeds]

    def _plan(self, composition: Composition, asked: list[RowSeed], add: bool) -> Plan:
        recorded = set(self.record.pairs)
        new = [pair for pair in asked if pair not in recorded]
        if self.record.study.begun:
            self.problems += self._contradictions(composition)
        if new and not add:
            self.problems.append(self._not_recorded(new))
        if self.problems:
            raise RefusedError(dict.fromkeys(self.problems))
        whole = plan_trials(composition, [*self.record.pairs, *new], self.record.rows)
        pairs = set(asked)
        others = dict.fromkeys(trial.trial.name for trial in whole.trials if _is_scored_otherwise(trial))
        chosen = [trial for trial in whole.trials if (trial.trial.row, trial.trial.seed) in pairs]
        if self.verb == "train":
            self._refuse_scoring_others([name for name in others if name != chosen[0].trial.name])
        else:
            names = {trial.trial.name for trial in chosen} | others.keys()
            chosen = [trial for trial in whole.trials if trial.trial.name in names]
        added = tuple(f"{row}-s{seed}" for row, seed in new)
        return replace(whole, trials=tuple(chosen), before=self.record.study, added=added)

    def _composed(self, compose: Any, *row: str) -> Composition:
        """The record composed with the overrides. A choice that contradicts it is noted, then ignored."""
        self.problems += self._other_choices()
        wrong = [f"{problem.key}=" for problem in self.problems]
        overrides = [override for override in self.argv if not override.startswith(tuple(wrong))]
        try:
            composition: Composition = compose(overrides, self.here, self.record, *row)
        except RefusedError as error:
            raise RefusedError(dict.fromkeys([*self.problems, *error.problems])) from None
        return composition

    def _composable(self, record: Record) -> Record:
        """The record with the values that its options do not compose to: the file of one may be gone."""
        known = {group: name for group, name in record.options.items() if name in self.library.folders.options(group)}
        if known == record.options:
            return record
        base = values_of(compose_settings(_places(self.argv), self.here, replace(record, options=known)))
        changed = {key for row in record.rows.values() for key in row.values}
        values = {
            key: value for key, value in record.settings.items() if key not in changed and base.get(key, value) != value
        }
        return replace(record, options=known, values=record.values | values)

    def _other_choices(self) -> Iterator[Problem]:
        """Typed options that differ from the recorded option of their group."""
        if (task := self.typed.values.get(KEY, self.library.source.name)) != self.library.source.name:
            found = f'is "{task}", but {self.record.study.name} is recorded with task={self.library.source.name}'
            yield Problem(KEY, found, self._other, None, COMMAND_LINE)
        for group in self._deciding_options() if self.record.study.begun else ():
            typed, usual = self.typed.choices.get(group), self.library.defaults.get(group)
            recorded = self.record.options.get(group, usual)
            if typed is not None and recorded is not None and typed != recorded:
                found = f'is "{typed}", but {self.record.study.name} is recorded with {group}={recorded}'
                yield Problem(group, found, self._other, None, COMMAND_LINE)

    @property
    def _other(self) -> str:
        return other_study(self.record.study.folder)

    def _deciding_options(self) -> list[str]:
        """The groups of options with a key that decides the weights."""
        deciding = {key.partition(".")[0] for key in self.schema.short_names if self.schema.decides_weights(key)}
        return [group for group in self.library.groups if group in {*deciding, "scale"}]

    def _contradictions(self, composition: Composition) -> list[Problem]:
        """Differences between composition and record, caused by overrides or by files edited since."""
        base = values_of(composition.base)
        chosen = [option(group, name) for group, name in composition.overrides.choices.items() if group != "row"]
        places = partial(self._place, chosen, "base")
        problems = self._differences("", self.record.settings, base, places)
        if problems:  # every row would differ for the same reason; another scale explains all differences
            return [problem for problem in problems if problem.key.startswith("scale.")] or problems
        for row in composition.rows:
            if row.name in self.record.rows:
                expected = self.record.expected(row.name, base)
                places = partial(self._place_in_row, chosen, row)
                problems += self._differences(f" in row {row.name}", expected, values_of(row.settings), places)
        return problems

    def _differences(
        self, where: str, recorded: Values, now: Values, places: Callable[[str], str | None]
    ) -> list[Problem]:
        problems = []
        for key in self._differing(recorded, now):
            found = f"is {now[key]}{where}, but {self.record.study.name} is recorded with {recorded[key]}"
            typed = key in self.typed.values
            allowed = self._other if typed else "restore the file, or choose another sweep.name"
            problems.append(Problem(key, found, allowed, None, COMMAND_LINE if typed else places(key)))
        return problems

    def _differing(self, recorded: Values, now: Values) -> list[str]:
        """Differing keys among those fixed for the study and the ``decode`` keys that nobody typed."""
        held = [
            key
            for key in recorded
            if key in now and (decides_weights(self.schema, key) or self._decodes_as_before(key))
        ]
        return [key for key in held if recorded[key] != now[key]]

    def _decodes_as_before(self, key: str) -> bool:
        typed = key.partition(".")[0] in self.typed.choices or key in self.typed.values
        return key in self.schema.scores and not typed

    def _place(self, chosen: list[str], row: str, key: str) -> str | None:
        return place_of(key, self.library.hydra, *chosen, option("row", row))

    def _place_in_row(self, chosen: list[str], row: ComposedRow, key: str) -> str | None:
        """The line of the row's file, or the file if the line is gone; what made a row without a file."""
        file = self.library.folders.find(f"row/{row.name}")
        if file is None:
            return row.place
        place, path = self._place(chosen, row.name, key), self.library.folders.show(file)
        return place if place is not None and place.startswith(path) else path

    def _not_recorded(self, new: list[RowSeed]) -> Problem:
        """Lists the new trials and the recorded ones, with the command that adds the new."""
        rows, seeds = list(self.record.rows), list(dict.fromkeys(seed for _, seed in self.record.pairs))
        new_rows = list(dict.fromkeys(row for row, _ in new if row not in rows))
        new_seeds = list(dict.fromkeys(seed for _, seed in new if seed not in seeds))
        names = [f"{row}-s{seed}" for row, seed in new]
        parts = [_listed("row", new_rows)] * bool(new_rows) + [_listed("seed", new_seeds)] * bool(new_seeds)
        found = f"names {' and '.join(parts) or ', '.join(names)}, not yet in {self.record.study.name}"
        recorded = f"which has {_listed('row', rows)} with {_listed('seed', seeds)}"
        keys = ("row", self.schema.seed or "sweep.seeds") if self.verb == "train" else ("sweep.rows", "sweep.seeds")
        key = keys[0] if new_rows or not new_seeds else keys[1]
        command = shell_line(["allelse", self.verb, *self.argv, "--add"])
        return Problem(key, f"{found}, {recorded}", f"to add: {command}", None, COMMAND_LINE)

    def _usual_row(self) -> str:
        """For `allelse train` without a row: base, or the only row that is recorded. Raises RefusedError."""
        rows = list(self.record.rows)
        if "base" in rows or not rows:
            return "base"
        if len(rows) > 1:
            found = f"is missing, and {self.record.study.name} has no row base, only {', '.join(rows)}"
            raise RefusedError([Problem("row", found, f"must be one of them, such as row={rows[0]}")])
        return rows[0]

    def _seed(self, row: str, usual: int) -> int:
        """The seed as typed; by default the usual one, unless the row is recorded only with others."""
        recorded, key = [seed for name, seed in self.record.pairs if name == row], self.schema.seed or "sweep.seeds"
        if key in self.typed.values or usual in recorded or not recorded:
            return usual
        if len(recorded) > 1:
            found = f"is missing, and {row} is recorded with seeds {', '.join(map(str, recorded))}"
            example = f"{key}={recorded[0]}" if self.schema.seed else f"{key}=[{recorded[0]}]"
            raise RefusedError([Problem(key, found, f"must be one of them, such as {example}")])
        return recorded[0]

    def _refuse_scoring_others(self, others: list[str]) -> None:
        """Refuse decode settings for one trial: its table would mix scores of different settings."""
        keys = [key for key in self.typed.values if key in self.schema.scores]
        keys += [
            group for group in self.typed.choices if any(key.startswith(f"{group}.") for key in self.schema.scores)
        ]
        if others and keys:
            found = f"would leave {', '.join(others)} scored with different settings"
            allowed = "use it with `allelse sweep` to score all trials again"
            raise RefusedError([Problem(key, found, allowed) for key in keys])


def _is_scored_otherwise(planned: PlannedTrial) -> bool:
    """Whether it is finished, with other decode settings."""
    result = planned.folder.finished_result(planned.trial.key)
    return result is not None and not planned.is_scored(result)


def _listed(noun: str, values: Sequence[object]) -> str:
    """For example "seeds 1, 3"."""
    return f"{noun}{'s' * (len(values) > 1)} {', '.join(map(str, values))}"


def _places(overrides: list[str]) -> list[str]:
    return [override for override in overrides if override.startswith(("paths.", "sweep.name="))]
