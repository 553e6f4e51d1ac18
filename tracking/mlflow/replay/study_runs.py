"""The runs of a study in one store: their ids, and which of their parts were sent."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracking.mlflow.ledger import STUDY, Ledger, Sent
from tracking.mlflow.replay.study_files import TrialStamps
from tracking.mlflow.runs import StoredRun, digest_of
from tracking.mlflow.store import Store
from tracking.study import Study, StudyTrial


class StudyRuns:
    """What is known of the runs, by trial key, or ``STUDY`` for the study's own.

    ``ids``: their ids. ``stamps``: those of the files that a trial's run shows. ``due``: keys of
    the runs whose artifacts must be sent. ``folder_mark``: of the folder that sent the runs.
    ``stored``: what the runs hold, by id, if this pass has read it.
    """

    def __init__(self, folder: Path, store: Store, uri: str) -> None:
        self.ids: dict[str, str] = {}
        self.stamps: dict[str, TrialStamps] = {}
        self.due: set[str] = set()
        self.folder_mark = ""
        self.stored: dict[str, StoredRun] = {}
        self._store = store
        self._ledger = Ledger(folder, uri, begin_again=True)

    def keep(self, stored: Iterable[StoredRun]) -> None:
        """Keep these runs, and drop all others: what was sent to those must be sent again."""
        self.stored = {run.id: run for run in stored}
        self.ids = {key: run for key, run in self.ids.items() if run in self.stored}
        self.stamps = {key: stamps for key, stamps in self.stamps.items() if key in self.ids}

    def begun(self, study: Study) -> list[StudyTrial]:
        """The trials whose runs show their files."""
        return [trial for trial in study.trials if trial.key in self.stamps]

    def begin(self, key: str, stored: StoredRun | None) -> Sent:
        """Record what the run has when the replay begins: nothing if it is new."""
        recorded = self._recorded(key)
        if stored is None:
            sent = Sent(self.ids[key])
        elif recorded is None:
            sent = Sent(self.ids[key], stored.carried_step)
        else:
            sent = replace(recorded, step=min(recorded.step, stored.carried_step))
        self._ledger.put(key, sent)
        return sent

    def sent(self, key: str) -> Sent:
        """What was sent to the run."""
        return self._recorded(key) or Sent(self.ids[key])

    def _recorded(self, key: str) -> Sent | None:
        """The ledger's entry; None if it describes a different run."""
        entry = self._ledger.get(key)
        return entry if entry is not None and entry.run == self.ids[key] else None

    def record(self, key: str, **changes: Any) -> None:
        """Write to the ledger what was sent to the run: fields of ``Sent``."""
        self._ledger.put(key, replace(self.sent(key), **changes))

    def record_part(self, key: str, name: str, content: str) -> None:
        """Record a fact of the run that is not sent; "" removes it."""
        parts = self.sent(key).parts | {name: content}
        self.record(key, parts={name: part for name, part in parts.items() if part})

    def send(self, key: str, parts: Mapping[str, Any]) -> int:
        """Send the parts that the run lacks. Returns the number of new points."""
        sent = self.sent(key)
        stored = self.stored.get(sent.run)
        count = 0
        for name, content in parts.items():
            digest = digest_of(content)
            is_there = stored.holds(name, content) if stored is not None else None
            if is_there is None:
                is_there = sent.parts.get(name) == digest
            if not is_there:
                count += self._store.send(sent.run, name, content)
            sent = replace(sent, parts=sent.parts | {name: digest})
        self._ledger.put(key, sent)
        return count

    def forget_others(self, keys: Set[str]) -> None:
        """Keep only what the ledger has of these keys, and the artifacts that are due for them.
        The study's artifacts change if it had more."""
        if self._ledger.forget_others(keys):
            self.due.add(STUDY)
        self.due &= keys
