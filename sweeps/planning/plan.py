"""What will run: every trial of a study with its key, its cost and whether it is finished. Starts
nothing."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sweeps.config.files import BASE
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.planning.composition import (
    Composition,
    cells,
    recording,
    shown_change,
    size_notes,
    values_of,
)
from sweeps.planning.hosts import Hosts, Weights
from sweeps.planning.naming import known_study
from sweeps.planning.source_trial import Source
from sweeps.schema import Problem, RefusedError, damaged, dotted
from sweeps.task import Costs, Task
from sweeps.worker.prepared import data_place, identity
from tracking.activity.runners import in_hand
from tracking.code import Code
from tracking.files import DamagedFileError, unless_damaged
from tracking.shell import shell_line
from tracking.study import Study, StudyTrial, trial_folder
from tracking.trial import TrialFolder, TrialState
from tracking.uri import shown_words, without_passwords
from tracking.weights import are_current


@dataclass(frozen=True)
class PlannedTrial:
    """One row with one seed. Its costs are computed, before training."""

    trial: StudyTrial
    settings: Settings
    fingerprint: str
    costs: Costs
    code: str = ""  # the hash of the user's code with which it will be trained; "" for our own task
    host: "PlannedTrial | None" = None  # whose weights it only scores; None if it trains its own
    kept_steps: tuple[
        int, ...
    ] = ()  # the checkpoints that stay for its scoring, and for rows that score its weights

    @property
    def task(self) -> Task[Any]:
        return self.settings.source.task

    @property
    def config(self) -> Any:
        """The task's configuration."""
        return self.settings.trial

    @property
    def steps(self) -> int:
        return self.task.steps(self.config)

    @property
    def effort(self) -> float:
        """What the trial takes, relative to the others of its study: its FLOPs, or its steps if
        these are unknown."""
        return 0.0 if self.host else self.costs.flops or float(self.steps)

    @property
    def scoring(self) -> dict[str, Any]:
        """The settings that only score, by name."""
        return Schema.of(self.task).scoring(self.config)

    @property
    def prepared_folder(self) -> Path:
        return data_place(self.task, Path(self.settings.paths.data), self.fingerprint, self.code)

    def prepared_as(self) -> str:
        """The identity of the prepared data."""
        return identity(self.task, Path(self.settings.paths.data), self.fingerprint, self.code)

    @cached_property
    def folder(self) -> TrialFolder:
        return trial_folder(self.settings.study_folder, self.trial.name, task_card(self.task))

    @property
    def checkpoints(self) -> str:
        """The fsspec URL under which the trial's attempts keep their checkpoints."""
        return self.folder.checkpoints_url(self.settings.paths.checkpoints)

    @property
    def state(self) -> TrialState:
        return self.folder.state(self.trial.key)

    @property
    def finished(self) -> bool:
        """Trained, and scored with these decode settings."""
        return self.is_scored(self.result)

    def is_scored(self, result: dict[str, Any] | None) -> bool:
        """Whether this is a result with these decode settings."""
        if result is None:
            return False
        if self.host is not None and not are_current(result, self.host.result):
            return False  # they were trained anew since
        scoring = self.scoring
        return all(scores["decode"] == scoring for scores in result["scores"].values())

    @property
    def has_weights(self) -> bool:
        """Whether training is over, so that rows can score its weights."""
        return self.result is not None

    @property
    def result(self) -> dict[str, Any] | None:
        """That of a finished training, with whatever settings it was scored; None before."""
        return self.folder.finished_result(self.trial.key)

    @property
    def can_run(self) -> bool:
        """Whether it is not finished, and the weights that it is to score did not diverge."""
        diverged = self.host and (self.host.folder.finished_result(self.host.trial.key) or {}).get(
            "diverged"
        )
        return not self.finished and diverged is None

    @property
    def scored_otherwise(self) -> bool:
        """Whether it is finished, with other settings for scoring."""
        if self.host is None:
            result = self.folder.finished_result(self.trial.key)
        else:
            result = unless_damaged(self.folder.result, None)  # its key holds the settings
        return result is not None and not (
            result["key"] == self.trial.key and self.is_scored(result)
        )


