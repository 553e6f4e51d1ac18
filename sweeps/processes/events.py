"""The events and orders that a sweep and the workers of a trial exchange. Plain data: no torch, no
Ray."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweeps.processes.times import POLL_S
from tracking.attempts import Lineage
from tracking.weights import WEIGHTS, WeightsRecord

Head = dict[str, Any]
"""The first line of a set's statistics: which weights have which scores."""
SetScores = dict[str, Any]
"""The scores of a set, and the settings that they were made with."""


@dataclass(frozen=True)
class HostWeights:
    """The trained weights of another trial, which an attempt only scores. It reads them in their
    own folder."""

    trial: str  # the name of that trial
    checkpoints: str  # fsspec URL
    key: str
    step: int  # at which its training ended
    attempt: int  # its last one
    lineage: Lineage
    record: WeightsRecord  # identifies the training that made them

    def are_in(self, attempt: int, step: int) -> bool:
        """Whether the checkpoint that this attempt wrote after this step has them."""
        is_recorded = "run" in self.record  # earlier versions did not record which attempt trained
        return step == self.step and (not is_recorded or attempt == self.record["attempt"])


@dataclass(frozen=True)
class Assignment:
    """Plain data: any process can read it before it can import the task."""

    task: str  # its name, as ``task=`` takes it
    folder: str  # from which the task is imported, with installed packages
    config: dict[str, Any]  # of the task's schema
    seed: int
    attempt: int
    data_folder: str
    data_fingerprint: str
    checkpoints: str  # fsspec URL
    key: str  # of the trial; checkpoints with other keys or lineages are neither read nor removed
    threads: int = 1  # CPU threads of each worker
    gpus: float = 0.0  # of each worker
    prepared_as: str = ""  # the identity of the sweep's prepared data; "" allows any
    # by set, the head of its samples
    evaluated: dict[str, Head] = field(default_factory=dict)
    run: str = ""  # of the sweep: the same for all its attempts
    trial: str = ""  # its name, as Ray's tools show it
    lineage: Lineage = field(default_factory=Lineage)
    code: str = ""  # the hash of the user's code; "" for our own task
    study_folder: str = ""  # which has that code, where this machine sees it
    sustained_tflops: float | None = None  # of each device, as typed
    weights: HostWeights | None = None  # to be scored only; None if the trial trains its own
    kept_steps: tuple[int, ...] = ()  # the checkpoints to keep, in addition to the task's
    # the step at which its training is over, if that is before the planned one
    ended: int | None = None

    def head(self, step: int, attempt: int) -> Head:
        """The first entries of a set's statistics, for weights of ``step`` that ``attempt`` trained
        last."""
        head: Head = {"key": self.key, "step": step, "attempt": attempt}
        if self.code:
            head["code"] = self.code
        if self.weights:
            head[WEIGHTS] = self.weights.record
        return head


@dataclass(frozen=True)
class Order:
    """The attempt to run; None if there is nothing to do. ``stop``: save a checkpoint after this
    step, and end.

    ``poll_s`` is how long a poll of the workers takes.
    """

    assignment: Assignment | None
    stop: bool = False
    poll_s: float = POLL_S


Metrics = dict[str, float]


@dataclass(frozen=True)
class Started:
    """The worker group has formed. ``hosts`` are the nodes of its workers, rank zero's first; () if
    unknown.

    ``process`` is the provenance of rank zero's.
    """

    device: str
    hosts: tuple[str, ...] = ()
    process: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Noticed:
    """A notice for the user, such as a damaged checkpoint that was skipped. ``quiet``: only for
    log.txt."""

    text: str
    quiet: bool = False


@dataclass(frozen=True)
class About:
    """Entries of the attempt's provenance: ``about``, the task's own, or ``versions`` of all
    imported packages."""

    entries: dict[str, Any]


@dataclass(frozen=True)
class Report:
    """The metrics after ``step``, measured at ``ts`` (Unix seconds). A later one of the same step
    has all of them.

    ``checkpoint`` is the step of the newest checkpoint on disk, if it was written since the last
    report. ``synced``: the journal must be on disk up to this report before another one is taken.
    """

    step: int
    metrics: Metrics
    ts: float = field(default_factory=time.time)
    checkpoint: int | None = None
    synced: bool = False


@dataclass(frozen=True)
class Resumed:
    """Training resumes after ``step``. ``reports`` holds those up to it that may be missing from
    the journal.

    ``attempt`` is the one that wrote the checkpoint.
    """

    step: int
    reports: tuple[Report, ...]
    attempt: int | None = None


@dataclass(frozen=True)
class Stopped:
    """Training stopped as requested, before its end. The checkpoint of ``step`` is on disk."""

    step: int


@dataclass(frozen=True)
class Evaluated:
    """One set's scores, and the texts that belong to them, by their paths in the trial's folder."""

    step: int
    set_name: str
    scores: SetScores
    artifacts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """Costs, and scores by set. ``steps`` were planned, if training ended before them.
    ``diverged``: at this step.

    ``trained_in``: the attempt that trained the weights last.
    """

    step: int
    costs: dict[str, Any]
    scores: dict[str, SetScores]
    steps: int | None = None
    diverged: int | None = None
    trained_in: int = 0


@dataclass(frozen=True)
class Failed:
    """The trial failed, and a retry would fail too: the cause, and the traceback."""

    cause: str
    details: str


@dataclass(frozen=True)
class Lost:
    """A worker was lost; another attempt may succeed. The cause, and its details.

    ``memory``: it ran out of memory, so after a second time another attempt is hopeless. ``peer``:
    it only noticed that another worker is gone. ``unfit``: its node would train other code, so the
    sweep must end.
    """

    cause: str
    details: str
    memory: bool = False
    peer: bool = False
    unfit: bool = False


@dataclass(frozen=True)
class Printed:
    """Whole lines that the process of a worker printed."""

    rank: int
    text: str


Event = (
    Started
    | Noticed
    | About
    | Resumed
    | Report
    | Evaluated
    | Finished
    | Stopped
    | Failed
    | Lost
    | Printed
)
