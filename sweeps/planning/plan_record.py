"""The study that a plan records: its trials in the order of the table, its settings, its code."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sweeps.config.schema import task_card
from sweeps.planning.plan import Plan
from sweeps.planning.studies.known_studies import known_study, log_entry
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.planning.study_rows.row_words import cells
from sweeps.planning.study_rows.study_record import study_with_rows, values_of
from sweeps.problems import refusal
from sweeps.trees import dotted
from tracking.study import Study, StudyTrial


def study_with_plan(plan: Plan, command: list[str]) -> Study:
    """The study on disk with this plan's trials added, in the order of the table.

    Raises RefusedError if another process has changed the study's settings since the plan was made.
    """
    study = known_study(plan.folder) or Study(plan.folder, (), {}, (), task=task_card(plan.task))
    _refuse_changed_settings(plan, study)
    recorded_names = {trial.name for trial in study.trials}
    planned_trials = {planned.name: planned.trial for planned in plan.trials}
    added = [name for name in planned_trials if name not in recorded_names]
    entry = log_entry(command, {"added": added, "saw_results": study.has_results})
    merged = {trial.name: trial for trial in study.trials} | planned_trials
    ordered = tuple(sorted(merged.values(), key=_table_order(plan, study)))
    rows = plan.composition.rows
    changed = {key for row in rows for key in row.changes}
    row_cells = {row.name: cells(row, plan.composition.base, changed) for row in rows}
    vouched = [voucher for voucher in plan.vouched if voucher not in study.vouched]
    return replace(
        study_with_rows(plan.composition, study, ordered, plan.sizes),
        trials=ordered,
        cells={**study.cells, **row_cells},
        asked=(*study.asked, entry),
        margins=study.margins or plan.shared.sweep.margin,
        paired=recorded_pairing(plan.composition, study),
        references=study.references | plan.references,
        identity=study.identity or uuid.uuid4().hex,
        code=plan.codes,
        vouched=(*study.vouched, *vouched),
    )


def recorded_pairing(composition: Composition, study: Study) -> bool:
    """Whether differences are tested at common seeds: as stated in the settings, or else as
    recorded."""
    stated = composition.shared.sweep.paired
    if "sweep.paired" in composition.typed.values:
        return stated
    return study.paired or stated


def _refuse_changed_settings(plan: Plan, study: Study) -> None:
    """Raises RefusedError if the study on disk differs from the one that was planned for."""
    differing = []
    if plan.before is None or plan.before.settings != study.settings:
        values = values_of(plan.composition.base)
        for key, value in dotted(study.settings).items():
            if values.get(key, value) != value:
                differing.append(key)
    recorded_code = plan.before.code if plan.before else ()
    if study.code not in (recorded_code, plan.codes):
        differing.append("the task's code")
    if differing:
        changes = ", ".join(differing)
        fault = f"is {plan.folder.name}, but another process has since changed {changes}"
        allowed = "run the command again, or choose another sweep.name"
        raise refusal("sweep.name", fault, allowed)


def _table_order(plan: Plan, study: Study) -> Callable[[StudyTrial], tuple[int, int, int]]:
    """By section; rows as the sweep's file lists them or as first requested; then seeds."""
    composition = plan.composition
    trials = [*study.trials, *(planned.trial for planned in plan.trials)]
    groups = {trial.row: trial.group for trial in reversed(trials)}  # as first requested
    sections = _sections(composition, groups)
    sections += [trial.group for trial in trials]  # a row may have had another one
    rows = list(composition.table_order)
    rows += [trial.row for trial in trials]
    section_ranks = _ranks(sections)
    row_ranks = _ranks(rows)
    return lambda trial: (section_ranks[trial.group], row_ranks[trial.row], trial.seed)


def _sections(composition: Composition, groups: Mapping[str, str]) -> list[str]:
    """Base, then sections as the sweep's file lists their rows, or by name if it names no rows.

    ``groups``: the section of each row.
    """
    sections = [groups[row] for row in composition.table_order if row in groups]
    if composition.lists_all:
        sections = sorted(sections)
    return [composition.base.row.group, *sections]


def _ranks(names: Iterable[str]) -> dict[str, int]:
    """The rank of each name in the order of its first mention."""
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}
