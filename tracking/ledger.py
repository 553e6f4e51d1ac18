"""The run of each trial in a tracker, and how much of the trial was sent there.

`mlflow-runs.json` holds {store: {trial key: run id}}, `mlflow-synced.json` {store: {trial key: Synced}} and
`mlflow-sent.json` {store: {trial key, or "study": Sent}}. A store is an address, or ``local_store.HERE``. Losing
them is harmless: runs are found again by their tags, and a replay with the journal's times changes nothing.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracking.damage import DamagedFileError, UnreadableError, set_aside, unless_damaged
from tracking.files import read_object, write_atomic
from tracking.local_store import HERE, known_runs, store_name
from tracking.study import read_study

RUNS_FILE, SYNCED_FILE, SENT_FILE = "mlflow-runs.json", "mlflow-synced.json", "mlflow-sent.json"


@dataclass(frozen=True)
class Synced:
    """How far a run is: the last step replayed, and the SHA-256 of the result whose scores were sent."""

    run_id: str
    step: int = -1
    result: str | None = None


@dataclass(frozen=True)
class Sent:
    """What a run has besides its points: a part's name, and its content or the SHA-256 of it."""

    run_id: str
    parts: dict[str, str] = field(default_factory=dict)


class Ledger:
    """One of the three files, for one tracker: trial key -> value. Raises DamagedFileError if the file is unusable."""

    def __init__(self, path: Path, uri: str) -> None:
        self._path, self._store = path, store_name(uri, path.parent.parent)
        self._all = _read(path)
        if self._store == HERE and (known := known_runs(path.parent.parent)) is not None:
            ours = self._all.get(HERE, {})
            self._all[HERE] = {key: value for key, value in ours.items() if _run_id(value) in known}

    def get(self, key: str) -> Any:
        return self._all.get(self._store, {}).get(key)

    def first(self) -> Any:
        """Any entry; None without one."""
        return next(iter(self._all.get(self._store, {}).values()), None)

    def synced(self, key: str) -> Synced | None:
        """An entry of `mlflow-synced.json`."""
        stored = self.get(key)
        return None if stored is None else Synced(**stored)

    def sent(self, key: str) -> Sent | None:
        """An entry of `mlflow-sent.json`."""
        stored = self.get(key)
        return None if stored is None else Sent(stored["run_id"], stored["parts"])

    def parts(self, key: str, run_id: str) -> dict[str, str]:
        """What was sent to this run; nothing if it is another run than before."""
        known = self.sent(key)
        return dict(known.parts) if known is not None and known.run_id == run_id else {}

    def keep(self, key: str, run_id: str, parts: dict[str, str]) -> None:
        self.put(key, {"run_id": run_id, "parts": parts})

    def put(self, key: str, value: Any) -> None:
        if self.get(key) != value:
            self._write({**self._all.get(self._store, {}), key: value})

    def drop(self, key: str) -> None:
        if self.get(key) is not None:
            self._write({other: value for other, value in self._all[self._store].items() if other != key})

    def _write(self, entries: dict[str, Any]) -> None:
        """Raises OSError, and keeps the former entries: the next pass writes these again."""
        whole = {**self._all, self._store: entries}
        write_atomic(self._path, json.dumps(whole, indent=1) + "\n")
        self._all = whole


def clear(path: Path) -> str | None:
    """Set a damaged ledger aside, so that a new one is started. Returns the notice, or None if the ledger is intact.

    Raises UnreadableError."""
    try:
        _read(path)
    except UnreadableError:
        raise
    except DamagedFileError as error:
        return f"{error}; kept as {set_aside(path).name} and started over"
    return None


def trial_of_run(runs: Path, run_id: str) -> Path | None:
    """The folder of the trial that has this run in a tracker; None if no study below `runs` has it.

    An unreadable study is skipped, so that it does not hide the others.
    """
    for path in sorted(runs.glob(f"*/{RUNS_FILE}")):
        try:
            ledgers = _read(path)
            trials = read_study(path.parent).trials
        except (OSError, ValueError):
            continue
        keys = {key for runs_of_one in ledgers.values() for key, known in runs_of_one.items() if known == run_id}
        for trial in trials:
            if trial.key in keys:
                return path.parent / trial.name
    return None


def run_of_trial(folder: Path, key: str, uri: str) -> str | None:
    """The run of the study's trial with this key in the tracker at `uri`; None before the first sync."""
    found = Ledger(folder / RUNS_FILE, uri).get(key)
    return None if found is None else str(found)


def a_run_of(folder: Path, uri: str) -> str | None:
    """Any run of the study in the tracker at `uri`; None before the first sync, or with a damaged ledger."""
    known = unless_damaged(lambda: Ledger(folder / RUNS_FILE, uri), None)
    return None if known is None else known.first()


def experiment_of(folder: Path, uri: str) -> str | None:
    """The experiment in which the study's view lies; None before the first sync, or with a damaged ledger."""
    known = unless_damaged(lambda: Ledger(folder / SENT_FILE, uri).sent("study"), None)
    return None if known is None else known.parts.get("experiment")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    content = read_object(path) or {}
    whole = {RUNS_FILE: _is_run, SENT_FILE: _is_sent}.get(path.name, _is_synced)
    for uri, entries in content.items():
        if not isinstance(entries, dict) or not all(map(whole, entries.values())):
            raise DamagedFileError(path, f"the entries for {uri} are not runs of trials")
    return content


def _run_id(value: Any) -> str:
    """Of an entry of either file."""
    return str(value["run_id"] if isinstance(value, dict) else value)


def _is_run(value: Any) -> bool:
    return isinstance(value, str)


def _is_sent(value: Any) -> bool:
    known = isinstance(value, dict) and isinstance(value.get("run_id"), str) and isinstance(value.get("parts"), dict)
    return known and all(isinstance(part, str) for part in value["parts"].values())


def _is_synced(value: Any) -> bool:
    known = isinstance(value, dict) and value.keys() == {"run_id", "step", "result"}
    return known and isinstance(value["run_id"], str) and isinstance(value["step"], int)
