"""The versions of the user's code that a study has been trained with, and whether today's
differs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sweeps.checkpoints.reader import saved_steps
from sweeps.config.tasks import TaskSource
from sweeps.planning.plan import Plan
from sweeps.planning.user_code.files import content_of, user_code
from sweeps.problems import Problem, RefusedError, damaged
from tracking.activity.runners import in_hand
from tracking.code import INSTALLED, Code, SameCode, changed_files, code_diff, read_code
from tracking.files import DamagedFileError, unless_damaged
from tracking.provenance import trained_by
from tracking.study import Study, StudyTrial
from tracking.trial import TrialFolder

LONGEST_DIFF = 60
"""The lines of a diff that a refusal shows."""
HOW_TO_REPLACE = (
    "restore it from a copy; "
    "`--changed-code` continues with today's code, and the table marks those rows"
)
HOW_TO_GO_ON = (
    "restore it, or choose another sweep.name to train everything with it; "
    "`--changed-code` trains the remaining trials with the new code, and the table marks them; "
    "`--vouch` shows whether the new code trains the same weights, and then nothing is marked"
)


def with_code(plan: Plan, any_code: bool) -> Plan:
    """The plan with the code that its trials run. Raises RefusedError if other code trained a part
    of the study, unless ``any_code`` is allowed."""
    study = plan.before
    today = user_code(plan.shared.source)
    versions = held_codes(study, plan.shared.paths.checkpoints) if study else ()
    if today is None:
        return _running(plan, None, ())
    if study is None or not versions:
        return _running(plan, today, (today.digest,))
    change = _change_since(study, versions[-1], today)
    if change.files and change.is_vouched:
        with_today = tuple(dict.fromkeys((*versions, change.today.digest)))
        return _running(plan, change.today, with_today)
    if not change.files or not plan.pending:  # where nothing is to run, nothing changes
        return _running(plan, change.trained_with, versions)
    if not any_code:
        raise RefusedError(change.problems)
    return _running(plan, change.today, (*versions, change.today.digest))


def changed_since(study: Study, source: TaskSource, checkpoints: str | None) -> list[str] | None:
    """The files whose change keeps the study from going on without ``--changed-code``. None if any
    may change."""
    today = user_code(source)
    versions = held_codes(study, checkpoints)
    if today is None or not versions:
        return None
    change = _change_since(study, versions[-1], today)
    return [] if change.is_vouched else change.files


@dataclass(frozen=True)
class _CodeChange:
    """What has changed in ``files`` since a study was trained, and whether a voucher says that both
    train the same weights. If the recorded version is damaged, ``trained_with`` is today's."""

    trained_with: Code
    today: Code  # with the files that the study has recorded
    files: list[str]
    problems: list[Problem]
    is_vouched: bool


def _change_since(study: Study, digest: str, today: Code) -> _CodeChange:
    """Between the study's version with this hash and today's code."""
    vouched = SameCode(study.vouched)
    try:
        trained_with = _recorded(study, digest, today)
    except DamagedFileError as error:
        problem = replace(damaged(error), allowed=HOW_TO_REPLACE)
        is_vouched = vouched.are_same(digest, today.digest)
        return _CodeChange(today, today, [error.path.name], [problem], is_vouched)
    today = _with_recorded_files(today, trained_with)
    files = changed_files(trained_with, today)
    problems = [_problem_of_change(study, files, trained_with, today)] if files else []
    is_vouched = vouched.are_same(digest, today.digest)
    return _CodeChange(trained_with, today, files, problems, is_vouched)


def _running(plan: Plan, code: Code | None, codes: tuple[str, ...]) -> Plan:
    """The plan whose trials run this code."""
    digest = "" if code is None else code.digest
    trials = tuple(replace(planned, code=digest) for planned in plan.trials)
    return replace(plan, trials=trials, code=code, codes=codes)


def _recorded(study: Study, digest: str, today: Code) -> Code:
    """The study's version with this hash: today's, if that is the same. Raises DamagedFileError."""
    return today if today.digest == digest else read_code(study.folder, digest, today.roots)


def _with_recorded_files(today: Code, recorded: Code) -> Code:
    """Today's code with all recorded files that still exist, whether git still tracks them or
    not."""
    files = dict(today.files)
    for name in recorded.files.keys() - files.keys():
        if name.startswith(INSTALLED) and name.partition("/")[0] not in today.roots:
            continue
        content = content_of(today.place(name))
        if content is not None:
            files[name] = content
    return Code(files, today.roots)


def _problem_of_change(
    study: Study, files: Sequence[str], trained_with: Code, today: Code
) -> Problem:
    """That these files have changed, with a diff."""
    lines = list(code_diff(trained_with, today, files))
    shown_lines = ["", *lines[:LONGEST_DIFF]]
    if len(lines) > LONGEST_DIFF:
        shown_lines.append(f"… {len(lines) - LONGEST_DIFF} lines more")
    diff = "\n".join(shown_lines)
    fault = f"has changed since {study.name} began: {', '.join(files)}{diff}"
    return Problem("the task's code", fault, HOW_TO_GO_ON, place=today.roots[""])


def held_codes(study: Study, checkpoints: str | None) -> tuple[str, ...]:
    """The versions with which a result or a checkpoint was trained that the study still has: the
    oldest first.

    The newest one counts while a process has a trial in hand. As long as there is none, the code
    may change: you can fix a fault that ends the first trials without a mark. ``checkpoints`` is
    ``paths.checkpoints``.
    """
    if not study.code:
        return ()
    versions = set[str]()
    for trial in study.trials:
        versions |= _trained_with(study, trial, checkpoints)
    folders = {trial.name: study.trial_folder(trial) for trial in study.trials}
    if in_hand(study.folder, folders, lambda name: folders[name].newest_attempt()):
        versions.add(study.code[-1])
    return tuple(digest for digest in study.code if digest in versions)


def _trained_with(study: Study, trial: StudyTrial, checkpoints: str | None) -> set[str]:
    """The versions that trained the trial's weights, or its newest checkpoint."""
    if trial.weights:  # they belong to its host
        return set()
    folder = study.trial_folder(trial)
    result = folder.finished_result(trial.key)
    if result is not None:
        step = int(result["step"])
    else:
        step = max(_saved_steps(folder, trial.key, checkpoints), default=0)
        if step == 0:
            return set()
    records = trained_by(unless_damaged(folder.provenance, {}), step)
    recorded = {str(record["code"]) for record in records if record.get("code")}
    known = recorded & {*study.code}
    return known if known else {study.code[-1]}


def _saved_steps(folder: TrialFolder, key: str, checkpoints: str | None) -> Sequence[int]:
    """The steps of a trial's checkpoints; none before its first attempt."""
    if not folder.attempts_path.exists():
        return ()
    lineage = unless_damaged(folder.lineage, None)
    return sorted(saved_steps(folder.checkpoints_url(checkpoints), key, lineage))


def scoring_code(study: Study | None, source: TaskSource) -> Code | None:
    """The code with which a verb of the task scores today."""
    today = user_code(source)
    if today is None or study is None or not study.code:
        return today
    recorded = unless_damaged(partial(_recorded, study, study.code[-1], today), today)
    return _with_recorded_files(today, recorded)


def recorded_code(study: Path, digest: str, source: TaskSource) -> Code | None:
    """The version with this hash that the study keeps, in today's folders; today's where none was
    recorded.

    Raises DamagedFileError.
    """
    today = user_code(source)
    if today is None or digest in ("", today.digest):
        return today
    return read_code(study, digest, today.roots)
