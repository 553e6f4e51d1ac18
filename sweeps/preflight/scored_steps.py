"""Whether trained weights can be scored: which steps that needs, and which of these are saved or will be."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Thread

from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.processes.times import PLACE_ANSWER_S
from sweeps.schema import Problem, RefusedError
from sweeps.worker.checkpoints import saved_steps
from sweeps.worker.last_step import config_until, ended_early, without_last_state
from tracking.attempts import Lineage
from tracking.files import DamagedFileError


def refuse_missing_steps(plan: Plan) -> None:
    """Raises RefusedError with every trial that ``step_problems`` names."""
    if problems := list(step_problems(plan)):
        raise RefusedError(problems)


def step_problems(plan: Plan) -> Iterator[Problem]:
    """The pending trials that need steps of trained weights that are not there, and never will be."""
    places = {row.name: row.place for row in plan.composition.rows}
    with suppress(TimeoutError):  # all checkpoints lie there: whoever reads them says so
        for planned in plan.pending:
            problem = _problem(planned)
            if problem is not None:
                yield replace(problem, place=places.get(planned.trial.row))


def step_problem(planned: PlannedTrial) -> Problem | None:
    """Why the trial cannot be scored, as far as its weights are trained; None if it can, or if nothing is known yet."""
    try:
        return _problem(planned)
    except TimeoutError:
        return None


def _problem(planned: PlannedTrial) -> Problem | None:
    """The same. Raises TimeoutError if the place of the checkpoints does not answer."""
    trained = planned.host or planned
    result = trained.folder.finished_result(trained.trial.key)
    there = None if result is None and planned.host is None else _saved(trained)
    if there is None:
        return None
    if result is None:
        return _passed_steps(planned, there)
    if planned.host is None and result.get("diverged") is not None:
        return None  # it never reached the steps that are averaged
    return _missing_steps(planned, result["step"], there)


def _saved(trained: PlannedTrial) -> set[int] | None:
    """The steps with a checkpoint; None if the trial never began, or if its files do not say so."""
    try:
        lineage = trained.folder.lineage()
    except DamagedFileError:  # a sweep repairs it
        return None
    if lineage is None:
        return set() if trained.has_weights else None
    if "://" not in trained.checkpoints:
        return saved_steps(trained.checkpoints, trained.trial.key, lineage)
    return _saved_elsewhere(trained, lineage)


def _saved_elsewhere(trained: PlannedTrial, lineage: Lineage) -> set[int]:
    """The steps with a checkpoint at an address. Raises TimeoutError if it does not answer in time."""
    answers = list[set[int]]()

    def look() -> None:
        with suppress(OSError, DamagedFileError):
            answers.append(saved_steps(trained.checkpoints, trained.trial.key, lineage))

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(PLACE_ANSWER_S)
    if not answers:
        raise TimeoutError
    return answers[0]


def _missing_steps(planned: PlannedTrial, last: int, there: set[int]) -> Problem | None:
    """Why weights that are trained, up to the step ``last``, cannot be scored by this trial."""
    name = planned.trial.name
    host = planned.host.trial.name if planned.host else ""
    config = config_until(planned.task, planned.config, last)
    if host and last not in there:
        return without_last_state(name, host, last, there)
    if host and config is None:
        return ended_early(name, host, last, planned.steps)
    return _lost_steps(planned, {*planned.task.keep(config or planned.config).steps}, there)


def _lost_steps(planned: PlannedTrial, needed: set[int], there: set[int]) -> Problem | None:
    missing = [str(step) for step in sorted(needed - there)]
    if not missing:
        return None
    of_host = f" of {planned.host.trial.name}" if planned.host else ""
    found = f"would be scored over the steps {', '.join(missing)}{of_host}, which were not kept"
    allowed = f"must be steps with a checkpoint: {', '.join(map(str, sorted(there))) or 'there is none'}"
    return Problem(planned.trial.name, found, allowed)


def _passed_steps(planned: PlannedTrial, there: set[int]) -> Problem | None:
    """A host that was interrupted goes on from its newest checkpoint, so it saves no earlier step."""
    assert planned.host is not None
    newest = max(there, default=0)
    needed = {step for step in planned.task.keep(planned.config).steps if step <= newest}
    missing = [str(step) for step in sorted(needed - there)]
    if not missing:
        return None
    steps = f"the steps {', '.join(missing)} of {planned.host.trial.name}"
    found = f"would be scored over {steps}, which was trained past them without a checkpoint"
    allowed = f"must be steps with a checkpoint ({', '.join(map(str, sorted(there)))}), or after step {newest}"
    return Problem(planned.trial.name, found, allowed)
