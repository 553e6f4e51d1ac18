"""What each store has of a study, and how far it is behind.

`mlflow-ledger.json` holds {store: {trial key, or "study": Sent}}. A store is an address without its
password, or ``uri.HERE``. Losing the file is harmless: the study's random identity finds the runs,
and a replay with the journal's times changes nothing. `mlflow-sync.json` tells how the last pass
went.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock

from tracking.activity.runners import runners
from tracking.files import (
    DamagedFileError,
    read_object,
    read_whole,
    to_json,
    unless_damaged,
    unless_lost,
    write_atomic,
)
from tracking.json_lines.journal import reports_behind
from tracking.mlflow.inputs import inputs_digest
from tracking.study import Study, StudyTrial, read_study, record_lock, write_study
from tracking.trial import TrialFolder
from tracking.uri import HERE, default_uri, store_name, without_password
from tracking.words import count_of
from tracking.words import time as as_time

LEDGER = "mlflow-ledger.json"
SYNC_FILE = "mlflow-sync.json"
STUDY = "study"  # the key of the study's own run
EXPERIMENT = "experiment"  # a part of that run: the id of the experiment
INPUTS = "inputs"  # a part of that run: the digest of the study's files once all were sent
UNLIKE = "unlike params"  # a part of a trial's run: params that MLflow cannot change
IDENTITY = "sweep.identity"
"""The tag of every run and of the study's own experiment."""
MOST_NAMED = 3  # trials in one line of `status`
SENT = {"run": str, "step": int, "result": str | None, "parts": {...: str}}
STATE = {"uri": str, "carried": float | None, "problems": [str]}
"""What an entry of the ledger, and ``mlflow-sync.json``, must hold."""
Stores = dict[str, dict[str, dict[str, Any]]]
"""The entries of each store, by key."""


@dataclass(frozen=True)
class Sent:
    """What a run has: the points up to ``step``, the scores of the ``result`` with this SHA-256,
    and ``parts``: the digests of everything else, by name."""

    run: str
    step: int = -1
    result: str | None = None
    parts: dict[str, str] = field(default_factory=dict)


class Ledger:
    """The entries of one store.

    Raises DamagedFileError; with ``begin_again`` only for an unreadable file.
    """

    def __init__(self, study: Path, uri: str, begin_again: bool = False) -> None:
        self._path = study / LEDGER
        self._store = store_name(uri, study.parent)
        if begin_again:
            self._stores = unless_lost(partial(_read, self._path), {})
        else:
            self._stores = _read(self._path)

    @property
    def _entries(self) -> dict[str, dict[str, Any]]:
        return self._stores.get(self._store, {})

    def get(self, key: str) -> Sent | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        return Sent(entry["run"], entry["step"], entry.get("result"), entry["parts"])

    def put(self, key: str, sent: Sent) -> None:
        """Raises OSError, and keeps the former entry: the next pass writes this one again."""
        if self.get(key) != sent:
            self._write({**self._entries, key: asdict(sent)})

    def forget_others(self, keys: Collection[str]) -> bool:
        """Keep only the entries of these keys. Returns whether there were any others.

        Raises OSError, and keeps all entries, like ``put``.
        """
        entries = {key: entry for key, entry in self._entries.items() if key in keys}
        has_others = len(entries) < len(self._entries)
        if has_others:
            self._write(entries)
        return has_others

    def _write(self, entries: dict[str, Any]) -> None:
        stores = {**self._stores, self._store: entries}
        write_atomic(self._path, json.dumps(stores, indent=1) + "\n")
        self._stores = stores


def trial_of_run(runs: Path, run_id: str) -> Path | None:
    """The folder of the trial with this run; None if no readable study below `runs` has it."""
    for path in sorted(runs.glob(f"*/{LEDGER}")):
        with suppress(OSError, ValueError):
            keys = _keys_of_run(_read(path), run_id)
            for trial in read_study(path.parent).trials:
                if trial.key in keys:
                    return path.parent / trial.name
    return None


def _keys_of_run(stores: Stores, run_id: str) -> set[str]:
    keys = set()
    for entries in stores.values():
        keys |= {key for key, entry in entries.items() if entry["run"] == run_id}
    return keys


def study_run(study: Path, uri: str) -> Sent | None:
    """What the study's own run has; None before the first sync, or with a damaged ledger."""
    return unless_damaged(lambda: Ledger(study, uri).get(STUDY), None)


def experiment_of(study: Path, uri: str) -> str | None:
    """The experiment with the study's view; None before the first sync, or if unreadable."""
    sent = study_run(study, uri)
    return None if sent is None else sent.parts.get(EXPERIMENT)


def _read(path: Path) -> Stores:
    return read_object(path, {...: {...: SENT}}) or {}


def sync_lock(study: Path) -> FileLock:
    """The lock that keeps a second process from syncing the study at the same time."""
    return FileLock(study / ".sync.lock")


@dataclass(frozen=True)
class SyncState:
    """`mlflow-sync.json`: how the last pass went. ``uri``: the store's address without a password.

    ``carried``: when something was last sent, in Unix seconds; None before the first successful
    pass.
    """

    uri: str
    carried: float | None = None
    problems: tuple[str, ...] = ()


