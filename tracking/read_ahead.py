"""The files of a study's trials, fetched ahead, so that their content is not waited for one file after the other."""

import os
from contextlib import suppress
from pathlib import Path

from tracking.journal_end import WINDOW
from tracking.looks import files_of
from tracking.study import Study


def read_ahead(study: Study) -> None:
    """Ask the system to fetch what tells where each trial stands. What cannot be opened is left to its reader."""
    if not hasattr(os, "posix_fadvise"):  # macOS
        return
    for trial in study.trials:
        for path in files_of(study.trial_folder(trial)):
            with suppress(OSError):
                _fetch(path)


def _fetch(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe would block
    try:
        start = max(0, os.fstat(descriptor).st_size - WINDOW)  # a long journal is read from its end
        os.posix_fadvise(descriptor, start, 0, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)
