"""What will run: every trial of a study with its key, its cost and whether it is finished. Starts nothing."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.planning.changes import cells, shown_change
from sweeps.planning.compose import Composition
from sweeps.planning.like_base import is_like_base, like_base_problem
from sweeps.planning.recorded import NEUTRAL, decides_weights, dotted, values_of
from sweeps.planning.recording import recording
from sweeps.planning.settings import Settings
from sweeps.planning.stored_study import damaged, known_study
from tracking.damage import DamagedFileError
from tracking.study import Study, Trial
from tracking.trial_folder import TrialFolder, TrialState
from tracking.uri import without_password, without_passwords
from transformer.config import SEMANTICS, trial_key
from transformer.cost import parameters, planned_lengths, training_flops
from transformer.data.fingerprint import fingerprint
from transformer.schema import Problem, RefusedError
from transformer.versions import current_names, settled

GROUPS = ("base", "A", "B", "C", "D", "E", "big")


@dataclass(frozen=True)
class PlannedTrial:
    """One row with one seed. ``params`` and ``flops`` are computed, the latter from the corpus's mean lengths."""

    trial: Trial
    settings: Settings
    fingerprint: str
    params: int
    flops: float

    @property
    def folder(self) -> TrialFolder:
        return TrialFolder(self.settings.study_folder / self.trial.name)

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
        result = self.folder.finished_result(self.trial.key)
        decode = settled(self.settings.decode)
        return result is not None and all(scores["decode"] == decode for scores in result["scores"].values())


@dataclass(frozen=True)
class Plan:
    """The requested trials of a study. ``before`` is the study as recorded, ``added`` names the new trials."""

    composition: Composition
    trials: tuple[PlannedTrial, ...]
    before: Study | None = None
    added: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.composition.shared.study_folder

    @property
    def partial(self) -> bool:
        """Whether the study has recorded trials that were not requested."""
        asked = {planned.trial.name for planned in self.trials}
        return self.before is not None and any(trial.name not in asked for trial in self.before.trials)

    @cached_property
    def pending(self) -> list[PlannedTrial]:
        """Unfinished trials, longest first, so that no long trial runs alone at the end. Reads every result once."""
        return sorted((t for t in self.trials if not t.finished), key=lambda t: -t.flops)

    def read_again(self) -> "Plan":
        """The same plan; other processes may have finished trials since it was made."""
        return replace(self)


def make_plan(composition: Composition, seeds: list[int]) -> Plan:
    """Each row with each seed. Raises RefusedError if two trials are the same, or a folder holds another trial."""
    return plan_trials(composition, [(row.name, seed) for row in composition.rows for seed in seeds])


def plan_trials(composition: Composition, pairs: list[tuple[str, int]], recorded_rows: Iterable[str] = ()) -> Plan:
    """These rows with these seeds. Raises RefusedError as ``make_plan``."""
    trials, known = tuple(_trials(composition, pairs)), set(recorded_rows)
    like_base = [row for row in composition.rows if row.name not in known and is_like_base(row, composition.base)]
    others = tuple(planned for planned in trials if planned.trial.row not in {row.name for row in like_base})
    problems = [*map(like_base_problem, like_base), *_same_twice(others), *_taken_folders(trials)]
    if problems:
        raise RefusedError(problems)
    return Plan(composition, trials)


def _trials(composition: Composition, pairs: list[tuple[str, int]]) -> Iterator[PlannedTrial]:
    shared, rows = composition.shared, {row.name: row for row in composition.rows}
    data_fingerprint = fingerprint(shared.data)
    for name, seed in pairs:
        row = rows[name]
        settings = replace(row.settings, train=replace(row.settings.train, seed=seed))
        # a row may have other data
        own = data_fingerprint if settings.data == shared.data else fingerprint(settings.data)
        published = {"ppl": None, "bleu": None, "params_m": None} | vars(settings.row.published)
        key, change = trial_key(settings.trial, own), shown_change(row, composition.base)
        trial = Trial(name, settings.row.group, change, seed, key, published)
        params = parameters(settings.model, settings.data.vocab_size)
        yield PlannedTrial(trial, settings, own, params, planned_flops(settings))


def planned_flops(settings: Settings) -> float:
    """Training FLOPs if every batch were full and every sentence of the corpus's declared mean length."""
    from transformer.data.corpora import corpus

    means = corpus(settings.data).mean_lengths
    lengths = planned_lengths(settings.train.tokens_per_batch, settings.train.steps, *means)
    return training_flops(settings.model, settings.data.vocab_size, lengths)


