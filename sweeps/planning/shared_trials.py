"""Which finished trials of other studies a plan takes instead of training: those with the same key
and the same code.

A trial that has begun is not replaced, and one that runs elsewhere is not waited for.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from sweeps.planning.naming import by_name, command, placed
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.planning.source_trial import OTHER_CODE, OTHER_VARIABLES, Source, finished_elsewhere
from sweeps.schema import RefusedError
from sweeps.worker.prepared import check_data
from sweeps.worker.user_code.environment import variables
from tracking.files import unless_damaged
from tracking.provenance import own_files
from tracking.same_code import SameCode

BEING_SCORED = "it is being scored again"
OTHER_COPY = "it was trained on another copy of the data"
CONFIG_FILE = "config.yaml"


def with_sources(plan: Plan) -> Plan:
    """The plan with the finished trials that it takes, and a line on those that it must not take.

    With ``sweep.share=false`` it takes none.
    """
    if not plan.composition.shared.sweep.share:
        return plan
    new = {planned.trial.key: planned for planned in plan.trials if _is_new(planned)}
    sources: dict[str, Source] = {}
    reasons: dict[str, tuple[Source, str]] = {}
    for source, planned in _candidates(plan, new):
        name = planned.trial.name
        reason = why_not(plan, planned, source)
        if reason:
            reasons.setdefault(name, (source, reason))
        elif name not in sources or _rank(source) < _rank(sources[name]):
            sources[name] = source
    refused = {name: about for name, about in reasons.items() if name not in sources}
    codes = _codes(plan, sources)
    vouched = _vouched(plan, sources)
    return replace(
        plan, sources=sources, codes=codes, vouched=vouched, not_taken=tuple(_lines(refused))
    )


def on_this_data(plan: Plan) -> Plan:
    """The plan once its data is prepared: without the sources that were trained on another copy of
    it."""
    pairs = [(planned, plan.sources[planned.trial.name]) for planned in plan.to_take]
    others = {planned.trial.name for planned, source in pairs if _has_other_data(planned, source)}
    return without_sources(plan, others)


def without_sources(plan: Plan, names: Collection[str]) -> Plan:
    """The plan that trains these trials."""
    if not names:
        return plan
    sources = {name: source for name, source in plan.sources.items() if name not in names}
    recorded = plan.before.code if plan.before else ()
    own = tuple(
        code for code in plan.codes if code in recorded or (plan.code and code == plan.code.digest)
    )
    codes = _codes(replace(plan, codes=own), sources)
    return replace(plan, sources=sources, codes=codes, vouched=_vouched(plan, sources))


def why_not(plan: Plan, planned: PlannedTrial, source: Source) -> str:
    """Why the source cannot stand for the planned trial; "" if it can."""
    recorded = plan.before.vouched if plan.before else ()
    same = SameCode([*source.study.vouched, *recorded])
    if faults := source.folder.damage():
        return faults[0].note
    if source.is_scored and not source.has_whole_scores:
        return BEING_SCORED
    if not source.is_by(planned.code, own_files(), same):
        return OTHER_CODE
    if not source.had_variables(variables(plan.code)):
        return OTHER_VARIABLES
    if _has_other_data(planned, source):
        return OTHER_COPY
    missing = _missing_steps(planned, source)
    if missing:
        return f"its checkpoints of these steps are gone: {', '.join(map(str, missing))}"
    return ""


def _missing_steps(planned: PlannedTrial, source: Source) -> list[int]:
    """The steps whose checkpoints the planned trial must have, as if it had been trained here, and
    that are not there.

    The newest one may be later than the last report says.
    """
    saved = source.saved_steps()
    steps = set[int]()
    last = source.last_saved()
    if last is not None and last > max(saved, default=0):
        steps.add(last)
    if not source.has_diverged:
        steps |= {step for step in planned.kept_steps if step <= source.step}
        steps |= set() if source.is_scored else {planned.steps}
    return sorted(steps - saved)


def _is_new(planned: PlannedTrial) -> bool:
    """Whether it trains, and nothing of it is there yet but, perhaps, its configuration."""
    if planned.host is not None:
        return False
    if not planned.folder.path.is_dir():
        return True
    return all(path.name == CONFIG_FILE for path in planned.folder.path.iterdir())


def _candidates(plan: Plan, new: dict[str, PlannedTrial]) -> Iterator[tuple[Source, PlannedTrial]]:
    if not new:
        return
    for study, trial in finished_elsewhere(plan.folder, {*new}):
        planned = new[trial.key]
        result = study.trial_folder(trial).finished_result(trial.key)
        yield Source(study, trial, planned.is_scored(result)), planned


def _rank(source: Source) -> tuple[bool, bool, str]:
    """The lowest one is taken: rather with the same scores, and from where it was trained."""
    return not source.is_scored, source.folder.source() is not None, source.study.name


def _has_other_data(planned: PlannedTrial, source: Source) -> bool:
    """False, too, where the data is not prepared yet."""
    try:
        identity = planned.prepared_as()
    except RefusedError:  # damaged data is refused before anything trains
        identity = ""
    if not identity:
        return False
    place = planned.prepared_folder
    code = planned.code
    return bool(unless_damaged(lambda: check_data(source.folder, identity, place, code), []))


def _codes(plan: Plan, sources: dict[str, Source]) -> tuple[str, ...]:
    """All code that the study has been trained with, then: what trained the sources first, which is
    the oldest."""
    if plan.code is None:
        return plan.codes
    of_sources = [code for source in sources.values() for code in source.codes()]
    return tuple(
        dict.fromkeys([*(code for code in of_sources if code not in plan.codes), *plan.codes])
    )


def _vouched(plan: Plan, sources: dict[str, Source]) -> tuple[dict[str, object], ...]:
    """The comparisons that the sources rest on, besides those of the study itself."""
    vouchers = list[dict[str, object]]()
    for source in sources.values():
        vouchers += [voucher for voucher in source.study.vouched if voucher not in vouchers]
    return tuple(vouchers)


def _lines(refused: dict[str, tuple[Source, str]]) -> Iterator[str]:
    """Such as "Not taken from multi30k-half: base-s1 (other code trained it)", a line for each
    study and reason."""
    names: dict[tuple[str, str], list[str]] = {}
    folders = {source.study.name: source.study.folder for source, _ in refused.values()}
    for name, (source, reason) in refused.items():
        names.setdefault((source.study.name, reason), []).append(name)
    for (study, reason), trials in names.items():
        line = f"Not taken from {study}: {', '.join(trials)} ({reason})"
        if reason == OTHER_CODE:
            folder = folders[study]
            vouch = command("sweep", by_name(folder), *placed(folder), "--vouch")
            line += f"; `{vouch}` shows whether today's code trains the same weights"
        yield line
