"""What will run: every trial of a study with its key, its cost and whether it is finished. Starts
nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.settings import Settings
from sweeps.planning.folder_faults import folder_faults
from sweeps.planning.hosts import Hosts, Weights
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.source_trial import Source
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.planning.study_rows.row_words import shown_change, size_notes
from sweeps.problems import refuse
from sweeps.task import Costs, Task
from tracking.activity.runners import in_hand
from tracking.code import Code
from tracking.study import Study, StudyTrial


@dataclass(frozen=True)
class Plan:
    """The requested trials of a study. ``before`` is the study as recorded, ``added`` names the new
    trials.

    ``code`` is the user's, as the trials import it; None for our own task. ``codes`` are the hashes
    of all code that the study will have been trained with. ``origin`` is what provenance has of all
    attempts of one sweep.

    ``sources`` are by name the finished trials of other studies that the plan takes, ``not_taken``
    lines on those that it must not take. ``vouched`` are the comparisons of versions of the code
    that this rests on, besides the recorded ones.
    """

    composition: Composition
    trials: tuple[PlannedTrial, ...]
    before: Study | None = None
    added: tuple[str, ...] = ()
    code: Code | None = None
    codes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    not_taken: tuple[str, ...] = ()
    vouched: tuple[dict[str, Any], ...] = ()

    @property
    def shared(self) -> Settings:
        """Settings that no row may change."""
        return self.composition.shared

    @property
    def task(self) -> Task[Any]:
        return self.shared.task

    @property
    def folder(self) -> Path:
        return self.shared.study_folder

    @property
    def partial(self) -> bool:
        """Whether the study has recorded trials that were not requested."""
        requested = {planned.name for planned in self.trials}
        recorded = self.before.trials if self.before else ()
        return any(trial.name not in requested for trial in recorded)

    @cached_property
    def sizes(self) -> dict[str, str]:
        """Notes on rows whose model differs from base's in size, although they do not change
        sizes."""
        costs = {row.name: self.task.costs(row.settings.config) for row in self.composition.rows}
        return size_notes(self.composition, costs)

    @cached_property
    def pending(self) -> list[PlannedTrial]:
        """Unfinished trials in the order of work, without those that are only taken. Reads every
        result once.

        One seed of every row comes first, so that a first table appears early; within a seed the
        longest trial.
        """
        rows = Counter[str]()
        turns = dict[str, int]()
        for planned in self.trials:
            turns[planned.name] = rows[planned.trial.row]
            rows[planned.trial.row] += 1
        pending = [
            planned
            for planned in self.trials
            if planned.can_run and not self._is_scored_source(planned)
        ]
        return sorted(pending, key=lambda planned: (turns[planned.name], -planned.effort))

    @property
    def to_take(self) -> list[PlannedTrial]:
        """The trials that are taken from other studies. Some are scored again."""
        return [planned for planned in self.trials if planned.name in self.sources]

    def _is_scored_source(self, planned: PlannedTrial) -> bool:
        source = self.sources.get(planned.name)
        return source is not None and source.is_scored

    @cached_property
    def running(self) -> list[PlannedTrial]:
        """Unfinished trials that a process runs or keeps for its further work, on any machine."""
        folders = {planned.name: planned.folder for planned in self.pending}
        names = in_hand(self.folder, folders, lambda name: folders[name].newest_attempt())
        return [planned for planned in self.pending if planned.name in names]

    @property
    def references(self) -> dict[str, str]:
        """The reference of each row that is not compared with base, as recorded or stated."""
        rows = {row.name for row in self.composition.rows}
        references = dict(self.shared.sweep.references)
        if self.before:
            references = self.before.references | references
        return {row: reference for row, reference in references.items() if row in rows}

    def read_again(self) -> "Plan":
        """The same plan; other processes may have finished trials since it was made."""
        return replace(self)


def make_plan(
    composition: Composition, seeds: list[int], base_seeds: list[int] | None = None
) -> Plan:
    """Each row with each seed; base and other references with their own, if there are any.

    Raises RefusedError if two trials are the same, or a folder holds another trial."""
    pairs = []
    references = composition.shared.sweep.rows_with_base_seeds
    for row in composition.rows:
        row_seeds = base_seeds if row.name in references and base_seeds else seeds
        pairs += [(row.name, seed) for seed in row_seeds]
    return plan_trials(composition, pairs)


def plan_trials(
    composition: Composition, pairs: list[tuple[str, int]], before: Study | None = None
) -> Plan:
    """These rows with these seeds. ``before`` is the study as recorded. Raises RefusedError as
    ``make_plan``."""
    trained = tuple(_trained_trials(composition, pairs))
    hosts = _hosts(composition, trained, before)
    trials = _with_hosts(trained, hosts.of_scoring_trials())
    problems = [*hosts.problems(), *folder_faults(trials)]
    refuse(problems)
    return Plan(composition, trials)


def _trained_trials(
    composition: Composition, pairs: list[tuple[str, int]]
) -> Iterator[PlannedTrial]:
    """The trials as if each trained its own weights."""
    rows = {row.name: row for row in composition.rows}
    changes = {row.name: shown_change(row, composition.base) for row in composition.rows}
    names = dict.fromkeys(name for name, _ in pairs)
    fingerprints = _fingerprints(composition, [rows[name] for name in names])
    schema = composition.schema
    for name, seed in pairs:
        row = rows[name]
        settings = replace(row.settings, config=schema.seeded(row.settings.config, seed))
        fingerprint = fingerprints[name]
        key = schema.trial_key(settings.config, seed, fingerprint)
        group = settings.row.group
        trial = StudyTrial(name, group, changes[name], seed, key, settings.row.published)
        yield PlannedTrial(trial, settings, fingerprint, schema.task.costs(settings.config))


def _fingerprints(composition: Composition, rows: Sequence[ComposedRow]) -> dict[str, str]:
    """The fingerprint of each row's data, which is computed once for rows with the same data."""
    schema = composition.schema
    by_data = dict[str, str]()
    by_row = dict[str, str]()
    for row in rows:
        config = row.settings.config
        data = repr(schema.declared_data(config))
        if data not in by_data:
            by_data[data] = schema.task.fingerprint(config)
        by_row[row.name] = by_data[data]
    return by_row


