"""How far MLflow is behind a study, and why, for `allelse status`."""

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock

from tracking.damage import DamagedFileError, unless_damaged
from tracking.files import read_object, to_json, write_atomic
from tracking.journal import reports_behind
from tracking.mlflow.database import HERE, store_name
from tracking.mlflow.ledger import Ledger, Sent, result_digest
from tracking.mlflow.replay import PassOutcome
from tracking.study import Study, Trial
from tracking.uri import default_uri, without_password
from tracking.words import time as as_time

SYNC_FILE = "mlflow-sync.json"


@dataclass(frozen=True)
class SyncState:
    """`mlflow-sync.json`: how the last pass went. ``uri`` is the store's address without a password.

    ``carried``: when something was last sent, in Unix seconds; None before the first pass that succeeded."""

    uri: str
    carried: float | None = None
    problems: tuple[str, ...] = ()


def sync_lock(study: Path) -> FileLock:
    """The lock that keeps a second process from syncing the study at the same time."""
    return FileLock(study / ".sync.lock")


def note(study: Path, uri: str, done: PassOutcome | None) -> None:
    """Write `mlflow-sync.json` if a pass changed it; None: before the first pass, which may never end.

    A full disk does not end the syncer: the next pass writes the file."""
    address = without_password(uri, mark="")
    before = read_state(study)
    state = before if before is not None and before.uri == address else SyncState(address)
    if done is not None:
        sent = done.points or (state.carried is None and not done.problems)
        state = SyncState(address, time.time() if sent else state.carried, done.problems)
    if state != before:
        content = vars(state) | {"uri": store_name(address, study.parent)}
        with suppress(OSError):
            write_atomic(study / SYNC_FILE, to_json(content) + "\n")


@dataclass(frozen=True)
class Lag:
    """``steps``: the last step that the tracker has, by trial key. ``behind``: how many reports are still to send."""

    uri: str
    steps: dict[str, int]
    behind: int
    carried: float | None
    problems: tuple[str, ...]

    def words(self) -> str:
        """One line, such as "12 reports behind, last sent 3 min 05 s ago: ConnectionError: …"."""
        if not (self.behind or self.problems):
            return "up to date"
        since = None if self.carried is None else as_time(max(0.0, time.time() - self.carried))
        ago = "nothing sent yet" if since is None else f"last sent {since} ago"
        behind = f"{self.behind} report{'s' * (self.behind != 1)} behind, {ago}"
        return ": ".join([behind, "; ".join(self.problems)] if self.problems else [behind])


def read_state(study: Path) -> SyncState | None:
    """The state that the last syncer left; None without one. A damaged file counts as none: it is written again."""
    content = unless_damaged(lambda: read_object(study / SYNC_FILE), None) or {}
    uri, carried, problems = content.get("uri"), content.get("carried"), content.get("problems")
    if not (isinstance(uri, str) and isinstance(problems, list)):
        return None
    uri = default_uri(study.parent) if uri == HERE else uri
    return SyncState(uri, carried if isinstance(carried, int | float) else None, tuple(map(str, problems)))


def lag(study: Study, uri: str | None) -> Lag:
    """Of the tracker at ``uri``. None means the study's last tracker, or the default store before the first sync."""
    state = _state(study.folder)
    if uri is not None and without_password(uri, mark="") != state.uri:
        state = SyncState(without_password(uri, mark=""))
    try:
        ledger = Ledger(study.folder, state.uri)
    except DamagedFileError as error:
        return Lag(state.uri, {}, 0, state.carried, (f"{error}; {error.remedy}",))
    known = {trial.key: ledger.get(trial.key) for trial in study.trials}
    steps = {key: sent.step for key, sent in known.items() if sent is not None and sent.step >= 0}
    behind = sum(_behind(study, trial, known[trial.key]) for trial in study.trials)
    return Lag(state.uri, steps, behind, state.carried, state.problems)


def current_store(study: Path) -> str:
    """The address of the study's last store, or of the default store before the first sync."""
    return _state(study).uri


def _state(study: Path) -> SyncState:
    return read_state(study) or SyncState(default_uri(study.parent))


def _behind(study: Study, trial: Trial, sent: Sent | None) -> int:
    """How many reports and results could be sent but were not; 0 for a damaged trial."""
    folder, sent = study.trial_folder(trial), sent or Sent("")
    digest = result_digest(folder)
    scored = digest is not None and digest == sent.result
    finished = scored or folder.finished_result(trial.key) is not None
    count = partial(reports_behind, folder.journal_path, sent.step, finished)
    return unless_damaged(count, 0) + (finished and not scored)
