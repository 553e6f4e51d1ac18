"""A plan of a study that may already be recorded: recorded trials resume, new ones need --add."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sweeps.config.files import BASE
from sweeps.config.library import Library
from sweeps.config.overrides import Overrides
from sweeps.config.settings import Settings, Sweep
from sweeps.config.tasks import DEFAULT_TASK
from sweeps.planning.plan import Plan, make_plan, plan_trials
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.record_faults import record_faults
from sweeps.planning.shared_trials import with_sources
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.known_studies import known_study
from sweeps.planning.studies.renaming import refuse_half_renamed
from sweeps.planning.studies.study_overrides import naming
from sweeps.planning.study_rows.compose import compose_row, compose_settings, compose_sweep
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.planning.study_rows.renamed_rows import names_of_renamed_rows, without_renamed_rows
from sweeps.planning.study_rows.study_record import StudyRecord, read_record
from sweeps.planning.study_rows.task_choice import library_of, source_of_study
from sweeps.planning.user_code.versions import with_code
from sweeps.problems import COMMAND_LINE, Problem, RefusedError, refusal, refuse
from tracking.files import unless_damaged
from tracking.study import Study, read_study, study_folders
from tracking.words import plural, row_and_seed, trial_name

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
    study = _study_of(overrides, library)
    record = None
    if study is not None:
        record = read_record(study, source_of_study(study, here))
        library = Library(record.source, here)
    compose = compose_row if verb == "train" else compose_sweep
    composition = compose(overrides, library, record)
    if record is None:
        notes = _default_task_note(composition.shared, overrides)
        composition = replace(composition, row_notes=(*composition.row_notes, *notes))
        plan = _new_plan(composition, verb)
    else:
        refuse_half_renamed(record.study.folder)
        recorded_names = names_of_renamed_rows(composition, record, here)
        composition = without_renamed_rows(composition, recorded_names, record)
        notes = _new_row_files(composition, library, record, recorded_names, verb, overrides)
        composition = replace(composition, row_notes=(*composition.row_notes, *notes))
        names = _Names(composition, record, verb, recorded_names)
        plan = _continued_plan(names, overrides, add)
    plan = with_code(plan, changed_code)
    return plan if verb == "train" else with_sources(plan)


def plan_row(
    overrides: list[str], add: bool = False, here: Path | None = None, changed_code: bool = False
) -> Plan:
    """What ``allelse train`` runs: one trial. Raises RefusedError."""
    return plan_sweep(overrides, add, "train", here, changed_code)


def _study_of(overrides: list[str], library: Library) -> Study | None:
    """The recorded study that the overrides name, if there is one. Raises RefusedError if its file
    is damaged."""
    try:
        settings = compose_settings(naming(overrides), library)
    except RefusedError:  # reported with all other problems when the rows are composed
        return None
    return known_study(settings.study_folder)


def _default_task_note(settings: Settings, overrides: list[str]) -> Iterator[str]:
    """Which task a command without one has, where all studies are of other tasks."""
    if settings.source.name != DEFAULT_TASK or any(text.startswith("task=") for text in overrides):
        return
    folders = study_folders(Path(settings.paths.runs))
    studies = [unless_damaged(partial(read_study, folder), None) for folder in folders]
    tasks = {study.task.name for study in studies if study is not None}
    if tasks and settings.task.name not in tasks:
        yield f"The task is {DEFAULT_TASK}, the default; task=NAME chooses another"


def _new_row_files(
    composition: Composition,
    library: Library,
    record: StudyRecord,
    recorded_names: dict[str, str],
    verb: str,
    overrides: list[str],
) -> Iterator[str]:
    """A note on the user's row files that the study lacks, if the command names no rows."""
    if verb == "train" or composition.typed.names_rows(composition.schema.seed):
        return
    study = record.study
    dropped = {name for entry in study.asked for name in entry.get("dropped", ())}
    known = {*record.rows, *recorded_names, *(row_and_seed(name)[0] for name in dropped)}
    new = []
    for row in composition.shared.sweep.rows:
        file = library.folders.find(f"row/{row}")
        if row not in known and file is not None and library.folders.is_own(file):
            new.append(row)
    if new:
        add = command("sweep", *overrides, f"sweep.rows=[{','.join(new)}]", "--add")
        yield f"conf/ also has {_list_of('row', new)}, not yet in {study.name}; to add: {add}"


