"""The assignment that a trial's workers get, and rank zero's events. No torch: a scheduler imports this."""

import time
from dataclasses import dataclass, field
from typing import Any

from transformer.config import TrialConfig

Metrics = dict[str, float]


@dataclass(frozen=True)
class Assignment:
    """One attempt at one trial."""

    config: TrialConfig
    attempt: int
    data_folder: str
    data_fingerprint: str  # of the planned text; no other text is opened or prepared
    checkpoints: str  # fsspec URL
    key: str  # of the trial; checkpoints with other keys are neither read nor removed
    threads: int = 1  # CPU threads of each worker
    tokens_per_micro_batch: int = 8_000  # limit of a worker's micro-batch: sentences × longest side
    vocabulary: str = ""  # SHA-256 of the vocabulary that the sweep prepared; "" allows any
    evaluated: dict[str, dict[str, Any]] = field(default_factory=dict)  # scores by set, from the end of training
    run: str = ""  # of the sweep: the same for all its attempts


@dataclass(frozen=True)
class Started:
    """The worker group has formed."""

    device: str
    world: int


@dataclass(frozen=True)
class Noticed:
    """A notice for the user, such as a damaged checkpoint that was skipped."""

    text: str


@dataclass(frozen=True)
class Report:
    """The metrics after ``step``, measured at ``ts`` (Unix seconds); at most one report per step.

    ``checkpoint`` is the step of the newest checkpoint on disk, if it was written since the last report.
    """

    step: int
    metrics: Metrics
    ts: float = field(default_factory=time.time)
    checkpoint: int | None = None


@dataclass(frozen=True)
class Resumed:
    """Training resumes after ``step``. ``reports`` holds all reports up to it; some may be missing from the journal."""

    step: int
    reports: tuple[Report, ...]


@dataclass(frozen=True)
class Stopped:
    """Training stopped as requested, before its end. The checkpoint of ``step`` is on disk."""

    step: int


@dataclass(frozen=True)
class Evaluating:
    """Training is over; the sets are being translated and scored."""

    step: int


@dataclass(frozen=True)
class Evaluated:
    """One set's scores, the hypotheses that they were computed from, and what each sentence adds to them."""

    step: int
    set_name: str
    scores: dict[str, Any]
    hypotheses: list[str]
    statistics: list[dict[str, Any]]


@dataclass(frozen=True)
class Finished:
    """Costs, and scores by set."""

    step: int
    costs: dict[str, Any]
    scores: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Failed:
    """The trial failed, and a retry would fail too: the cause, and the traceback."""

    cause: str
    details: str


@dataclass(frozen=True)
class Lost:
    """A worker was lost; another attempt may succeed. The cause, and its details."""

    cause: str
    details: str


Event = Started | Noticed | Resumed | Report | Stopped | Evaluating | Evaluated | Finished | Failed | Lost
