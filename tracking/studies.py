"""The studies below a folder of runs, and when each was last active."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tracking.damage import DamagedFileError, unless_damaged
from tracking.study import STUDY_FILE, Study, StudyMissing, read_study


def study_folders(runs: Path) -> list[Path]:
    """The folders with a study, by name."""
    return [path.parent for path in sorted(runs.glob(f"*/{STUDY_FILE}"))]


def studies(runs: Path) -> tuple[list[Study], list[DamagedFileError]]:
    """Every study, the one that was active last first; and the faults of studies that cannot be read."""
    found, faults = list[Study](), list[DamagedFileError]()
    for folder in study_folders(runs):
        try:
            found.append(read_study(folder))
        except DamagedFileError as error:
            faults.append(error)
        except StudyMissing:  # it was moved a moment ago
            continue
    return sorted(found, key=last_active, reverse=True) if len(found) > 1 else found, faults


def last_active(study: Study) -> float:
    """When a command asked for the study, or a trial reported, in Unix seconds. Copying a study does not change it."""
    return max([0.0, *_times(study)])


def last_asked(study: Study) -> float | None:
    """When the last command asked for the study, in Unix seconds."""
    return max(_asked(study), default=None)


def _times(study: Study) -> Iterator[float]:
    yield from _asked(study)
    for trial in study.trials:
        folder = study.trial_folder(trial)
        if attempt := folder.newest_attempt():
            yield attempt.ended or attempt.began
        if report := unless_damaged(folder.newest_report, None):
            yield report.ts


def _asked(study: Study) -> Iterator[float]:
    for asked in study.asked:
        with suppress(ValueError):
            when = datetime.fromisoformat(asked["ts"])
            yield (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
