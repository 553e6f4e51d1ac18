"""Records that two versions of the code train the same weights, after one trial was trained
again."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sweeps.planning.plan import Plan
from sweeps.planning.user_code.versions import scoring_code
from sweeps.problems import RefusedError, refusal
from sweeps.vouching.candidates import Candidate, chosen_candidate, differences, versions_of
from sweeps.vouching.comparison import first_difference, have_same_scores, have_same_weights
from sweeps.vouching.retrial import retrial_folder, retrial_of, run_retrial
from tracking.code import KINDS, SCORES, Code, write_code
from tracking.provenance import Provenance, scored_by, trained_by
from tracking.study import Study, read_study, record_lock, write_study
from tracking.trial import TrialFolder
from tracking.words import time

NO_STUDY = "must be an option on a study with a finished trial; sweep.name=NAME names it"
MARKED = (
    "restore the code, choose another sweep.name, "
    "or mark the remaining trials with `--changed-code`"
)
Say = Callable[[str], None]
Check = Callable[[Plan], Plan]


def vouch(plan: Plan, name: str | None, command: list[str], check: Check, say: Say) -> None:
    """Train the trial ``name`` again, or the cheapest one, and record that today's code trains the
    same weights.

    ``check`` checks the machine before anything starts. Raises RefusedError if no trial can be
    repeated or if the weights differ, and Interrupted. The study is then unchanged.
    """
    study = plan.before
    if study is None:
        raise _refusal(f"has no study {plan.folder.name} to compare with", NO_STUDY)
    code = scoring_code(study, plan.shared.source)
    candidate = chosen_candidate(plan, study, code, name)
    with retrial_folder(study.folder.parent) as folder:
        retrial = check(retrial_of(candidate, plan, code, folder))
        say(_start_line(candidate))
        run_retrial(retrial, command)
        scores_agree = _compare(candidate, retrial.trials[0].folder)
    _record(study, candidate, code, scores_agree)
    say(_outcome_line(candidate, scores_agree))


def _start_line(candidate: Candidate) -> str:
    line = f"Training {candidate.name} again with today's code"
    seconds = candidate.source.result.get("seconds")
    if isinstance(seconds, int | float):
        line += f", which took {time(float(seconds))}"
    return line


def _outcome_line(candidate: Candidate, scores_agree: bool) -> str:
    steps = candidate.source.step
    weights = f"{candidate.name}: the same weights, bit by bit, after {steps} steps"
    if scores_agree:
        return f"{weights}, and the same scores. Both versions of the code count as one."
    scores = "the scores were not shown to be the same"
    return f"{weights}. Both versions of the code count as one in training; {scores}."


def _compare(candidate: Candidate, folder: TrialFolder) -> bool:
    """Whether the scores agree, too. Raises RefusedError if the weights differ, or can't be
    compared."""
    source = candidate.source
    result = folder.finished_result(source.trial.key)
    if result is None:
        cause = folder.cause() or "it was stopped"
        raise _refusal(f"trained {candidate.name} again without a result: {cause}")
    records = trained_by(folder.provenance(), result["step"])
    difference = _condition_difference(candidate, records)
    if difference is not None:
        fault = f"trained {candidate.name} again under different conditions: {difference}"
        raise _refusal(fault, "use the same kind of machine and the same packages")
    if result["step"] != source.step or not have_same_weights(source, folder):
        difference = first_difference(source.folder.journal(), folder.journal())
        raise _refusal(f"trained {candidate.name} again and got different weights; {difference}")
    scored_by_same_code = _was_scored_by_training_code(candidate)
    return scored_by_same_code and have_same_scores(dict(source.result), result)


def _refusal(fault: str, allowed: str = MARKED) -> RefusedError:
    return refusal("--vouch", fault, allowed)


def _condition_difference(candidate: Candidate, records: Iterable[Provenance]) -> str | None:
    """The first difference between the candidate's training and these attempts; None if they are
    alike."""
    for record in records:
        for difference in differences(candidate.record, record):
            return difference
    return None


def _was_scored_by_training_code(candidate: Candidate) -> bool:
    """Whether every set of the candidate was last scored by the code that trained it."""
    provenance = candidate.source.folder.provenance()
    sets: Any = candidate.source.result["scores"]
    for set_name in sets:
        record = scored_by(provenance, set_name)
        if str(record.get("code") or "") not in ("", candidate.code):
            return False
        if record.get("own_files") not in (None, candidate.own_files):
            return False
    return True


def _record(study: Study, candidate: Candidate, code: Code | None, scores_agree: bool) -> None:
    """Add the voucher to the study's file, and save today's code in the study."""
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    versions = versions_of(candidate, code)
    voucher: dict[str, Any] = {"trial": candidate.name, "ts": moment, SCORES: scores_agree}
    voucher |= {name: versions[name] for name in KINDS}
    if code is not None:
        write_code(study.folder, code)
    with record_lock(study.folder):
        current = read_study(study.folder)
        write_study(replace(current, vouched=(*current.vouched, voucher)))
