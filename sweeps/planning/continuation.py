"""A plan of a study that may already be recorded: recorded trials resume, new ones need --add."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.config.files import BASE
from sweeps.config.hydra import Library
from sweeps.config.overrides import Overrides
from sweeps.config.schema import Schema
from sweeps.config.settings import Settings, Sweep
from sweeps.planning.compose import (
    TASK_KEY,
    compose_row,
    compose_settings,
    compose_sweep,
    library_of,
    source_of_study,
)
from sweeps.planning.composition import (
    Composition,
    StudyRecord,
    decides_weights,
    read_record,
    values_of,
)
from sweeps.planning.known_rows import known_rows, without
from sweeps.planning.naming import command, known_study, naming, other_study
from sweeps.planning.plan import Plan, make_plan, plan_trials
from sweeps.planning.renaming import refuse_half_renamed
from sweeps.planning.shared_trials import with_sources
from sweeps.planning.user_code import with_code
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, Values
from tracking.study import Study
from tracking.words import plural

RowSeed = tuple[str, int]


def plan_sweep(
    overrides: list[str],
    add: bool = False,
    verb: str = "sweep",
    here: Path | None = None,
    changed_code: bool = False,
) -> Plan:
    """What ``allelse sweep`` runs, or ``allelse train`` with that ``verb``: one trial. Raises
    RefusedError.

    ``changed_code`` allows another code than the study's.
    """
    here = here or Path.cwd()
    library = library_of(overrides, here)
    study = study_there(overrides, here, library)
    record = read_record(study, source_of_study(study, here)) if study else None
    compose = compose_row if verb == "train" else compose_sweep
    composition = compose(overrides, here, record, None if record else library)
    if record is not None:
        refuse_half_renamed(record.study.folder)
        known = known_rows(composition, record, here)
        composition = without(composition, known, record)
        continued = _Continued(overrides, verb, record, composition, known)
        plan = with_code(continued.plan(add), changed_code)
        return plan if verb == "train" else with_sources(plan)
    sweep = composition.shared.sweep
    if verb == "train":
        return with_code(make_plan(composition, [single_seed(composition.shared)]))
    return with_sources(with_code(make_plan(composition, sweep.seeds, sweep.base_seeds)))


def plan_row(
    overrides: list[str], add: bool = False, here: Path | None = None, changed_code: bool = False
) -> Plan:
    """What ``allelse train`` runs: one trial. Raises RefusedError."""
    return plan_sweep(overrides, add, "train", here, changed_code)


def single_seed(settings: Settings) -> int:
    """The seed of `allelse train`: the task's own key, or the first of ``sweep.seeds``."""
    key = Schema.of(settings.source.task).seed
    if key is None:
        return settings.sweep.seeds[0]
    group, name = key.split(".")
    return int(getattr(getattr(settings.trial, group), name))


def study_there(overrides: list[str], here: Path, library: Library) -> Study | None:
    """The study that the overrides name, if it is recorded. Raises RefusedError if its file is
    damaged."""
    try:
        settings = compose_settings(naming(overrides), here, library=library)
    except RefusedError:  # reported with all other problems when the rows are composed
        return None
    return known_study(settings.study_folder)


