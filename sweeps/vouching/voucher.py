"""The record that two versions of the code have trained the same weights, after one trial was trained again."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from sweeps.planning.plan import Plan
from sweeps.planning.user_code import scoring_code
from sweeps.schema import Problem, RefusedError
from sweeps.vouching.candidates import Candidate, chosen_candidate, differences, versions_of
from sweeps.vouching.comparison import have_same_scores, have_same_weights, where_they_part
from sweeps.vouching.retrial import retrial_folder, retrial_of, run_retrial
from tracking.code import Code, write_code
from tracking.provenance import scored_by, trained_by
from tracking.same_code import KINDS, SCORES
from tracking.study import Study, read_study, write_study
from tracking.trial import TrialFolder
from tracking.words import time

NO_STUDY = "must be an option on a study with a finished trial; sweep.name=NAME names it"
MARKED = "restore the code, choose another sweep.name, or mark what is left by `--changed-code`"
Say = Callable[[str], None]
Check = Callable[[Plan], Plan]


def vouch(plan: Plan, name: str | None, command: list[str], check: Check, say: Say) -> None:
    """Train the trial ``name`` again, or the cheapest one, and record that today's code trains the same weights.

    ``check`` looks at the machine before anything starts. Raises RefusedError if it cannot be shown, or if the weights
    differ; Interrupted. Then the study is as it was.
    """
    study = plan.before
    if study is None:
        raise RefusedError([Problem("--vouch", f"has no study {plan.folder.name} to compare with", NO_STUDY)])
    code = scoring_code(study, plan.composition.shared.source)
    candidate = chosen_candidate(plan, study, code, name)
    with retrial_folder(study.folder.parent) as folder:
        retrial = check(retrial_of(candidate, plan, code, folder))
        say(_beginning(candidate))
        run_retrial(retrial, command)
        scores_agree = _compared(candidate, retrial.trials[0].folder)
    _record(study, candidate, code, scores_agree)
    say(_outcome(candidate, scores_agree))


def _beginning(candidate: Candidate) -> str:
    seconds = candidate.source.result.get("seconds")
    took = f", which took {time(float(seconds))}" if isinstance(seconds, int | float) else ""
    return f"Training {candidate.name} again with today's code{took}"


def _outcome(candidate: Candidate, scores_agree: bool) -> str:
    text = f"{candidate.name}: the same weights, bit by bit, after {candidate.source.step} steps"
    if scores_agree:
        return f"{text}, and the same scores. Both versions of the code count as one."
    return f"{text}. Both versions of the code count as one in training; the scores were not shown to be the same."


def _compared(candidate: Candidate, folder: TrialFolder) -> bool:
    """Whether the scores are the same, too. Raises RefusedError if the weights are not."""
    source = candidate.source
    result = folder.finished_result(source.trial.key)
    if result is None:
        cause = folder.cause() or "it was stopped"
        raise RefusedError([Problem("--vouch", f"trained {candidate.name} again without a result: {cause}", MARKED)])
    records = trained_by(folder.provenance(), result["step"])
    unlike = next((line for record in records for line in differences(candidate.record, record)), "")
    if unlike:
        found = f"trained {candidate.name} again under other conditions: {unlike}"
        raise RefusedError([Problem("--vouch", found, "use the same kind of machine and the same packages")])
    if result["step"] != source.step or not have_same_weights(source, folder):
        where = where_they_part(source.folder.journal(), folder.journal())
        found = f"trained {candidate.name} again to other weights; {where}"
        raise RefusedError([Problem("--vouch", found, MARKED)])
    return _was_scored_by_its_code(candidate) and have_same_scores(dict(source.result), result)


def _was_scored_by_its_code(candidate: Candidate) -> bool:
    """Whether what trained it has also scored it last."""
    provenance = candidate.source.folder.provenance()
    sets: Any = candidate.source.result["scores"]
    records = [scored_by(provenance, on) for on in sets]
    same_code = all(str(record.get("code") or "") in ("", candidate.code) for record in records)
    return same_code and all(record.get("own_files") in (None, candidate.own_files) for record in records)


def _record(study: Study, candidate: Candidate, code: Code | None, scores_agree: bool) -> None:
    """In the record of the study, which keeps today's code as well."""
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    versions = versions_of(candidate, code)
    voucher: dict[str, Any] = {"trial": candidate.name, "ts": moment, SCORES: scores_agree}
    voucher |= {kind: versions[kind] for kind in KINDS}
    if code is not None:
        write_code(study.folder, code)
    with FileLock(Path(study.folder, ".locks", "study")):
        now = read_study(study.folder)
        write_study(replace(now, vouched=(*now.vouched, voucher)))
