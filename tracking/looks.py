"""Whether a trial's files changed since they were last read, without reading them."""

from pathlib import Path

from tracking.trial_folder import TrialFolder

Looks = tuple[object, ...]


def files_of(folder: TrialFolder) -> tuple[Path, ...]:
    """All files behind a trial's run."""
    return (*_settled_files(folder), folder.journal_path)


def looks_of(folder: TrialFolder) -> Looks:
    """Of all files behind a trial's run."""
    return tuple(_stamp(path) for path in files_of(folder))


def settled_looks(folder: TrialFolder) -> Looks:
    """Of those that do not grow while the trial trains."""
    return tuple(_stamp(path) for path in _settled_files(folder))


def _settled_files(folder: TrialFolder) -> tuple[Path, ...]:
    return folder.attempts_path, folder.result_path, folder.error_path, folder.config_path, folder.provenance_path


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:  # the file's reader reports the fault
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
