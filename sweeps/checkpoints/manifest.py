"""The manifest of a checkpoint: what it holds, who wrote it, and the checksums of its files."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sweeps.processes.events import Report
from sweeps.random_states import RandomStates

MANIFEST = "manifest.json"
SUM = "sha256"  # of the manifest's other fields


class DamagedCheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


@dataclass(frozen=True)
class Manifest:
    """``files``: bytes and SHA-256 by name. ``reports``: those up to the step that the journal may
    lack on disk.

    ``score`` decides the best, the lowest one. ``outline`` is the state's; None with the task's own
    ``save``. ``lineage`` and ``run`` are those of the attempt that wrote it, and ``code`` the hash
    of the user's code that it trained with: "" where they are not known. ``random``: the random
    states, if the work asked to keep them.
    """

    key: str
    step: int
    seconds: float  # of training so far
    score: float | None = None
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    outline: Any = None
    reports: tuple[Report, ...] = ()
    lineage: str = ""
    run: str = ""
    code: str = ""
    cpu_seconds: float | None = None  # of training so far; None if an earlier version counted none
    random: RandomStates | None = None

    def content(self) -> bytes:
        fields = {**vars(self), "reports": [asdict(report) for report in self.reports]}
        if self.random is None:
            del fields["random"]  # as versions without it write it
        return _compact(fields | {SUM: hashlib.sha256(_compact(fields)).hexdigest()})

    @property
    def digest(self) -> str:
        """A hash that identifies this checkpoint."""
        return hashlib.sha256(self.content()).hexdigest()

    @staticmethod
    def of(content: bytes) -> "Manifest":
        """Raises DamagedCheckpointError."""
        try:
            fields = json.loads(content)
            expected = fields.pop(SUM)
            if hashlib.sha256(_compact(fields)).hexdigest() != expected:
                raise DamagedCheckpointError(f"{MANIFEST} does not match its checksum")
            files = {
                name: (int(size), str(digest)) for name, (size, digest) in fields["files"].items()
            }
            reports = tuple(Report(**report) for report in fields["reports"])
            return Manifest(**fields | {"files": files, "reports": reports})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, DamagedCheckpointError):
                raise
            raise DamagedCheckpointError(f"{MANIFEST} cannot be read") from None


@dataclass(frozen=True, order=True)
class CheckpointId:
    """The step and attempt of one checkpoint. The newest has the latest step, and among equals the
    latest attempt."""

    step: int
    attempt: int

    def __str__(self) -> str:
        return f"a{self.attempt}/step-{self.step}"


def _compact(fields: Mapping[str, Any]) -> bytes:
    """JSON in the order of the fields: the order of a state's dicts is part of the state."""
    return json.dumps(fields, separators=(",", ":")).encode()


def finite(score: float | None) -> float | None:
    """None for a score that decides nothing."""
    return score if score is not None and math.isfinite(score) else None
