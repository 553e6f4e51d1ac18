"""The two sides of a comparison: what their names mean, their finished trials, and metrics."""

import math
from collections.abc import Sequence
from pathlib import Path

from sweeps.planning.studies.advice import must_finish
from sweeps.planning.studies.known_studies import study_names
from sweeps.problems import Problem, RefusedError, refusal, refuse
from sweeps.verbs.names import (
    NameCheck,
    NamedTrials,
    rows_of,
    trials_named,
    unfinished,
    unknown_name,
)
from tracking.card import Metric
from tracking.statistics.sides import Side, SidePair
from tracking.study import Study
from tracking.words import seeds_listed

SIDES_KEY = "compare"
ALLOWED = (
    "must be a trial, a row, STUDY/TRIAL, STUDY/ROW, a study, or the folder of a study or a trial"
)


def refuse_unless_two(names: Sequence[str]) -> None:
    """Raises RefusedError unless there are two names."""
    if len(names) == 2:
        return
    fault = f"names {', '.join(names)}"
    if not names:
        fault = "is missing"
    elif len(names) == 1:
        fault = f"names only {names[0]}"
    allowed = "must be two trials, two rows or two studies"
    raise refusal(SIDES_KEY, fault, allowed)


def named_sides(names: Sequence[str], study: Study, runs: Path) -> tuple[NamedTrials, NamedTrials]:
    """What the two names mean. Raises RefusedError with every problem."""
    first, second = (trials_named(name, study, runs) for name in names)
    if first is None or second is None:
        unknown = [name for name in dict.fromkeys(names) if trials_named(name, study, runs) is None]
        raise RefusedError(_unknown_side(name, study, runs) for name in unknown)
    problem = _mismatch(first, second)
    if problem is not None:
        raise RefusedError([problem])
    return first, second


def _unknown_side(name: str, study: Study, runs: Path) -> Problem:
    """The refusal of a name. It lists the rows of the study in the name, if that one exists."""
    study_name, slash, _ = name.rpartition("/")
    matching = trials_named(study_name, None, runs) if slash else None
    if matching is not None:
        study = matching.study
    return unknown_name(SIDES_KEY, name, study, "rows", ALLOWED, study_names(runs))


def _mismatch(first: NamedTrials, second: NamedTrials) -> Problem | None:
    """Why the two cannot be compared, whatever their trials hold."""
    both = f"{first.name} and {second.name}"
    if first.study.folder == second.study.folder and first.trials == second.trials:
        return Problem(both, "are the same", "must be two different trials, rows or studies")
    if (first.row is None) != (second.row is None):
        study, part = (first, second) if first.row is None else (second, first)
        fault = f"are a whole study, {study.name}, and a row or trial, {part.name}"
        fix = "compare two studies, or write STUDY/ROW"
        return Problem(both, fault, fix, f"{study.name}/{part.row}")
    first_task = first.study.task.name
    second_task = second.study.task.name
    if first_task != second_task:
        fault = f"belong to different tasks, {first_task} and {second_task}"
        return Problem(both, fault, "must belong to one task: metrics differ between tasks")
    return None


def finished_pairs(first: NamedTrials, second: NamedTrials) -> list[SidePair]:
    """The finished trials of two trials or rows. For two studies, a pair for each row that both
    have finished.

    Raises RefusedError if there are none.
    """
    if first.row is None:
        return _row_pairs(first, second)
    problems: list[Problem] = []
    sides: list[Side] = []
    for trials in (first, second):
        side = Side.of(trials.name, trials.study, trials.trials)
        sides.append(side)
        if not side.trials:
            problems.append(_without_trials(trials, side))
    refuse(problems)
    return [(sides[0], sides[1])]


def _without_trials(trials: NamedTrials, side: Side) -> Problem:
    """Why nothing of the side can be compared."""
    if not side.diverged:
        return unfinished(SIDES_KEY, trials.name, trials.states(), trials.study.folder)
    fault = f"{trials.name} diverged ({seeds_listed(side.diverged)})"
    return Problem(SIDES_KEY, fault, "must have a trial that finished and didn't diverge")


def _row_pairs(first: NamedTrials, second: NamedTrials) -> list[SidePair]:
    """A pair for each row that both studies have finished. Raises RefusedError without one."""
    pairs: list[SidePair] = []
    second_rows = rows_of(second.study)
    have_same_name = first.study.name == second.study.name  # then only the paths differ
    for row in rows_of(first.study):
        if row not in second_rows:
            continue
        first_side = _row_side(first, row, have_same_name)
        second_side = _row_side(second, row, have_same_name)
        if first_side.trials and second_side.trials:
            pairs.append((first_side, second_side))
    if not pairs:
        fault = f"{first.name} and {second.name} have no finished row in common"
        raise refusal(SIDES_KEY, fault, must_finish(first.study.folder))
    return pairs


def _row_side(trials: NamedTrials, row: str, by_typed_name: bool) -> Side:
    """The finished trials of one row of a study."""
    study_label = trials.name if by_typed_name else trials.study.name
    return Side.of(f"{study_label}/{row}", trials.study, trials.of_row(row))


def rows_left_out(side: NamedTrials, pairs: Sequence[SidePair]) -> list[str]:
    """The rows of a whole study that are not compared: not both studies have a trial of them that
    finished and didn't diverge."""
    if side.row is not None:
        return []
    compared_rows = {first.row for first, _ in pairs}
    return [row for row in rows_of(side.study) if row not in compared_rows]


def chosen_metrics(
    pairs: Sequence[SidePair], name: str | None, set_name: str | None, are_studies: bool
) -> list[Metric]:
    """The metrics to compare: the named one; otherwise those of the table for two studies, and all
    for trials and rows. Raises RefusedError."""
    card = pairs[0][0].study.task
    check = NameCheck()
    allowed = [metric.name for metric in card.metrics]
    metric_name = check.existing_or_none("--metric", name, allowed, "metric of the study")
    check.scored_set(set_name, card, _scored_sets(pairs))
    check.refuse()
    if metric_name is not None:
        return [metric for metric in card.metrics if metric.name == metric_name]
    return [metric for metric in card.metrics if metric.tabled or not are_studies]


def _scored_sets(pairs: Sequence[SidePair]) -> list[str]:
    """The sets on which any of the trials was scored."""
    sets: dict[str, None] = {}
    for pair in pairs:
        for side in pair:
            for result in side.results.values():
                sets |= dict.fromkeys(result["scores"])
    return list(sets)


def by_output(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics in order: those of the table, and those that score outputs, come first.

    Metrics that more settings for scoring change are taken to score outputs.
    """

    def order(metric: Metric) -> tuple[bool, float]:
        settings = math.inf if metric.changed_by is None else len(metric.changed_by)
        return not metric.tabled, -settings

    return sorted(metrics, key=order)