def _new_plan(composition: Composition, verb: str) -> Plan:
    """The plan of a study that is not recorded yet."""
    if verb == "train":
        return make_plan(composition, [_single_seed(composition.shared)])
    sweep = composition.shared.sweep
    return make_plan(composition, sweep.seeds, sweep.base_seeds)


def _single_seed(settings: Settings) -> int:
    """The seed of `allelse train`: the task's own key, or the first of ``sweep.seeds``."""
    schema = settings.schema
    if schema.seed is None:
        return settings.sweep.seeds[0]
    return int(schema.values(settings.config)[schema.seed])


def _continued_plan(names: "_Names", argv: list[str], add: bool) -> Plan:
    """The plan of one command on a recorded study. Raises RefusedError."""
    record = names.record
    requested = names.requested(add)
    new = [pair for pair in requested if pair not in record.pairs]
    problems = record_faults(names.composition, record)
    if new and not add:
        problems.append(_not_recorded(names, new, argv))
    refuse(problems)
    plan = plan_trials(names.composition, [*record.pairs, *new], record.study)
    requested_names = {trial_name(*pair) for pair in requested}
    trials = _trials_to_run(names, plan, requested_names, argv)
    added = tuple(trial_name(*pair) for pair in new)
    return replace(plan, trials=trials, before=record.study, added=added)


def _trials_to_run(
    names: "_Names", plan: Plan, requested: set[str], argv: list[str]
) -> tuple[PlannedTrial, ...]:
    """The requested trials. A sweep adds those that must be scored again, and those whose weights a
    requested trial scores."""
    scored_otherwise = [
        planned.name
        for planned in plan.trials
        if planned.scored_otherwise and planned.name not in requested
    ]
    untrained_hosts = [
        planned.host.name
        for planned in plan.trials
        if planned.name in requested and planned.host and not planned.host.has_weights
    ]
    if names.verb == "train":
        _refuse_mixed_scores(names, scored_otherwise)
        _refuse_without_weights(names, untrained_hosts, argv)
        to_run = requested
    else:
        to_run = {*requested, *scored_otherwise, *untrained_hosts}
    return tuple(planned for planned in plan.trials if planned.name in to_run)


@dataclass(frozen=True)
class _Names:
    """The rows and seeds that a command names on a recorded study.

    ``recorded_names`` has the recorded name of each row whose file was renamed.
    """

    composition: Composition
    record: StudyRecord
    verb: str
    recorded_names: dict[str, str]

    @property
    def typed(self) -> Overrides:
        return self.composition.typed

    @property
    def references(self) -> set[str]:
        """The rows with which others are compared: they have base's seeds."""
        recorded = self.record.study.references.values()
        return {*recorded, *self.composition.shared.sweep.rows_with_base_seeds}

    @property
    def seed_key(self) -> str | None:
        return self.composition.schema.seed

    def requested(self, add: bool) -> list[RowSeed]:
        """The requested trials. With --add, or if rows and seeds are both named: every row with
        every seed of its kind.

        Otherwise the recorded ones, and those of new rows or seeds.
        """
        sweep = self.composition.shared.sweep
        if self.verb == "train":
            row = self.typed.choices.get("row", BASE)
            return [(self._recorded_name(row), _single_seed(self.composition.shared))]
        rows = self._named_rows(sweep)
        names_seeds = self.typed.names_seeds(self.seed_key)
        every_pair = add or (rows is not None and names_seeds)
        pairs = []
        for row in rows or self.record.rows:
            recorded_seeds = self._recorded_seeds(row)
            named_seeds = self._named_seeds(row, sweep) if names_seeds else None
            for seed in named_seeds or recorded_seeds:
                is_new = row not in self.record.rows or seed not in recorded_seeds
                if every_pair or is_new or (row, seed) in self.record.pairs:
                    pairs.append((row, seed))
        return pairs

    def _recorded_name(self, row: str) -> str:
        return self.recorded_names.get(row, row)

    def _named_rows(self, sweep: Sweep) -> list[str] | None:
        """The rows that the overrides name; None if they name none."""
        if not self.typed.names_rows(self.seed_key):
            return None
        return list(dict.fromkeys(self._recorded_name(row) for row in sweep.rows))

    def _named_seeds(self, row: str, sweep: Sweep) -> list[int] | None:
        """The seeds that the overrides name for references or for the other rows."""
        if row in self.references:
            return sweep.base_seeds or sweep.seeds
        values = self.typed.values
        names_only_base = "sweep.base_seeds" in values and "sweep.seeds" not in values
        return None if names_only_base else sweep.seeds

    def _recorded_seeds(self, row: str) -> list[int]:
        """The recorded seeds of references, or of the other rows, which get those of references if
        there are none."""
        references = self.references
        base_seeds = [seed for name, seed in self.record.pairs if name in references]
        row_seeds = [seed for name, seed in self.record.pairs if name not in references]
        seeds = base_seeds if row in references else row_seeds or base_seeds
        return list(dict.fromkeys(seeds))


