"""What each store has of a study, how far it is behind, and which folder its runs belong to.

`mlflow-ledger.json` holds {store: {trial key, or "study": Sent}}. A store is an address without its
password, or ``database.HERE``. Losing the file is harmless: runs are found by the study's random
identity, and a replay with the journal's times changes nothing. `mlflow-sync.json` tells how the
last pass went.

The identity stays when the folder is moved, but a copy has the same one. So the study's run names
the folder that sent it, and each run says what was sent. Another folder with this identity may add
to that, but not change it.
"""

import hashlib
import json
import socket
import time
from collections.abc import Mapping, Sequence
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
from tracking.json_lines.journal import JournalLine, reports_behind
from tracking.mlflow.inputs import inputs_digest
from tracking.mlflow.runs import CARRIED, curve_digest
from tracking.study import STUDY_FILE, Study, StudyTrial, read_study
from tracking.trial import TrialFolder
from tracking.uri import HERE, default_uri, store_name, without_password
from tracking.words import time as as_time

LEDGER = "mlflow-ledger.json"
SYNC_FILE = "mlflow-sync.json"
STUDY = "study"  # the key of the study's own run
EXPERIMENT = "experiment"  # the part of that run that is no digest, but the id of the experiment
INPUTS = "inputs"  # the part that is the digest of the study's files when all had been sent
UNLIKE = "unlike params"  # the part of a trial's run that lists params which MLflow cannot change
IDENTITY, PLACE = "sweep.identity", "sweep.place"
"""Tags: of every run and of the study's own experiment; of the study's run."""
BESIDE = "<paths.runs>/"
MOST_NAMED = 3  # trials in one line of `status`
SENT = {"run": str, "step": int, "result": str | None, "parts": {...: str}}
STATE = {"uri": str, "carried": float | None, "problems": [str]}
"""What an entry of the ledger, and ``mlflow-sync.json``, must hold."""
Tags = Mapping[str, str]


@dataclass(frozen=True)
class Sent:
    """What a run has.

    ``step``: the last one whose points it has. ``result``: SHA-256 of the result whose scores it
    has. ``parts``: the digest of everything else, by name.
    """

    run: str
    step: int = -1
    result: str | None = None
    parts: dict[str, str] = field(default_factory=dict)


class Ledger:
    """The entries of one store. Raises DamagedFileError; with ``begin_again`` only for an
    unreadable file."""

    def __init__(self, study: Path, uri: str, begin_again: bool = False) -> None:
        self._path, self._store = study / LEDGER, store_name(uri, study.parent)
        self._all = unless_lost(lambda: _read(self._path), {}) if begin_again else _read(self._path)

    def get(self, key: str) -> Sent | None:
        found = self._all.get(self._store, {}).get(key)
        return None if found is None else Sent(**{name: found.get(name) for name in SENT})

    def put(self, key: str, sent: Sent) -> None:
        """Raises OSError, and keeps the former entry: the next pass writes this one again."""
        if self.get(key) != sent:
            self._write({**self._all.get(self._store, {}), key: asdict(sent)})

    @property
    def keys(self) -> list[str]:
        """The keys of all entries."""
        return list(self._all.get(self._store, {}))

    def forget(self, key: str) -> None:
        """Raises OSError, and keeps the entry, like ``put``."""
        entries = {
            name: entry for name, entry in self._all.get(self._store, {}).items() if name != key
        }
        if key in self.keys:
            self._write(entries)

    def _write(self, entries: dict[str, Any]) -> None:
        whole = {**self._all, self._store: entries}
        write_atomic(self._path, json.dumps(whole, indent=1) + "\n")
        self._all = whole


def trial_of_run(runs: Path, run_id: str) -> Path | None:
    """The folder of the trial that has this run in a store; None if no readable study below `runs`
    has it."""
    for path in sorted(runs.glob(f"*/{LEDGER}")):
        with suppress(OSError, ValueError):
            keys = {
                key
                for entries in _read(path).values()
                for key, of in entries.items()
                if of["run"] == run_id
            }
            for trial in read_study(path.parent).trials:
                if trial.key in keys:
                    return path.parent / trial.name
    return None