@dataclass(frozen=True)
class Plan:
    """The requested trials of a study. ``before`` is the study as recorded, ``added`` names the new
    trials.

    ``code`` is the user's, as the trials import it; None for our own task. ``codes`` are the hashes
    of all that the study has been trained with, then. ``origin`` is what provenance has of all
    attempts of one sweep.

    ``sources`` are by name the finished trials of other studies that are taken, ``not_taken`` lines
    on others, and ``vouched`` the comparisons of versions of the code that this rests on, besides
    those that are recorded."""

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
    def task(self) -> Task[Any]:
        return self.composition.shared.source.task

    @property
    def folder(self) -> Path:
        return self.composition.shared.study_folder

    @property
    def partial(self) -> bool:
        """Whether the study has recorded trials that were not requested."""
        asked = {planned.trial.name for planned in self.trials}
        return self.before is not None and any(
            trial.name not in asked for trial in self.before.trials
        )

    @cached_property
    def sizes(self) -> dict[str, str]:
        """Words on rows whose model is of another size than base's, although they do not change
        sizes."""
        costs = {row.name: self.task.costs(row.settings.trial) for row in self.composition.rows}
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
            turns[planned.trial.name] = rows[planned.trial.row]
            rows[planned.trial.row] += 1
        pending = [
            planned
            for planned in self.trials
            if planned.can_run and not self._is_scored_source(planned)
        ]
        return sorted(pending, key=lambda planned: (turns[planned.trial.name], -planned.effort))

    @property
    def to_take(self) -> list[PlannedTrial]:
        """The trials that are taken from other studies, of which some are scored anew."""
        return [planned for planned in self.trials if planned.trial.name in self.sources]

    def _is_scored_source(self, planned: PlannedTrial) -> bool:
        source = self.sources.get(planned.trial.name)
        return source is not None and source.is_scored

    @cached_property
    def running(self) -> list[PlannedTrial]:
        """Unfinished trials that a process runs or keeps for its further work, on any machine."""
        folders = {each.trial.name: each.folder for each in self.pending}
        taken = in_hand(self.folder, folders, lambda name: folders[name].newest_attempt())
        return [each for each in self.pending if each.trial.name in taken]

    def read_again(self) -> "Plan":
        """The same plan; other processes may have finished trials since it was made."""
        return replace(self)


def make_plan(
    composition: Composition, seeds: list[int], base_seeds: list[int] | None = None
) -> Plan:
    """Each row with each seed, and base with its own, if there are any.

    Raises RefusedError if two trials are the same, or a folder holds another trial."""
    return plan_trials(
        composition,
        [
            (row.name, seed)
            for row in composition.rows
            for seed in (row.name == BASE and base_seeds) or seeds
        ],
    )


def plan_trials(
    composition: Composition, pairs: list[tuple[str, int]], before: Study | None = None
) -> Plan:
    """These rows with these seeds. ``before`` is the study as recorded. Raises RefusedError as
    ``make_plan``."""
    trained = tuple(_trials(composition, pairs))
    hosts = _hosts(composition, trained, before)
    trials = _with_hosts(trained, hosts.of_scoring_trials())
    if problems := [*hosts.problems(), *_taken_folders(trials)]:
        raise RefusedError(dict.fromkeys(problems))
    return Plan(composition, trials)


def _hosts(composition: Composition, trials: Sequence[PlannedTrial], before: Study | None) -> Hosts:
    """Whose weights each trial scores. Base may be left out of the study."""
    task = composition.base.source.task
    base = composition.base.trial
    make_key = partial(Schema.of(task).trial_key, base, fingerprint=task.fingerprint(base))
    scoring = Schema.of(task).scoring(base)
    seeds = dict.fromkeys(planned.trial.seed for planned in trials)
    of_base = [Weights(BASE, seed, make_key(seed=seed), scoring) for seed in seeds]
    weights = [
        Weights(planned.trial.row, planned.trial.seed, planned.trial.key, planned.scoring)
        for planned in trials
    ]
    recorded = [trial.name for trial in before.trials if not trial.weights] if before else []
    return Hosts(composition, weights, of_base, recorded)


def _with_hosts(
    trials: Sequence[PlannedTrial], host_names: Mapping[str, str]
) -> tuple[PlannedTrial, ...]:
    """The trials, of which those in ``host_names`` only score the weights of the named one."""
    steps: dict[str, set[int]] = {}
    for planned in trials:
        trained_by = host_names.get(planned.trial.name, planned.trial.name)
        steps.setdefault(trained_by, set()).update(planned.task.keep(planned.config).steps)
    by_name = {
        planned.trial.name: replace(
            planned, kept_steps=tuple(sorted(steps.get(planned.trial.name, ())))
        )
        for planned in trials
    }
    hosts = {name: by_name.get(host) for name, host in host_names.items()}
    return tuple(_scoring_trial(planned, hosts.get(name)) for name, planned in by_name.items())


