"""What a worker needs to run one attempt at a trial."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Assignment:
    """Plain data: any process can read it before it can import the task."""

    task: str  # its name, as ``task=`` takes it
    folder: str  # from which the task is imported, besides installed packages
    config: dict[str, Any]  # of the task's schema
    seed: int
    attempt: int
    data_folder: str
    data_fingerprint: str
    checkpoints: str  # fsspec URL
    key: str  # of the trial; checkpoints with other keys are neither read nor removed
    threads: int = 1  # CPU threads of each worker
    gpus: float = 0.0  # of each worker
    prepared_as: str = ""  # the identity of the sweep's prepared data; "" allows any
    evaluated: dict[str, dict[str, Any]] = field(default_factory=dict)  # scores by set, from the end of training
    run: str = ""  # of the sweep: the same for all its attempts
    trial: str = ""  # its name, as Ray's tools show it