def _hosts(composition: Composition, trials: Sequence[PlannedTrial], before: Study | None) -> Hosts:
    """Whose weights each trial scores. Base may be left out of the study."""
    schema = composition.schema
    base = composition.base.config
    fingerprint = schema.task.fingerprint(base)
    scoring = schema.scoring(base)
    seeds = dict.fromkeys(planned.trial.seed for planned in trials)
    base_weights = [
        Weights(BASE, seed, schema.trial_key(base, seed, fingerprint), scoring) for seed in seeds
    ]
    weights = [
        Weights(planned.trial.row, planned.trial.seed, planned.trial.key, planned.scoring)
        for planned in trials
    ]
    recorded = [trial.name for trial in before.trials if not trial.weights] if before else []
    return Hosts(composition, weights, base_weights, recorded)


def _with_hosts(
    trials: Sequence[PlannedTrial], host_names: Mapping[str, str]
) -> tuple[PlannedTrial, ...]:
    """The trials, of which those in ``host_names`` only score the weights of the named one."""
    steps_of_weights: dict[str, set[int]] = {}
    for planned in trials:
        name = host_names.get(planned.name, planned.name)
        steps = planned.task.keep(planned.config).steps
        steps_of_weights.setdefault(name, set()).update(steps)
    by_name: dict[str, PlannedTrial] = {}
    for planned in trials:
        steps = sorted(steps_of_weights.get(planned.name, ()))
        by_name[planned.name] = replace(planned, kept_steps=tuple(steps))
    completed = []
    for name, planned in by_name.items():
        host = by_name.get(host_names.get(name, ""))
        completed.append(_scoring_trial(planned, host) if host else planned)
    return tuple(completed)


def _scoring_trial(planned: PlannedTrial, host: PlannedTrial) -> PlannedTrial:
    """The trial as one that scores the weights of ``host``. It costs nothing to train."""
    key = planned.schema.scoring_key(host.trial.key, planned.config)
    trial = replace(planned.trial, key=key, weights=host.name)
    costs = Costs(params=planned.costs.params, flops=0.0, checkpoint_bytes=0.0)
    return replace(planned, trial=trial, host=host, costs=costs, kept_steps=())
