"""How far MLflow is behind a study, and why, for `ablate status`."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from filelock import FileLock

from tracking.damage import DamagedFileError, unless_damaged
from tracking.files import read_object, to_json, write_atomic
from tracking.formats import time as as_time
from tracking.journal import reports_behind
from tracking.ledger import SYNCED_FILE, Ledger, Synced
from tracking.local_store import HERE, store_name
from tracking.replay import PassOutcome, result_digest
from tracking.study import Study, Trial
from tracking.uri import default_uri, without_password

SYNC_FILE = "mlflow-sync.json"


@dataclass(frozen=True)
class SyncState:
    """`mlflow-sync.json`, which names the store as the ledgers do. ``uri`` is its address without a password.

    ``carried``: the last successful pass in Unix seconds, or None before the first."""

    uri: str
    carried: float | None = None
    problems: tuple[str, ...] = ()


def sync_lock(study: Path) -> FileLock:
    """The lock that keeps a second process from syncing the study at the same time."""
    return FileLock(study / ".sync.lock")


class SyncLog:
    """Writes `mlflow-sync.json` for the readers of a study: first the address, then after each pass that changes it."""

    def __init__(self, study: Path, uri: str) -> None:
        self._study, self._carried, self._due = study, False, False
        address = without_password(uri, mark="")
        before = read_state(study)
        known = before is not None and before.uri == address
        self._state = before if before is not None and known else SyncState(address)
        if not known:  # this process may end before the store answers
            self._write()

    def note(self, done: PassOutcome) -> None:
        """Record a pass. A full disk does not end the syncer: the next pass writes the file."""
        state = replace(self._state, problems=done.problems)
        if done.points or not (done.problems or self._carried):
            state = replace(state, carried=time.time())
        if state != self._state or self._due:
            self._state = state
            self._write()
            self._carried = self._carried or not self._due

    def _write(self) -> None:
        """What cannot be written is due with the next pass."""
        self._due = True
        with suppress(OSError):
            write_atomic(self._study / SYNC_FILE, _to_text(self._state, self._study.parent))
            self._due = False


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
        ago = "nothing sent yet" if self.carried is None else f"last sent {_ago(self.carried)} ago"
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


def _to_text(state: SyncState, runs: Path) -> str:
    return to_json(vars(state) | {"uri": store_name(state.uri, runs)}) + "\n"


def lag(study: Study, uri: str | None) -> Lag:
    """Of the tracker at ``uri``. None means the study's last tracker, or the default store before the first sync."""
    state = _state(study.folder)
    if uri is not None and without_password(uri, mark="") != state.uri:
        state = SyncState(without_password(uri, mark=""))
    try:
        ledger = Ledger(study.folder / SYNCED_FILE, state.uri)
    except DamagedFileError as error:
        return Lag(state.uri, {}, 0, state.carried, (f"{error}; {error.remedy}",))
    known = {trial.key: ledger.synced(trial.key) for trial in study.trials}
    steps = {key: synced.step for key, synced in known.items() if synced is not None and synced.step >= 0}
    behind = sum(_behind(study, trial, known[trial.key]) for trial in study.trials)
    return Lag(state.uri, steps, behind, state.carried, state.problems)


def current_store(study: Path) -> str:
    """The address of the study's last tracker, or of the default store before the first sync."""
    return _state(study).uri


def _state(study: Path) -> SyncState:
    return read_state(study) or SyncState(default_uri(study.parent))


def _behind(study: Study, trial: Trial, synced: Synced | None) -> int:
    """How many reports and results could be sent but were not; 0 for a damaged trial."""
    folder, synced = study.trial_folder(trial), synced or Synced("")
    digest = result_digest(folder)
    sent = digest is not None and digest == synced.result
    finished = sent or folder.finished_result(trial.key) is not None
    count = partial(reports_behind, folder.journal_path, synced.step, finished)
    return unless_damaged(count, 0) + (finished and not sent)


def _ago(since: float) -> str:
    return as_time(max(0.0, time.time() - since))
