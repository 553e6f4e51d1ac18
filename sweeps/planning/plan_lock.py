"""The lock of a plan: what it would record is written down before the first result, or compared
with what was."""

from collections.abc import Iterator, Mapping

from sweeps.planning.plan import Plan
from sweeps.planning.plan_record import study_with_plan
from sweeps.planning.study_rows.study_record import decides_weights, values_of
from sweeps.problems import Problem, refuse
from tracking.study import record_lock
from tracking.study_lock import LOCK_FILE, Lock, lock_line, lock_of, read_lock, write_lock
from tracking.uri import is_secret

OPTION = "--lock"


def lock_plan(plan: Plan, metrics: Mapping[str, list[str]]) -> Lock:
    """Write the lock of the plan's study, with the names of ``metrics`` by set.

    Raises RefusedError if the study is locked, or if a result of it exists.
    """
    _refuse(plan)
    with record_lock(plan.folder):
        _refuse(plan)  # another process may have locked the study, or finished a trial
        lock = lock_of(study_with_plan(plan, []), _locked_keys(plan), metrics)
        write_lock(plan.folder, lock)
    return lock


def planned_lock_line(plan: Plan) -> str:
    """Whether the study would follow its lock with this plan; "" without a lock."""
    return lock_line(study_with_plan(plan, [])) if (plan.folder / LOCK_FILE).exists() else ""


def _locked_keys(plan: Plan) -> set[str]:
    """All keys that decide weights or scores, but for secrets. Trial keys hold the fingerprint of
    the data, so its places may change."""
    schema = plan.composition.schema
    return {
        key
        for key in values_of(plan.composition.base)
        if (decides_weights(schema, key) or key in schema.scores) and not is_secret(key)
    }


def _refuse(plan: Plan) -> None:
    problems = list(_problems(plan))
    refuse(problems)


def _problems(plan: Plan) -> Iterator[Problem]:
    """Why the study cannot be locked, or no longer can."""
    name = plan.folder.name
    allowed = "choose another sweep.name, and lock it before its first result"
    lock = read_lock(plan.folder)
    if lock is not None:
        yield Problem(OPTION, f"is given, but {name} has its {lock.name}", allowed)
        return
    finished = [planned.name for planned in plan.trials if planned.result is not None]
    if finished:
        fault = f"comes too late: {name} has the result of {finished[0]}"
        yield Problem(OPTION, fault, allowed)
    elif plan.before is not None and plan.before.showed_results:
        yield Problem(OPTION, f"comes too late: {name} has shown results", allowed)
    for planned in plan.to_take[:1]:
        trial = planned.name
        fault = f"comes too late: {trial} is taken from {plan.sources[trial].study.name}"
        yield Problem(OPTION, fault, "choose other seeds, or train it again with sweep.share=false")