def _scoring_trial(planned: PlannedTrial, host: PlannedTrial | None) -> PlannedTrial:
    """The trial as one that scores the weights of ``host``, if there is one. It costs nothing to
    train."""
    if host is None:
        return planned
    key = Schema.of(planned.task).scoring_key(host.trial.key, planned.config)
    trial = replace(planned.trial, key=key, weights=host.trial.name)
    costs = Costs(params=planned.costs.params, flops=0.0, checkpoint_bytes=0.0)
    return replace(planned, trial=trial, host=host, costs=costs, kept_steps=())


def _trials(composition: Composition, pairs: list[tuple[str, int]]) -> Iterator[PlannedTrial]:
    rows = {row.name: row for row in composition.rows}
    task = composition.shared.source.task
    schema = Schema.of(task)
    fingerprints = dict[str, str]()
    changes = {row.name: shown_change(row, composition.base) for row in composition.rows}
    for name, seed in pairs:
        row = rows[name]
        settings = replace(row.settings, trial=schema.seeded(row.settings.trial, seed))
        declared = repr(schema.declared_data(row.settings.trial))  # a row may have other data
        if declared not in fingerprints:
            fingerprints[declared] = task.fingerprint(row.settings.trial)
        fingerprint = fingerprints[declared]
        key = schema.trial_key(settings.trial, seed, fingerprint)
        trial = StudyTrial(
            name, settings.row.group, changes[name], seed, key, settings.row.published
        )
        yield PlannedTrial(trial, settings, fingerprint, task.costs(settings.trial))


def configurations(trials: Iterable[PlannedTrial]) -> list[Any]:
    """Those of the trials, each once whatever its seed."""
    return list(
        {repr(Schema.of(each.task).seeded(each.config, 1)): each.config for each in trials}.values()
    )


def _taken_folders(trials: tuple[PlannedTrial, ...]) -> Iterator[Problem]:
    for planned in trials:
        folder = planned.folder
        if unless_damaged(folder.key, None) == planned.trial.key:
            continue
        try:
            stored = folder.config()
        except DamagedFileError as error:
            if not is_recorded(planned):
                yield replace(
                    damaged(error),
                    allowed="no other file identifies the trial; move the folder away",
                )
            continue
        if (
            stored is not None
            and stored["key"] != planned.trial.key
            and not _scores_same_weights(stored, planned)
        ):
            yield _taken(stored, planned)


def _scores_same_weights(stored: dict[str, Any], planned: PlannedTrial) -> bool:
    """Whether both only score the weights of one trial: other settings score these again."""
    return planned.host is not None and stored.get("weights_key") == planned.host.trial.key


def _taken(stored: dict[str, Any], planned: PlannedTrial) -> Problem:
    """Why the folder's trial is not the planned one."""
    name = planned.trial.name
    place = str(planned.folder.path)
    if version := _older_version(stored, planned):
        found = (
            f"names a study whose {name} was trained with version {version} of {planned.task.name}"
        )
        found += (
            f"; version {planned.task.version} trains to different weights with the same settings"
        )
        allowed = "finish it with the commit in its provenance.json, or choose another sweep.name"
        return Problem("sweep.name", found, allowed, None, place)
    differing = _differing_keys(stored, planned) or ["the text of its data"]
    found = f"names a study whose {name} has other settings: {'; '.join(differing)}"
    return Problem(
        "sweep.name", found, "choose another sweep.name, or remove that folder", None, place
    )


def _differing_keys(stored: dict[str, Any], planned: PlannedTrial) -> list[str]:
    """The keys in which the folder's trial differs from the plan, such as "train.steps 600, now
    700"."""
    schema = Schema.of(planned.task)
    recorded = {group: stored[group] for group in schema.groups if group in stored}
    before = schema.neutral | dotted(recorded)
    now = schema.values(planned.config)
    return [
        f"{key} {before.get(key)}, now {value}"
        for key, value in now.items()
        if before.get(key) != value and schema.decides_weights(key)
    ]


def _older_version(stored: dict[str, Any], planned: PlannedTrial) -> int | None:
    """The version of the task with which the folder's trial was trained, if only that differs."""
    make = partial(
        Schema.of(planned.task).trial_key, planned.config, planned.trial.seed, planned.fingerprint
    )
    return next(
        (
            version
            for version in range(planned.task.version - 1, 0, -1)
            if make(version) == stored["key"]
        ),
        None,
    )