def study_run(study: Path, uri: str) -> Sent | None:
    """What the study's own run has; None before the first sync, or with a damaged ledger."""
    return unless_damaged(lambda: Ledger(study, uri).get(STUDY), None)


def experiment_of(study: Path, uri: str) -> str | None:
    """The experiment with the study's view; None before the first sync, or with a damaged
    ledger."""
    known = study_run(study, uri)
    return None if known is None else known.parts.get(EXPERIMENT)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    return read_object(path, {...: {...: SENT}}) or {}


def sync_lock(study: Path) -> FileLock:
    """The lock that keeps a second process from syncing the study at the same time."""
    return FileLock(study / ".sync.lock")


@dataclass(frozen=True)
class SyncState:
    """`mlflow-sync.json`: how the last pass went. ``uri`` is the store's address without a
    password.

    ``carried``: when something was last sent, in Unix seconds; None before the first pass that
    succeeded.
    """

    uri: str
    carried: float | None = None
    problems: tuple[str, ...] = ()


def note(study: Path, uri: str, points: int = 0, problems: tuple[str, ...] | None = None) -> None:
    """Write `mlflow-sync.json` if a pass changed it. ``problems`` None: before the first pass,
    which may never end.

    A full disk does not end the syncer: the next pass writes the file.
    """
    address = without_password(uri, mark="")
    before = _recorded(study)
    state = before if before is not None and before.uri == address else SyncState(address)
    if problems is not None:
        sent = points or (state.carried is None and not problems)
        state = SyncState(address, time.time() if sent else state.carried, problems)
    if state != before:
        content = vars(state) | {"uri": store_name(address, study.parent)}
        with suppress(OSError):
            write_atomic(study / SYNC_FILE, to_json(content) + "\n")


def _recorded(study: Path) -> SyncState | None:
    """What the last syncer left; None without it. A damaged file counts as none: it is written
    again."""
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
    """``steps``: the last step that the tracker has, by trial key. ``behind``: how many reports are
    still to send.

    ``changed``: whether anything else of the study was changed since all was sent. ``unlike``: by
    trial, the params that MLflow cannot change. ``runs``: whether a process runs the study, and
    sends what changes.
    """

    state: SyncState
    steps: dict[str, int]
    behind: int
    changed: bool = False
    unlike: Mapping[str, str] = field(default_factory=dict)
    runs: bool = False

    def words(self) -> str:
        """One line, such as "12 reports behind, last sent 3 min 05 s ago: ConnectionError: …"."""
        state = self.state
        if not (self.behind or self.changed or state.problems):
            return f"up to date{self._exceptions()}"
        since = None if state.carried is None else as_time(max(0.0, time.time() - state.carried))
        ago = "nothing sent yet" if since is None else f"last sent {since} ago"
        if self.changed and self.runs and not (self.behind or state.problems):
            return f"being synced, {ago}"
        if self.changed and not (self.behind or state.problems):
            return f"the study has changed, {ago}; `allelse sync` sends the rest"
        behind = f"{self.behind} report{'' if self.behind == 1 else 's'} behind, {ago}"
        return ": ".join([behind, "; ".join(state.problems)]) if state.problems else behind

    def _exceptions(self) -> str:
        if not self.unlike:
            return ""
        params = [f"{trial} {names}" for trial, names in self.unlike.items()]
        more = "" if len(params) <= MOST_NAMED else f" and {len(params) - MOST_NAMED} more"
        return f", but MLflow cannot change params: {'; '.join(params[:MOST_NAMED])}{more}"


def lag(study: Study, uri: str | None) -> Lag:
    """Of the tracker at ``uri``. None means the study's last tracker, or the default store before
    the first sync."""
    state = _state(study.folder)
    if uri is not None and without_password(uri, mark="") != state.uri:
        state = SyncState(without_password(uri, mark=""))
    try:
        ledger = Ledger(study.folder, state.uri)
    except DamagedFileError as error:
        return Lag(replace(state, problems=(f"{error}; {error.remedy}",)), {}, 0)
    known = {trial.key: ledger.get(trial.key) or Sent("") for trial in study.trials}
    steps = {key: sent.step for key, sent in known.items() if sent.step >= 0}
    behind = sum(_behind(study, trial, known[trial.key]) for trial in study.trials)
    whole = ledger.get(STUDY)
    begun = whole is not None or any(
        study.trial_folder(trial).attempts_path.exists() for trial in study.trials
    )
    changed = begun and (whole is None or whole.parts.get(INPUTS) != inputs_digest(study))
    unlike = {
        trial.name: params
        for trial in study.trials
        if (params := known[trial.key].parts.get(UNLIKE))
    }
    return Lag(state, steps, behind, changed, unlike, bool(runners(study.folder)))