def _not_recorded(names: _Names, new: list[RowSeed], argv: list[str]) -> Problem:
    """Lists the new trials and the recorded ones, with the command that adds the new."""
    record = names.record
    rows = list(record.rows)
    seeds = list(dict.fromkeys(seed for _, seed in record.pairs))
    new_rows = list(dict.fromkeys(row for row, _ in new if row not in rows))
    new_seeds = list(dict.fromkeys(seed for _, seed in new if seed not in seeds))
    parts = []
    if new_rows:
        parts.append(_list_of("row", new_rows))
    if new_seeds:
        parts.append(_list_of("seed", new_seeds))
    new_names = " and ".join(parts) or ", ".join(trial_name(*pair) for pair in new)
    fault = f"names {new_names}, not yet in {record.study.name}"
    fault += f", which has {_list_of('row', rows)} with {_list_of('seed', seeds)}"
    names_rows = new_rows or not new_seeds
    if names.verb == "train":
        key = "row" if names_rows else names.seed_key or "sweep.seeds"
    else:
        key = "sweep.rows" if names_rows else "sweep.seeds"
    add = command(names.verb, *argv, "--add")
    return Problem(key, fault, f"to add: {add}", place=COMMAND_LINE)


def _refuse_mixed_scores(names: _Names, scored_otherwise: list[str]) -> None:
    """Refuse decode settings for one trial: its table would mix scores of different settings."""
    schema = names.composition.schema
    groups = {key.partition(".")[0] for key in schema.scores}
    keys = [key for key in names.typed.values if key in schema.scores]
    keys += groups & names.typed.choices.keys()
    if scored_otherwise and keys:
        fault = f"would leave {', '.join(scored_otherwise)} scored with different settings"
        allowed = "use it with `allelse sweep` to score all trials again"
        raise RefusedError([Problem(key, fault, allowed) for key in keys])


def _refuse_without_weights(names: _Names, untrained_hosts: list[str], argv: list[str]) -> None:
    """Refuse to score, in this one process, weights that are not trained yet."""
    if not untrained_hosts:
        return
    host = untrained_hosts[0]
    row, seed = row_and_seed(host)
    of_seed = f"{names.seed_key}={seed}" if names.seed_key else f"sweep.seeds=[{seed}]"
    first = command(names.verb, *naming(argv), f"row={row}", of_seed)
    fault = f"only scores the weights of {host}, which is not finished"
    raise refusal("row", fault, f"type `{first}` first", place=COMMAND_LINE)


def _list_of(noun: str, values: Sequence[object]) -> str:
    """For example "seeds 1, 3"."""
    return f"{plural(noun, len(values))} {', '.join(map(str, values))}"
