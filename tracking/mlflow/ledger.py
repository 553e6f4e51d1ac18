"""What each store has of a study, and whose runs these are.

`mlflow-ledger.json` holds {store: {trial key, or "study": Sent}}. A store is an address without its password, or
``database.HERE``. Losing the file is harmless: runs are found by the study's random identity, and a replay with the
journal's times changes nothing.

The identity stays when the folder is moved, but a copy has it, too. So the study's run names the folder that sent it,
and each run what was sent: another folder with the same identity may go on from there, but not change it.
"""

import hashlib
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tracking.damage import DamagedFileError, unless_damaged, unless_lost
from tracking.files import read_object, read_whole, write_atomic
from tracking.journal import JournalLine
from tracking.mlflow.database import HERE, known_runs, store_name
from tracking.study import STUDY_FILE, Study, read_study
from tracking.trial import TrialFolder
from tracking.uri import default_uri

LEDGER = "mlflow-ledger.json"
STUDY = "study"  # the key of the study's own run
EXPERIMENT = "experiment"  # the part of that run that is no digest, but the id of the experiment


@dataclass(frozen=True)
class Sent:
    """What a run has.

    ``step``: the last one whose points it has. ``result``: SHA-256 of the result whose scores it has. ``parts``: the
    digest of everything else, by name.
    """

    run: str
    step: int = -1
    result: str | None = None
    parts: dict[str, str] = field(default_factory=dict)

    def with_part(self, name: str, digest: str) -> "Sent":
        return replace(self, parts={**self.parts, name: digest})


class Ledger:
    """The entries of one store. Raises DamagedFileError; with ``begin_again`` only for an unreadable file."""

    def __init__(self, study: Path, uri: str, begin_again: bool = False) -> None:
        self._path, self._store = study / LEDGER, store_name(uri, study.parent)
        self._all = unless_lost(lambda: _read(self._path), {}) if begin_again else _read(self._path)
        if self._store == HERE and (known := known_runs(study.parent)) is not None:
            ours = self._all.get(HERE, {})  # a study that was copied alone left its runs behind
            self._all[HERE] = {key: entry for key, entry in ours.items() if entry["run"] in known}

    def get(self, key: str) -> Sent | None:
        found = self._all.get(self._store, {}).get(key)
        return None if found is None else Sent(**found)

    def put(self, key: str, sent: Sent) -> None:
        """Raises OSError, and keeps the former entry: the next pass writes this one again."""
        if self.get(key) != sent:
            entries = {**self._all.get(self._store, {}), key: asdict(sent)}
            whole = {**self._all, self._store: entries}
            write_atomic(self._path, json.dumps(whole, indent=1) + "\n")
            self._all = whole


def trial_of_run(runs: Path, run_id: str) -> Path | None:
    """The folder of the trial that has this run in a store; None if no study below `runs` has it.

    An unreadable study is skipped, so that it does not hide the others.
    """
    for path in sorted(runs.glob(f"*/{LEDGER}")):
        try:
            stores, trials = _read(path).values(), read_study(path.parent).trials
        except (OSError, ValueError):
            continue
        keys = {key for entries in stores for key, entry in entries.items() if entry["run"] == run_id}
        for trial in trials:
            if trial.key in keys:
                return path.parent / trial.name
    return None


def experiment_of(study: Path, uri: str) -> str | None:
    """The experiment with the study's view; None before the first sync, or with a damaged ledger."""
    known = unless_damaged(lambda: Ledger(study, uri).get(STUDY), None)
    return None if known is None else known.parts.get(EXPERIMENT)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    content = read_object(path) or {}
    for store, entries in content.items():
        if not isinstance(entries, dict) or not all(map(_is_sent, entries.values())):
            raise DamagedFileError(path, f"the entries for {store} are not runs of trials")
    return content


def _is_sent(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"run", "step", "result", "parts"}:
        return False
    parts = value["parts"].values() if isinstance(value["parts"], dict) else [None]
    return all(isinstance(text, str) for text in (value["run"], *parts)) and isinstance(value["step"], int)


IDENTITY, PLACE, CARRIED = "sweep.identity", "sweep.place", "sweep.carried"
"""Tags: of every run and of the study's own experiment; of the study's run; of a trial's run."""
BESIDE = "<paths.runs>/"
Tags = Mapping[str, str]


class OtherPlaceError(ValueError):
    """The runs are those of another folder, which has other journals or results."""


def place_of(folder: Path, uri: str) -> str:
    """The folder, by its number on its disk, which stays when it is renamed, and by its path.

    The default store lies next to its studies and is copied with them, so there the path begins at both.
    """
    beside = uri == default_uri(folder.parent)
    where = f"{BESIDE}{folder.name}" if beside else f"{socket.gethostname()}:{folder.resolve()}"
    return f"{folder.stat().st_ino} {where}"


def refuse_other_place(study: Study, uri: str, place: str, runs: Mapping[str, Tags]) -> None:
    """Raises OtherPlaceError if the runs, by trial key, were sent from ``place`` and this folder would change them."""
    number, _, where = place.partition(" ")
    own_number, _, own = place_of(study.folder, uri).partition(" ")
    if not place or number == own_number or where == own:
        return
    others = [trial.name for trial in study.trials if not _goes_on(study.trial_folder(trial), runs.get(trial.key, {}))]
    if others or _is_there(where, study):
        found = f"{', '.join(others)} differ" if others else "that folder is still there"
        names = (
            f"`allelse sync --moved sweep.name={study.name}` replaces its runs, `allelse sync --copy` makes own ones"
        )
        raise OtherPlaceError(f"the runs of {study.name} were sent from {where}, and {found}; {names}")


def carried(step: int, journal: Iterable[JournalLine], result: str | None) -> str:
    """What a run has: its last step, and digests of the reports up to there and of the result."""
    reports = [[line.ts, line.step, line.metrics] for line in journal if line.step <= step]
    return (
        f"{step} {hashlib.sha256(json.dumps(reports, sort_keys=True).encode()).hexdigest()[:16]} {result or ''}".strip()
    )


def result_digest(folder: TrialFolder) -> str | None:
    """The SHA-256 of ``result.json``; None without it."""
    content = unless_damaged(lambda: read_whole(folder.result_path), None)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _goes_on(folder: TrialFolder, tags: Tags) -> bool:
    """Whether the trial has what its run has, and perhaps more."""
    step, _, rest = tags.get(CARRIED, "").partition(" ")
    if not step:
        return True
    now = carried(int(step), unless_damaged(folder.journal, []), result_digest(folder) if " " in rest else None)
    return now == tags[CARRIED]


def _is_there(where: str, study: Study) -> bool:
    """Whether the same study lies there, too."""
    here = f"{socket.gethostname()}:"
    if where.startswith(BESIDE):
        folder = study.folder.with_name(where.removeprefix(BESIDE))
    elif where.startswith(here):
        folder = Path(where.removeprefix(here))
    else:
        return False
    other = unless_damaged(lambda: read_study(folder), None) if (folder / STUDY_FILE).is_file() else None
    return other is not None and other.mark == study.mark
