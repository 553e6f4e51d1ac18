"""What ``provenance.json`` says of the attempts of a trial."""

from collections.abc import Mapping
from typing import Any

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.processes.events import Started
from tracking.files import to_json, write_atomic
from tracking.provenance import Provenance, attempts, with_attempt, with_scoring


class ProvenanceFile:
    """The ``provenance.json`` of a planned trial.

    ``origin`` holds for all attempts of this sweep. ``prepared_as``: the hash of the prepared data
    when it began.
    """

    def __init__(self, planned: PlannedTrial, origin: Mapping[str, Any], prepared_as: str) -> None:
        self._planned = planned
        self._folder = planned.folder
        self._origin = origin
        self._prepared_as = prepared_as

    def add(self, attempt: int, begun_after: int, entries: Provenance) -> None:
        """Add these to the record of the attempt, which began after this step."""
        start = {"attempt": attempt, "from": begun_after, "steps": self._planned.steps}
        record = start | self._record_of(attempt) | entries
        self._write(with_attempt(self._folder.provenance(), record))

    def start(self, event: Started) -> Provenance:
        """Where an attempt runs, and what it runs."""
        source = self._planned.settings.source
        cluster = self._planned.settings.cluster
        hosts = event.hosts
        return {
            "commit": None,
            **self._origin,
            **event.process,
            **({"host": hosts[0]} if hosts else {}),
            "hosts": sorted({*hosts}) or [event.process.get("host")],
            "device": event.device,
            "threads": cluster.cpus_per_worker,
            "gpus_per_worker": cluster.gpus_per_worker,
            "data_fingerprint": self._planned.fingerprint,
            "data_identity": self._prepared_as,
            "task": {
                "name": source.task.name,
                "version": source.task.version,
                "source": source.name,
            },
        }

    def add_scoring(self, attempt: int, set_name: str) -> None:
        """Record what scored this set, which may happen long after training."""
        record = self._record_of(attempt)
        self._write(with_scoring(self._folder.provenance(), record, set_name))

    def _record_of(self, attempt: int) -> Provenance:
        """The record of this attempt so far; {} if it has none."""
        for record in attempts(self._folder.provenance()):
            if record.get("attempt") == attempt:
                return record
        return {}

    def _write(self, content: Provenance) -> None:
        content = {"commit": None} | content
        write_atomic(self._folder.provenance_path, to_json(content) + "\n")
