"""The files of a study from which its runs follow, as one digest: what was sent is compared with
what is there now."""

import hashlib
from pathlib import Path

from tracking.study import STUDY_FILE, Study
from tracking.trial import TrialFolder

FORM = "2"
"""Raised when runs get other content from the same files: every store then counts as behind."""


def inputs_digest(study: Study) -> str:
    """Of `study.json` and of what decides the runs of its trials, but for the reports of a trial
    that trains.

    It names no place, so that a moved study has the same.
    """
    whole = hashlib.sha256(FORM.encode())
    whole.update(_content(study.folder / STUDY_FILE))
    for trial in study.trials:
        whole.update(_trial_digest(study.trial_folder(trial)))
    return whole.hexdigest()[:16]


def _trial_digest(folder: TrialFolder) -> bytes:
    digest = hashlib.sha256()
    files = (folder.attempts_path, folder.config_path, folder.provenance_path, folder.error_path)
    for path in files:
        digest.update(_content(path))
        digest.update(b"\0")
    result = _content(folder.result_path)
    digest.update(result)
    if result:
        digest.update(str(_size(folder.journal_path)).encode())
    return digest.digest()


def _content(path: Path) -> bytes:
    """Empty for a file that is missing or cannot be read: its reader reports that."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
