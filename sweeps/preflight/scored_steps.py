"""Whether trained weights can be scored: whether the checkpoints that scoring needs are saved or
will be."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sweeps.checkpoints.reader import saved_steps
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.problems import Problem, refuse
from sweeps.processes.storage import answer_in_time
from sweeps.worker.last_step import config_until, early_end_problem, missing_state_problem
from tracking.files import DamagedFileError


def refuse_missing_steps(plan: Plan) -> None:
    """Raise RefusedError if there are any ``step_problems``."""
    problems = list(step_problems(plan))
    refuse(problems)


def step_problems(plan: Plan) -> Iterator[Problem]:
    """The pending trials that need checkpoints of steps that are not saved and never will be."""
    places = {row.name: row.location for row in plan.composition.rows}
    with suppress(TimeoutError):  # all checkpoints are there; code that reads them reports this
        for planned in plan.pending:
            problem = _problem(planned)
            if problem is not None:
                yield replace(problem, place=places.get(planned.trial.row))


def step_problem(planned: PlannedTrial) -> Problem | None:
    """Why the trial cannot be scored; None if it can, or if that is not known yet."""
    try:
        return _problem(planned)
    except TimeoutError:
        return None


def _problem(planned: PlannedTrial) -> Problem | None:
    """The same as ``step_problem``, but raises TimeoutError if the checkpoints' storage does not
    answer."""
    trained = planned.host or planned
    result = trained.folder.finished_result(trained.trial.key)
    if result is None and planned.host is None:
        return None
    saved = _saved_steps(trained)
    if saved is None:
        return None
    if result is None:
        return _passed_steps_problem(planned, saved)
    if planned.host is None and result.get("diverged") is not None:
        return None  # it never reached the steps to average
    return _finished_problem(planned, result["step"], saved)


def _saved_steps(trained: PlannedTrial) -> set[int] | None:
    """The steps with a checkpoint; None if the trial never began, or if its files are damaged.

    Raises TimeoutError if the storage does not answer.
    """
    try:
        lineage = trained.folder.lineage()
    except DamagedFileError:  # a sweep repairs it
        return None
    if lineage is None:
        return set() if trained.has_weights else None
    read_steps = partial(saved_steps, trained.checkpoints, trained.trial.key, lineage)
    if "://" not in trained.checkpoints:
        return read_steps()
    try:
        return answer_in_time(read_steps)
    except Exception:  # each filesystem has its own errors
        raise TimeoutError from None


def _finished_problem(planned: PlannedTrial, last: int, saved: set[int]) -> Problem | None:
    """Why weights whose training ended at step ``last`` cannot be scored by this trial; None if
    they can."""
    name = planned.name
    shortened_config = config_until(planned.task, planned.config, last)
    of_host = ""
    if planned.host is not None:
        host_name = planned.host.name
        of_host = f" of {host_name}"
        if last not in saved:
            return missing_state_problem(name, host_name, last, saved)
        if shortened_config is None:
            return early_end_problem(name, host_name, last, planned.steps)
    scored_config = shortened_config or planned.config
    missing = {*planned.task.keep(scored_config).steps} - saved
    if not missing:
        return None
    fault = f"would be scored over the steps {_listing(missing)}{of_host}, which have no checkpoint"
    allowed = f"must be steps with a checkpoint: {_listing(saved) or 'there is none'}"
    return Problem(name, fault, allowed)


def _passed_steps_problem(planned: PlannedTrial, saved: set[int]) -> Problem | None:
    """Why a trial can't be scored when its interrupted host has finished; None if it can.

    The host resumes at its newest checkpoint, so it will save no earlier step.
    """
    assert planned.host is not None
    newest = max(saved, default=0)
    needed = {step for step in planned.task.keep(planned.config).steps if step <= newest}
    missing = needed - saved
    if not missing:
        return None
    steps = f"the steps {_listing(missing)} of {planned.host.name}"
    fault = f"would be scored over {steps}, which was trained past them without a checkpoint"
    allowed = f"must be steps with a checkpoint ({_listing(saved)}), or after step {newest}"
    return Problem(planned.name, fault, allowed)


def _listing(steps: set[int]) -> str:
    return ", ".join(str(step) for step in sorted(steps))
