"""Whether a command resumes exactly, as ``allelse probe --resume`` has found, and the line below a
table about trials that were resumed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from tracking.code import CODE_FOLDER, code_folders
from tracking.files import DamagedFileError, read_object, to_json, unless_damaged, write_atomic
from tracking.provenance import RESUMED_FROM
from tracking.published_study import is_published
from tracking.study import Study, StudyTrial
from tracking.words import grouped, listed, seeds_listed

CHECKS = ".resumes"
"""Beside the studies: a file for each command that was checked."""
PUBLISHED_CHECK = "resumes.json"
"""In a published study, which has no code: the check that held for it."""
FORM = {"task": str, "is_equal": bool, "first": str, "files": {...: str}}


@dataclass(frozen=True)
class ResumeCheck:
    """``first``: such as "loss differs at step 21"; "" if nothing differs. ``files``: the
    SHA-256 of the command's definition and scripts, by path. It holds for these alone."""

    task: str
    is_equal: bool
    first: str
    files: Mapping[str, str]


def digests(contents: Mapping[str, bytes]) -> dict[str, str]:
    return {path: sha256(content).hexdigest() for path, content in contents.items()}


def keep_check(runs: Path, check: ResumeCheck) -> None:
    """Replaces an earlier one of this task. Raises OSError."""
    write_atomic(_path(runs, check.task), to_json(asdict(check)) + "\n")


def publish_check(study: Study, folder: Path) -> None:
    """Write the check of the study's command into the folder that publishes it, if there is one.
    Raises OSError."""
    path = folder / PUBLISHED_CHECK
    check = _check_of(study)
    if check is None:
        path.unlink(missing_ok=True)
    else:
        write_atomic(path, to_json(asdict(check)) + "\n")


def resumed_lines(study: Study, rows: Iterable[str]) -> Iterator[str]:
    """At most one line, about trials of these rows that were resumed, unless their command is known
    to resume exactly."""
    shown_rows = set(rows)
    trials = [trial for trial in study.trials if trial.row in shown_rows]
    resumed = [trial for trial in trials if _was_resumed(study, trial)]
    seeds_of_row = grouped((trial.row, trial.seed) for trial in resumed)
    parts = [f"{row} ({seeds_listed(seeds)})" for row, seeds in seeds_of_row.items()]
    check = _check_of(study) if parts else None
    if parts and check is None:
        advice = f"`allelse probe --resume {study.task.name}` checks whether a resume changes its results"
        yield f"Resumed after an interruption, and {advice}: {listed(parts)}."
    elif check is not None and not check.is_equal:
        finding = f"the command does not resume exactly ({check.first})"
        yield f"Resumed after an interruption, although {finding}: {listed(parts)}."


def _was_resumed(study: Study, trial: StudyTrial) -> bool:
    provenance = unless_damaged(study.trial_folder(trial).provenance, {})
    return bool(provenance.get(RESUMED_FROM))


def _check_of(study: Study) -> ResumeCheck | None:
    """The check of the study's command; None if there is none, or if it was of other files."""
    if is_published(study.folder):
        return _read_check(study.folder / PUBLISHED_CHECK)
    check = _read_check(_path(study.folder.parent, study.task.name))
    if check is None:
        return None
    return check if any(map(partial(_holds_for, check), _versions(study))) else None


def _read_check(path: Path) -> ResumeCheck | None:
    content = unless_damaged(partial(read_object, path, FORM), None)
    return None if content is None else ResumeCheck(**{key: content[key] for key in FORM})


def _holds_for(check: ResumeCheck, folder: Path) -> bool:
    """Whether this version of the code has the files of the check."""
    for path, digest in check.files.items():
        file = folder / path
        if not file.is_file() or sha256(file.read_bytes()).hexdigest() != digest:
            return False
    return True


def _versions(study: Study) -> Iterator[Path]:
    """The folders of the study's versions of the code."""
    for folder in sorted((study.folder / CODE_FOLDER).glob("*/")):
        try:
            yield code_folders(folder)[""]
        except (DamagedFileError, KeyError):
            continue


def _path(runs: Path, task: str) -> Path:
    return runs / CHECKS / f"{task}.json"