def _behind(study: Study, trial: StudyTrial, sent: Sent) -> int:
    """How many reports and results could be sent but were not; 0 for a damaged trial."""
    folder = study.trial_folder(trial)
    digest = result_digest(folder)
    scored = digest is not None and digest == sent.result
    finished = scored or folder.finished_result(trial.key) is not None
    count = partial(reports_behind, folder.journal_path, sent.step, finished)
    return unless_damaged(count, 0) + (finished and not scored)


def result_digest(folder: TrialFolder) -> str | None:
    """The SHA-256 of ``result.json``; None without it."""
    content = unless_damaged(lambda: read_whole(folder.result_path), None)
    return None if content is None else hashlib.sha256(content).hexdigest()


class OtherPlaceError(ValueError):
    """The runs are those of another folder, which has other journals or results."""


def place_of(folder: Path, uri: str) -> str:
    """The folder, by its number on its disk, which stays when it is renamed, and by its path.

    The default store lies next to its studies and is copied with them, so there the path begins at
    both.
    """
    beside = uri == default_uri(folder.parent)
    where = f"{BESIDE}{folder.name}" if beside else f"{socket.gethostname()}:{folder.resolve()}"
    return f"{folder.stat().st_ino} {where}"


def refuse_other_place(study: Study, uri: str, place: str, runs: Mapping[str, Tags]) -> None:
    """Raises OtherPlaceError if the runs, by trial key, were sent from ``place`` and this folder
    would change them."""
    number, _, where = place.partition(" ")
    own_number, _, own = place_of(study.folder, uri).partition(" ")
    if not place or number == own_number or where == own:
        return
    others = [
        trial.name
        for trial in study.trials
        if not _goes_on(study.trial_folder(trial), runs.get(trial.key, {}))
    ]
    others += _unknown_here(study, runs)
    if others or _is_there(where, study):
        found = f"{', '.join(others)} differ" if others else "that folder is still there"
        allowed = (
            f"`allelse sync --again sweep.name={study.name}` sends this folder's study as new runs"
        )
        raise OtherPlaceError(
            f"the runs of {study.name} were sent from {where}, and {found}; {allowed}"
        )


def _unknown_here(study: Study, runs: Mapping[str, Tags]) -> list[str]:
    """The trials that have runs, are not of this study, and were not dropped from it: another
    folder's."""
    keys = {STUDY, *(trial.key for trial in study.trials)}
    dropped = {name for asked in study.asked for name in asked.get("dropped", ())}
    names = [
        f"{tags.get('row')}-s{tags.get('seed')}" for key, tags in runs.items() if key not in keys
    ]
    return [name for name in names if name not in dropped]


def carried(step: int, journal: Sequence[JournalLine], result: str | None) -> str:
    """What a run has: its last step, and digests of the reports up to there and of the result."""
    return f"{step} {curve_digest(step, journal)} {result or ''}".strip()


def _goes_on(folder: TrialFolder, tags: Tags) -> bool:
    """Whether the trial has what its run has, and perhaps more."""
    step, _, rest = tags.get(CARRIED, "").partition(" ")
    if not step:
        return True
    now = carried(
        int(step),
        unless_damaged(folder.journal, []),
        result_digest(folder) if " " in rest else None,
    )
    return now == tags[CARRIED]


def _is_there(where: str, study: Study) -> bool:
    """Whether the same study lies there, too."""
    host, _, path = where.partition(":")
    if where.startswith(BESIDE):
        folder = study.folder.with_name(where.removeprefix(BESIDE))
    elif host == socket.gethostname():
        folder = Path(path)
    else:
        return False
    other = (
        unless_damaged(lambda: read_study(folder), None)
        if (folder / STUDY_FILE).is_file()
        else None
    )
    return other is not None and other.mark == study.mark
