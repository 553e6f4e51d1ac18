"""What the workers of a trial are told, and what rank zero answers. No torch: a scheduler reads this."""

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
    data_fingerprint: str  # of the text that was planned: no other is opened or prepared
    checkpoints: str  # fsspec URL
    key: str  # of the trial, whose checkpoints alone are read and removed
    threads: int = 1  # CPU threads of each worker
    tokens_per_micro_batch: int = 8_000  # what a worker passes through the model at once: sentences × longest side
    vocabulary: str = ""  # the SHA-256 of the one that the sweep prepared; "" for any
    evaluated: dict[str, dict[str, Any]] = field(default_factory=dict)  # scores by set, of the end of training


@dataclass(frozen=True)
class Started:
    """The workers have met."""

    device: str
    world: int


@dataclass(frozen=True)
class Noticed:
    """Something that a person should know of, such as a damaged checkpoint that was passed over."""

    text: str


@dataclass(frozen=True)
class Report:
    """What is known after ``step``, measured at ``ts`` (Unix seconds); at most one report per step.

    ``checkpoint`` is the step of the newest checkpoint on disk, if it was written since the last report.
    """

    step: int
    metrics: Metrics
    ts: float = field(default_factory=time.time)
    checkpoint: int | None = None

    @staticmethod
    def of(saved: dict[str, Any]) -> "Report":
        """A report from a checkpoint; version 0.1.0 kept the checkpoint's step among the metrics."""
        metrics = dict(saved["metrics"])
        step = metrics.pop("checkpoint", saved.get("checkpoint"))
        return Report(saved["step"], metrics, saved["ts"], None if step is None else int(step))


@dataclass(frozen=True)
class Resumed:
    """Training resumes after ``step``. ``reports`` are all those up to it: some may never have been written down."""

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
    """The trial cannot go on, and would not on another try: the cause, and the traceback."""

    cause: str
    details: str


@dataclass(frozen=True)
class Lost:
    """A worker is gone; another attempt may succeed. The cause, and what is known of it."""

    cause: str
    details: str


Event = Started | Noticed | Resumed | Report | Stopped | Evaluating | Evaluated | Finished | Failed | Lost