def _same_twice(trials: tuple[PlannedTrial, ...]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for planned in trials:
        twin = first.setdefault(planned.trial.key, planned.trial.row)
        if twin != planned.trial.row:
            found = f"lists {planned.trial.row} and {twin}, which would train the same model"
            yield Problem("sweep.rows", found, "each row must differ from the others after scaling and overrides")


def _taken_folders(trials: tuple[PlannedTrial, ...]) -> Iterator[Problem]:
    for planned in trials:
        folder = planned.folder
        try:
            stored = folder.trained_config()
        except DamagedFileError as error:
            if not is_recorded(planned):
                yield replace(damaged(error), allowed="no other file identifies the trial; move the folder away")
            continue
        if stored is not None and stored["key"] != planned.trial.key:
            yield _taken(stored, planned)


def _taken(stored: dict[str, Any], planned: PlannedTrial) -> Problem:
    """Why the folder's trial is not the planned one."""
    name, place = planned.trial.name, str(planned.folder.path)
    if version := _older_semantics(stored, planned):
        found = f"names a study whose {name} was trained with semantics {version}"
        found += f"; semantics {SEMANTICS} gives other weights for the same settings"
        allowed = "finish it with the commit in its provenance.json, or choose another sweep.name"
        return Problem("sweep.name", found, allowed, None, place)
    differing = _differing_keys(stored, planned) or ["the text of its data"]
    found = f"names a study whose {name} has other settings: {'; '.join(differing)}"
    return Problem("sweep.name", found, "choose another sweep.name, or remove that folder", None, place)


def _differing_keys(stored: dict[str, Any], planned: PlannedTrial) -> list[str]:
    """The keys in which the folder's trial differs from the plan, such as "train.steps 600, now 700"."""
    before, now = NEUTRAL | dotted(current_names(Settings, _groups(stored))), dotted(_groups(config_dict(planned)))
    return [
        f"{key} {before.get(key)}, now {value}"
        for key, value in now.items()
        if before.get(key) != value and decides_weights(key)
    ]


def _groups(config: dict[str, Any]) -> dict[str, Any]:
    return {group: config[group] for group in ("model", "train", "data") if group in config}


def _older_semantics(stored: dict[str, Any], planned: PlannedTrial) -> int | None:
    """The semantics version of the folder's trial, if only that differs."""
    versions = range(SEMANTICS - 1, 0, -1)
    keys = {trial_key(planned.settings.trial, planned.fingerprint, version): version for version in versions}
    return keys.get(stored["key"])


def is_recorded(planned: PlannedTrial) -> bool:
    """Whether the study's or the trial's record confirms that the folder holds this trial, or no folder exists."""
    if not planned.folder.path.is_dir() or planned.folder.finished_result(planned.trial.key):
        return True
    study = known_study(planned.folder.path.parent)
    return study is not None and planned.trial.key in {trial.key for trial in study.trials}


def config_dict(planned: PlannedTrial) -> dict[str, Any]:
    """The resolved configuration for the trial's folder, without passwords: others may read it."""
    settings = without_passwords(planned.settings.to_dict())
    return {"key": planned.trial.key, "data_fingerprint": planned.fingerprint, **settings}


def recorded(plan: Plan, command: list[str]) -> Study:
    """The study on disk with this plan's trials added, in the order of the table.

    Raises RefusedError if another process has changed the study's settings since the plan was made.
    """
    before = known_study(plan.folder) or Study(plan.folder, (), {}, ())
    _refuse_changed_settings(plan, before)
    asked: dict[str, str | list[str]] = {
        "ts": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(map(without_password, command)),
    }
    now = {planned.trial.name: planned.trial for planned in plan.trials}
    merged = {trial.name: trial for trial in before.trials} | now
    ordered = tuple(sorted(merged.values(), key=_table_order(plan, before)))
    rows = plan.composition.rows
    return replace(
        recording(plan.composition, before, ordered),
        trials=ordered,
        cells={**before.cells, **{row.name: cells(row, plan.composition.base) for row in rows}},
        asked=(*before.asked, asked),
    )


def _refuse_changed_settings(plan: Plan, before: Study) -> None:
    known, now = plan.before, values_of(plan.composition.base)
    if not before.settings or (known is not None and known.settings == before.settings):
        return
    differing = [key for key, value in dotted(before.settings).items() if now.get(key, value) != value]
    if differing:
        found = f"is {plan.folder.name}, in which another process has changed {', '.join(differing)}"
        raise RefusedError([Problem("sweep.name", found, "run the command again, or choose another sweep.name")])


def _table_order(plan: Plan, before: Study) -> Any:
    """Sections as in the paper, then others; rows as the sweep's file lists them or as first requested; then seeds."""
    asked = [*(t.row for t in before.trials), *(p.trial.row for p in plan.trials)]
    listed = dict.fromkeys([*plan.composition.listed, *asked])
    place = {row: i for i, row in enumerate(listed)}
    groups = [*GROUPS, *(t.group for t in before.trials), *(p.trial.group for p in plan.trials)]
    section = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return lambda trial: (section[trial.group], place[trial.row], trial.seed)
