"""The studies on disk, and the log that each has of its commands."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweeps.problems import RefusedError, damaged
from tracking.files import DamagedFileError
from tracking.shell import shell_line
from tracking.study import Study, StudyMissing, read_study, study_folders
from tracking.uri import shown_words


def known_study(folder: Path) -> Study | None:
    """The study on disk, if there is one. Raises RefusedError if its file is damaged."""
    try:
        return read_study(folder)
    except StudyMissing:
        return None
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None


def study_names(runs: Path) -> list[str]:
    """The studies recorded in this folder."""
    return [folder.name for folder in study_folders(runs)]


def log_entry(typed: Sequence[str], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What ``study.asked`` has of a command: when it was typed, and what it changes."""
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    return {"ts": moment, "command": shell_line(shown_words(typed)), **changes}