def note(study: Path, uri: str, points: int = 0, problems: tuple[str, ...] | None = None) -> None:
    """Write `mlflow-sync.json` if it changes. ``problems`` is None before the first pass, which may
    never end.

    A full disk doesn't end the syncer: the next pass writes the file.
    """
    address = without_password(uri, mark="")
    recorded = _recorded(study)
    state = SyncState(address)
    if recorded is not None and recorded.uri == address:
        state = recorded
    if problems is not None:
        has_sent = points or (state.carried is None and not problems)
        state = SyncState(address, time.time() if has_sent else state.carried, problems)
    if state != recorded:
        content = vars(state) | {"uri": store_name(address, study.parent)}
        with suppress(OSError):
            write_atomic(study / SYNC_FILE, to_json(content) + "\n")


def _recorded(study: Path) -> SyncState | None:
    """What the last syncer left; None also if it is damaged: the next pass rewrites it."""
    content = unless_damaged(lambda: read_object(study / SYNC_FILE, STATE), None)
    if content is None:
        return None
    uri = default_uri(study.parent) if content["uri"] == HERE else content["uri"]
    return SyncState(uri, content.get("carried"), tuple(content["problems"]))


def current_store(study: Path) -> str:
    """The address of the study's last store, or of the default store before the first sync."""
    return _state(study).uri


def _state(study: Path) -> SyncState:
    return _recorded(study) or SyncState(default_uri(study.parent))


@dataclass(frozen=True)
class Lag:
    """``steps``: the last step that the tracker has, by trial key. ``behind``: reports still to
    send.

    ``changed``: whether anything else has changed since everything was sent. ``unlike``: by trial,
    the params that MLflow cannot change. ``runs``: whether a process runs the study, and sends the
    changes.
    """

    state: SyncState
    steps: dict[str, int]
    behind: int
    changed: bool = False
    unlike: Mapping[str, str] = field(default_factory=dict)
    runs: bool = False

    def words(self) -> str:
        """One line, such as "12 reports behind, last sent 3 min 05 s ago: ConnectionError: …"."""
        problems = "; ".join(self.state.problems)
        if self.behind or problems:
            behind = self._behind()
            return f"{behind}: {problems}" if problems else behind
        if not self.changed:
            return f"up to date{self._exceptions()}"
        if self.runs:
            return f"being synced, {self._last_sent()}"
        return f"the study has changed, {self._last_sent()}; `allelse sync` sends the rest"

    def _behind(self) -> str:
        reports = count_of(self.behind, "report")
        if self.state.carried is None:
            return f"nothing sent yet, {reports} to send"
        return f"{reports} behind, {self._last_sent()}"

    def _last_sent(self) -> str:
        if self.state.carried is None:
            return "nothing sent yet"
        age = as_time(max(0.0, time.time() - self.state.carried))
        return f"last sent {age} ago"

    def _exceptions(self) -> str:
        if not self.unlike:
            return ""
        params = [f"{trial} {names}" for trial, names in self.unlike.items()]
        sentence = f", but MLflow cannot change params: {'; '.join(params[:MOST_NAMED])}"
        if len(params) > MOST_NAMED:
            sentence += f" and {len(params) - MOST_NAMED} more"
        return sentence


def lag(study: Study, uri: str | None) -> Lag:
    """The lag of the tracker at ``uri``. None means the study's last tracker, or the default store
    before the first sync."""
    state = _state(study.folder)
    if uri is not None and without_password(uri, mark="") != state.uri:
        state = SyncState(without_password(uri, mark=""))
    try:
        ledger = Ledger(study.folder, state.uri)
    except DamagedFileError as error:
        return Lag(replace(state, problems=(f"{error}; {error.remedy}",)), {}, 0)
    steps = {}
    unlike = {}
    behind = 0
    for trial in study.trials:
        sent = ledger.get(trial.key) or Sent("")
        behind += _behind(study, trial, sent)
        if sent.step >= 0:
            steps[trial.key] = sent.step
        if sent.parts.get(UNLIKE):
            unlike[trial.name] = sent.parts[UNLIKE]
    changed = _has_changed(study, ledger.get(STUDY))
    return Lag(state, steps, behind, changed, unlike, bool(runners(study.folder)))


def _has_changed(study: Study, sent: Sent | None) -> bool:
    """Whether the study's files have changed since everything was sent, or were never sent."""
    if sent is not None:
        return sent.parts.get(INPUTS) != inputs_digest(study)
    return any(study.trial_folder(trial).attempts_path.exists() for trial in study.trials)


def _behind(study: Study, trial: StudyTrial, sent: Sent) -> int:
    """How many reports and results could be sent but were not; 0 for a damaged trial."""
    folder = study.trial_folder(trial)
    digest = result_digest(folder)
    is_result_sent = digest is not None and digest == sent.result
    is_finished = is_result_sent or folder.finished_result(trial.key) is not None
    count_reports = partial(reports_behind, folder.journal_path, sent.step, is_finished)
    behind = unless_damaged(count_reports, 0)
    if is_finished and not is_result_sent:
        behind += 1
    return behind


def separate(folder: Path) -> None:
    """Give the study a new identity, so that trackers make new runs. Raises StudyMissing or
    DamagedFileError."""
    with record_lock(folder):
        write_study(replace(read_study(folder), identity=uuid.uuid4().hex))


def result_digest(folder: TrialFolder) -> str | None:
    """The SHA-256 of ``result.json``; None without it."""
    content = unless_damaged(lambda: read_whole(folder.result_path), None)
    return None if content is None else hashlib.sha256(content).hexdigest()