def is_recorded(planned: PlannedTrial) -> bool:
    """Whether the study's or the trial's record confirms that the folder holds this trial, or no
    folder exists."""
    if not planned.folder.path.is_dir() or planned.folder.finished_result(planned.trial.key):
        return True
    study = known_study(planned.folder.path.parent)
    return study is not None and planned.trial.key in {trial.key for trial in study.trials}


def config_dict(planned: PlannedTrial) -> dict[str, Any]:
    """The resolved configuration for the trial's folder, without passwords: others may read it."""
    settings = without_passwords(planned.settings.to_dict())
    head = {
        "key": planned.trial.key,
        "data_fingerprint": planned.fingerprint,
        "task": planned.settings.source.name,
    }
    if planned.host is not None:
        head |= {"weights": planned.trial.weights, "weights_key": planned.host.trial.key}
    return {**head, **settings}


def recorded(plan: Plan, command: list[str]) -> Study:
    """The study on disk with this plan's trials added, in the order of the table.

    Raises RefusedError if another process has changed the study's settings since the plan was made.
    """
    before = known_study(plan.folder) or Study(plan.folder, (), {}, (), task=task_card(plan.task))
    _refuse_changed_settings(plan, before)
    now = {planned.trial.name: planned.trial for planned in plan.trials}
    known = {trial.name for trial in before.trials}
    asked = {
        "ts": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shell_line(shown_words(command)),
        "added": [name for name in now if name not in known],
        "saw_results": before.has_results,
    }
    merged = {trial.name: trial for trial in before.trials} | now
    ordered = tuple(sorted(merged.values(), key=_table_order(plan, before)))
    rows = plan.composition.rows
    changed = {key for row in rows for key in row.changes}
    return replace(
        recording(plan.composition, before, ordered, plan.sizes),
        trials=ordered,
        cells={
            **before.cells,
            **{row.name: cells(row, plan.composition.base, changed) for row in rows},
        },
        asked=(*before.asked, asked),
        margins=before.margins or plan.composition.shared.sweep.margin,
        paired=recorded_pairing(plan.composition, before),
        identity=before.identity or uuid.uuid4().hex,
        code=plan.codes,
        vouched=(
            *before.vouched,
            *(voucher for voucher in plan.vouched if voucher not in before.vouched),
        ),
    )


def recorded_pairing(composition: Composition, before: Study) -> bool:
    """Whether differences are tested at common seeds: as stated now, or else as recorded."""
    stated = composition.shared.sweep.paired
    if "sweep.paired" in composition.typed.values:
        return stated
    return before.paired or stated


def _refuse_changed_settings(plan: Plan, before: Study) -> None:
    known = plan.before
    now = values_of(plan.composition.base)
    differing = [
        key for key, value in dotted(before.settings).items() if now.get(key, value) != value
    ]
    if known is not None and known.settings == before.settings:
        differing = []
    if before.code not in (known.code if known else (), plan.codes):
        differing.append("the task's code")
    if differing:
        found = (
            f"is {plan.folder.name}, in which another process has changed {', '.join(differing)}"
        )
        raise RefusedError(
            [Problem("sweep.name", found, "run the command again, or choose another sweep.name")]
        )


def _table_order(plan: Plan, before: Study) -> Any:
    """By section; rows as the sweep's file lists them or as first requested; then seeds."""
    trials = [*before.trials, *(planned.trial for planned in plan.trials)]
    groups = {trial.row: trial.group for trial in reversed(trials)}  # as first requested
    row_place = _places([*plan.composition.listed, *(trial.row for trial in trials)])
    recorded_groups = [trial.group for trial in trials]  # a row may have had another one
    section_place = _places([*_sections(plan.composition, groups), *recorded_groups])
    return lambda trial: (section_place[trial.group], row_place[trial.row], trial.seed)


def _sections(composition: Composition, groups: Mapping[str, str]) -> list[str]:
    """Base, then sections as the sweep's file lists their rows, or by name if it names no rows.

    ``groups``: the section of each row.
    """
    listed = [groups[row] for row in composition.listed if row in groups]
    if composition.lists_all:
        listed = sorted(listed)
    return [composition.base.row.group, *listed]


def _places(names: Iterable[str]) -> dict[str, int]:
    """The place of each name in the order of its first mention."""
    return {name: place for place, name in enumerate(dict.fromkeys(names))}
