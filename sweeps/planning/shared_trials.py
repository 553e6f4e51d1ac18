"""Which finished trials of other studies a plan takes instead of training them: those with the same
key and the same code.

A trial that has begun is not replaced, and one that runs elsewhere is not waited for.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.source_trial import OTHER_CODE, OTHER_VARIABLES, Source, finished_elsewhere
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import by_name, placed
from sweeps.problems import RefusedError
from sweeps.worker.user_code.environment import variables
from tracking.code import SameCode
from tracking.files import unless_damaged
from tracking.provenance import own_files

BEING_SCORED = "it is being scored again"
OTHER_COPY = "it was trained on another copy of the data"
CONFIG_FILE = "config.yaml"


@dataclass(frozen=True)
class _Candidate:
    """A finished trial of another study with the key of a planned one. ``fault`` says why it can't
    replace that one; "" if it can."""

    planned: PlannedTrial
    source: Source
    fault: str

    @property
    def name(self) -> str:
        return self.planned.name

    @property
    def sort_key(self) -> tuple[bool, bool, str]:
        """The first one is taken: those with the same scores come first, then those that were
        trained where they are, then by the study's name."""
        needs_scoring = not self.source.is_scored
        is_copy = self.source.folder.source() is not None
        return needs_scoring, is_copy, self.source.study.name


def with_sources(plan: Plan) -> Plan:
    """The plan with the finished trials that it takes, and a line on those that it must not take.

    With ``sweep.share=false`` it takes none.
    """
    if not plan.shared.sweep.share:
        return plan
    candidates = list(_candidates(plan))
    best: dict[str, _Candidate] = {}
    for candidate in candidates:
        name = candidate.name
        is_first = name not in best or candidate.sort_key < best[name].sort_key
        if is_first and not candidate.fault:
            best[name] = candidate
    refused: dict[str, _Candidate] = {}
    for candidate in candidates:
        if candidate.name not in best:
            refused.setdefault(candidate.name, candidate)
    sources = {name: candidate.source for name, candidate in best.items()}
    return replace(
        plan,
        sources=sources,
        codes=_codes(plan, plan.codes, sources),
        vouched=_vouched(sources),
        not_taken=tuple(_refused_lines(refused)),
    )


def on_this_data(plan: Plan) -> Plan:
    """The plan once its data is prepared: without the sources that were trained on another copy of
    it."""
    names = [
        planned.name
        for planned in plan.to_take
        if _has_other_data(planned, plan.sources[planned.name])
    ]
    return without_sources(plan, names)


def without_sources(plan: Plan, names: Collection[str]) -> Plan:
    """The plan that trains these trials."""
    if not names:
        return plan
    sources = {name: source for name, source in plan.sources.items() if name not in names}
    study_codes = {*plan.before.code} if plan.before else set()
    if plan.code:
        study_codes.add(plan.code.digest)
    plan_codes = tuple(code for code in plan.codes if code in study_codes)
    codes = _codes(plan, plan_codes, sources)
    return replace(plan, sources=sources, codes=codes, vouched=_vouched(sources))


def why_not(plan: Plan, planned: PlannedTrial, source: Source) -> str:
    """Why the source can't replace the planned trial; "" if it can."""
    recorded = plan.before.vouched if plan.before else ()
    same_code = SameCode([*source.study.vouched, *recorded])
    faults = source.folder.damage()
    if faults:
        return faults[0].note
    if source.is_scored and not source.has_whole_scores:
        return BEING_SCORED
    if not source.is_by(planned.code, own_files(), same_code):
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
    that are missing.

    The newest one may be later than the last report says.
    """
    saved = source.saved_steps()
    steps = set[int]()
    last = source.last_saved()
    if last is not None and last > max(saved, default=0):
        steps.add(last)
    if not source.has_diverged:
        steps |= {step for step in planned.kept_steps if step <= source.step}
        if not source.is_scored:
            steps.add(planned.steps)
    return sorted(steps - saved)


def _is_new(planned: PlannedTrial) -> bool:
    """Whether it trains, and its folder has nothing but, perhaps, its configuration."""
    if planned.host is not None:
        return False
    if not planned.folder.path.is_dir():
        return True
    return all(path.name == CONFIG_FILE for path in planned.folder.path.iterdir())


def _candidates(plan: Plan) -> Iterator[_Candidate]:
    """The trials of other studies that have the keys of new ones."""
    new = {planned.trial.key: planned for planned in plan.trials if _is_new(planned)}
    if not new:
        return
    for study, trial in finished_elsewhere(plan.folder, {*new}):
        planned = new[trial.key]
        result = study.trial_folder(trial).finished_result(trial.key)
        source = Source(study, trial, planned.is_scored(result))
        yield _Candidate(planned, source, why_not(plan, planned, source))


def _has_other_data(planned: PlannedTrial, source: Source) -> bool:
    """False, too, where the data is not prepared yet."""
    data = planned.data
    try:
        identity = data.identity()
    except RefusedError:  # damaged data is refused before anything trains
        return False
    if not identity:
        return False
    return bool(unless_damaged(partial(data.problems_for, source.folder, identity), []))


def _codes(
    plan: Plan, plan_codes: tuple[str, ...], sources: Mapping[str, Source]
) -> tuple[str, ...]:
    """All code that the study will have been trained with: what trained the sources comes first,
    since it is the oldest."""
    if plan.code is None:
        return plan_codes
    source_codes = []
    for source in sources.values():
        source_codes += [code for code in source.codes() if code not in plan_codes]
    return tuple(dict.fromkeys([*source_codes, *plan_codes]))


def _vouched(sources: Mapping[str, Source]) -> tuple[dict[str, object], ...]:
    """The comparisons that the sources rely on, except the study's own."""
    vouchers = list[dict[str, object]]()
    for source in sources.values():
        vouchers += [voucher for voucher in source.study.vouched if voucher not in vouchers]
    return tuple(vouchers)


def _refused_lines(refused: Mapping[str, _Candidate]) -> Iterator[str]:
    """Such as "Not taken from multi30k-half: base-s1 (other code trained it)", a line for each
    study and reason."""
    groups: dict[tuple[str, str], list[_Candidate]] = {}
    for candidate in refused.values():
        key = (candidate.source.study.name, candidate.fault)
        groups.setdefault(key, []).append(candidate)
    for (study, fault), candidates in groups.items():
        names = ", ".join(candidate.name for candidate in candidates)
        line = f"Not taken from {study}: {names} ({fault})"
        if fault == OTHER_CODE:
            folder = candidates[0].source.study.folder
            vouch = command("sweep", by_name(folder), *placed(folder), "--vouch")
            line += f"; `{vouch}` shows whether today's code trains the same weights"
        yield line