@dataclass(frozen=True)
class _Continued:
    """One command on a recorded study: one comparison of the record with what is composed now, by
    flat settings.

    ``known`` has the recorded name of each row whose file was renamed.
    """

    argv: list[str]
    verb: str
    record: StudyRecord
    composition: Composition
    known: Mapping[str, str]

    @property
    def typed(self) -> Overrides:
        return self.composition.typed

    @property
    def schema(self) -> Schema:
        return Schema.of(self.record.source.task)

    def plan(self, add: bool) -> Plan:
        asked = self._asked(add)
        new = [pair for pair in asked if pair not in self.record.pairs]
        problems = self._contradictions()
        if new and not add:
            problems.append(self._not_recorded(new))
        if problems:
            raise RefusedError(dict.fromkeys(problems))
        whole = plan_trials(self.composition, [*self.record.pairs, *new], self.record.study)
        chosen = {f"{row}-s{seed}": None for row, seed in asked}
        others = [
            planned.trial.name
            for planned in whole.trials
            if planned.scored_otherwise and planned.trial.name not in chosen
        ]
        asked_trials = [planned for planned in whole.trials if planned.trial.name in chosen]
        untrained = [
            planned.host.trial.name
            for planned in asked_trials
            if planned.host and not planned.host.has_weights
        ]
        if self.verb == "train":
            self._refuse_scoring_others(others)
            self._refuse_without_weights(untrained)
        else:
            chosen |= dict.fromkeys([*others, *untrained])
        trials = tuple(trial for trial in whole.trials if trial.trial.name in chosen)
        added = tuple(f"{row}-s{seed}" for row, seed in new)
        return replace(whole, trials=trials, before=self.record.study, added=added)

    def _asked(self, add: bool) -> list[RowSeed]:
        """The requested trials. With --add, or if rows and seeds are both named: every row with
        every seed of its kind.

        Otherwise the recorded ones, and those of new rows or seeds.
        """
        shared = self.composition.shared
        if self.verb == "train":
            row = self.typed.choices.get("row", BASE)
            return [(self.known.get(row, row), single_seed(shared))]
        rows = None
        if self.typed.names_rows(self.schema.seed):
            rows = list(dict.fromkeys(self.known.get(row, row) for row in shared.sweep.rows))
        seeds = self._seeds(shared.sweep)
        recorded = self.record.pairs
        known_rows = list(self.record.rows)
        of_base, of_others = (
            [seed for row, seed in recorded if (row == BASE) is kind] for kind in (True, False)
        )
        known = {
            kind: list(dict.fromkeys(own or of_base))
            for kind, own in ((True, of_base), (False, of_others))
        }
        every = add or (rows is not None and bool(seeds))
        return [
            (row, seed)
            for row in rows or known_rows
            for seed in seeds.get(row == BASE) or known[row == BASE]
            if every
            or (row, seed) in recorded
            or row not in known_rows
            or seed not in known[row == BASE]
        ]

    def _seeds(self, sweep: Sweep) -> dict[bool, list[int]]:
        """The typed seeds: of base (True), and of the other rows (False)."""
        if not self.typed.names_seeds(self.schema.seed):
            return {}
        only_base = (
            "sweep.base_seeds" in self.typed.values and "sweep.seeds" not in self.typed.values
        )
        return {True: sweep.base_seeds or sweep.seeds} | ({} if only_base else {False: sweep.seeds})

    def _contradictions(self) -> list[Problem]:
        """Differences between the composition and the record, caused by overrides or by files
        edited since."""
        study = self.record.study
        name = self.record.source.name
        problems = [*self._other_margin(), *self._other_pairing()]
        if (task := self.typed.values.get(TASK_KEY, name)) != name:
            found = f'is "{task}", but {study.name} is recorded with task={name}'
            problems.append(self._typed_otherwise(TASK_KEY, found))
        if not study.begun:
            return problems
        base = values_of(self.composition.base)
        problems += self._compared("", self.record.settings, base, BASE)
        for row in (
            self.composition.rows if not problems else ()
        ):  # else every row would differ for the same reason
            if row.name in self.record.rows:
                expected = base | self.record.rows[row.name].values
                problems += self._compared(
                    f" in row {row.name}", expected, values_of(row.settings), row.name
                )
        return problems

    def _other_margin(self) -> Iterator[Problem]:
        """δ is stated before results can be seen."""
        study = self.record.study
        margin = self.composition.shared.sweep.margin
        if margin and margin != study.margins and (study.begun or study.margins):
            recorded = f"recorded with {study.margins}" if study.margins else "begun without one"
            yield self._typed_otherwise(
                "sweep.margin", f"is {margin}, but {study.name} is {recorded}"
            )

    def _other_pairing(self) -> Iterator[Problem]:
        """How differences are tested is declared before results can be seen."""
        study = self.record.study
        paired = self.composition.shared.sweep.paired
        is_stated = paired or "sweep.paired" in self.typed.values
        if is_stated and paired != study.paired and study.showed_results:
            recorded = "is recorded as paired" if study.paired else "was begun without it"
            fault = f"is {str(paired).lower()}, but {study.name} {recorded} and has results"
            yield self._typed_otherwise("sweep.paired", fault)

    def _compared(self, where: str, recorded: Values, now: Values, row: str) -> list[Problem]:
        """A problem for each typed option that differs, and for each other key that differs."""
        study = self.record.study.name
        found = dict[str, Problem]()
        typed = self.typed
        keys = [
            key
            for key in recorded
            if key in now and recorded[key] != now[key] and self._is_held(key)
        ]
        scales = [
            key for key in keys if key.startswith("scale.")
        ]  # another scale explains all differences
        for key in scales or keys:
            group = key.partition(".")[0]
            option = typed.choices.get(group)
            before = {**self.composition.defaults, **self.record.options}.get(group)
            words = f"is {now[key]}{where}, but {study} is recorded with {recorded[key]}"
            if key in typed.values:
                found[key] = self._typed_otherwise(key, words)
            elif option not in (None, before):
                words = f'is "{option}", but {study} is recorded with {group}={before}'
                found[group] = self._typed_otherwise(group, words)
            else:
                place = self.composition.place(key, row)
                found[key] = Problem(
                    key, words, "restore the file, or choose another sweep.name", None, place
                )
        return list(found.values())

    def _typed_otherwise(self, key: str, found: str) -> Problem:
        return Problem(key, found, other_study(self.record.study.folder), None, COMMAND_LINE)

    def _is_held(self, key: str) -> bool:
        """Whether a study keeps the key: all that decides weights, and what only scores unless it
        was typed."""
        typed = key.partition(".")[0] in self.typed.choices or key in self.typed.values
        return decides_weights(self.schema, key) or (key in self.schema.scores and not typed)

    def _not_recorded(self, new: list[RowSeed]) -> Problem:
        """Lists the new trials and the recorded ones, with the command that adds the new."""
        rows = list(self.record.rows)
        seeds = list(dict.fromkeys(seed for _, seed in self.record.pairs))
        new_rows = list(dict.fromkeys(row for row, _ in new if row not in rows))
        new_seeds = list(dict.fromkeys(seed for _, seed in new if seed not in seeds))
        parts = [
            _listed(noun, names)
            for noun, names in (("row", new_rows), ("seed", new_seeds))
            if names
        ]
        names = " and ".join(parts) or ", ".join(f"{row}-s{seed}" for row, seed in new)
        found = f"names {names}, not yet in {self.record.study.name}"
        recorded = f"which has {_listed('row', rows)} with {_listed('seed', seeds)}"
        keys = (
            ("row", self.schema.seed or "sweep.seeds")
            if self.verb == "train"
            else ("sweep.rows", "sweep.seeds")
        )
        key = keys[0] if new_rows or not new_seeds else keys[1]
        add = command(self.verb, *self.argv, "--add")
        return Problem(key, f"{found}, {recorded}", f"to add: {add}", None, COMMAND_LINE)

    def _refuse_scoring_others(self, others: list[str]) -> None:
        """Refuse decode settings for one trial: its table would mix scores of different
        settings."""
        groups = {key.partition(".")[0] for key in self.schema.scores}
        keys = [
            *(key for key in self.typed.values if key in self.schema.scores),
            *(groups & self.typed.choices.keys()),
        ]
        if others and keys:
            found = f"would leave {', '.join(others)} scored with different settings"
            allowed = "use it with `allelse sweep` to score all trials again"
            raise RefusedError([Problem(key, found, allowed) for key in keys])

    def _refuse_without_weights(self, untrained: list[str]) -> None:
        """Refuse to score, in this one process, weights that are not trained yet."""
        for host in untrained:
            row, _, seed = host.rpartition("-s")
            first = command(
                self.verb,
                *naming(self.argv),
                f"row={row}",
                f"{self.schema.seed or 'sweep.seeds'}={seed}",
            )
            found = f"only scores the weights of {host}, which is not finished"
            raise RefusedError([Problem("row", found, f"type `{first}` first", None, COMMAND_LINE)])


def _listed(noun: str, values: Sequence[object]) -> str:
    """For example "seeds 1, 3"."""
    return f"{plural(noun, len(values))} {', '.join(map(str, values))}"
