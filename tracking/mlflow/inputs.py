"""A digest of the files that determine a study's runs.

It tells whether they changed since they were sent.
"""

import hashlib
from pathlib import Path

from tracking.study import STUDY_FILE, Study
from tracking.trial import TrialFolder

FORM = "3"
"""Bumped when runs get different content from the same files: every store then counts as behind."""


def inputs_digest(study: Study) -> str:
    """The digest of `study.json` and of all files that determine the runs of its trials, without
    the reports of a trial that is training.

    It contains no path, so that a moved study has the same digest.
    """
    digest = hashlib.sha256(FORM.encode())
    digest.update(_content(study.folder / STUDY_FILE))
    for trial in study.trials:
        digest.update(_trial_digest(study.trial_folder(trial)))
    return digest.hexdigest()[:16]


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
    """Empty for a missing or unreadable file, which its reader reports."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
