"""A task: what a user brings to be swept. This file is the whole public interface; ``docs/your-own.md`` is its guide.

    task = Task("digits", version=1, schema=Config, metrics=(Metric("accuracy", better="up", set="test"),), work=train)

``INTERFACE`` rises when a task that works would no longer do so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from sweeps.events import Event as Event
from sweeps.events import Noticed as Noticed
from sweeps.events import Report as Report
from tracking.card import Card
from tracking.metrics import Metric as Metric
from transformer.roles import Divided as Divided
from transformer.roles import Fingerprinted as Fingerprinted
from transformer.roles import Observes as Observes
from transformer.roles import Scores as Scores
from transformer.roles import Symbol as Symbol
from transformer.schema import Problem as Problem
from transformer.schema import Range as Range
from transformer.schema import RefusedError as RefusedError
from transformer.versions import Neutral as Neutral

INTERFACE = 1
Config = TypeVar("Config")


@dataclass(frozen=True)
class Checkpoint:
    """The state after ``step``, to be saved: all that training needs to go on as if it had not stopped."""

    step: int
    state: Any


@dataclass(frozen=True)
class Evaluation:
    """The scores of one set by metric, and texts to keep, by their paths in the trial's folder.

    ``samples``: of each sample of the set, in its order, the numbers that metrics name in ``from_counts``. With them
    `ablate compare` tests differences over samples, and names those that differ most.
    """

    set_name: str
    scores: Mapping[str, float]
    artifacts: Mapping[str, str] = field(default_factory=dict)
    samples: Iterable[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Costs:
    """What a training costs. None means unknown."""

    params: int | None = None
    flops: float | None = None
    checkpoint_bytes: float | None = None  # of all checkpoints that stay at the end


Yielded = Report | Checkpoint | Evaluation | Noticed | Costs
"""What ``Task.work`` yields. Costs replace those that were computed before training."""


@dataclass(frozen=True)
class Assignment:
    """One attempt at one trial, as plain data: any process can read it before it can import the task."""

    task: str  # module:attribute
    folder: str  # from which the task is imported, besides installed packages
    config: dict[str, Any]  # of the task's schema
    seed: int
    attempt: int
    data_folder: str
    data_fingerprint: str
    checkpoints: str  # fsspec URL
    key: str  # of the trial; checkpoints with other keys are neither read nor removed
    threads: int = 1  # CPU threads of each worker
    tokens_per_micro_batch: int = 8_000
    prepared_as: str = ""  # the identity of the sweep's prepared data; "" allows any
    evaluated: dict[str, dict[str, Any]] = field(default_factory=dict)  # scores by set, from the end of training
    run: str = ""  # of the sweep: the same for all its attempts


@dataclass(frozen=True)
class Trial(Generic[Config]):
    """One attempt, as seen by a worker of its group. Only what rank zero yields is used.

    ``saved`` is the newest whole checkpoint, None at the start. ``stopping()`` is true once a stop was requested:
    yield a checkpoint soon, and the trial ends there.
    """

    config: Config
    seed: int
    data: Path
    saved: Checkpoint | None
    stopping: Callable[[], bool]
    rank: int = 0
    world: int = 1
    address: str = ""
    threads: int = 1

    @contextmanager
    def process_group(self, backend: str = "gloo") -> Iterator[None]:
        """Join the workers by torch.distributed. With one worker it does nothing, and needs no torch."""
        if self.world == 1:
            yield
            return
        import torch.distributed

        from transformer.processes.rendezvous import form_group

        form_group(backend, self.address, self.rank, self.world)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()


Told = Callable[[str, float | None], None]
"""Called with what is being done, and the share of it that is done; None if that is unknown."""
Work = Callable[[Trial[Config]], Iterator[Yielded]]
Worker = Callable[[Assignment, int, int, str, Callable[[], bool]], Iterator[Event]]


@dataclass(frozen=True)
class Preparation(Generic[Config]):
    """For a task that keeps its own store of prepared data below ``paths.data``.

    ``prepare(configs, folder, fingerprint, told)`` takes all configurations that share the data. ``identity(folder,
    fingerprint)`` tells one prepared copy from another, "" if there is none: a trial must go on with the copy that it
    began with. ``folder(folder, fingerprint)`` is where it lies.
    """

    prepare: Callable[[Sequence[Config], Path, str, Told], None]
    identity: Callable[[Path, str], str]
    folder: Callable[[Path, str], Path]


def _nothing(*_: Any) -> Iterable[Any]:
    return ()


def _no_data(config: Any) -> str:
    return ""


def _unknown(config: Any) -> Costs:
    return Costs()


def _own_name(config: Any) -> str | None:
    return None


def _as_given(config: Any, here: Path) -> Any:
    return config


@dataclass(frozen=True, eq=False)
class Task(Generic[Config]):
    """``schema`` is a frozen dataclass of groups, each a frozen dataclass of keys: ``model.width``.

    Functions of the configuration must be quick and deterministic: each plan calls them. The trial key holds ``name``
    and ``version``; raise the version when the same configuration trains to another result.
    """

    name: str
    version: int
    schema: type[Config]
    metrics: tuple[Metric, ...]
    steps: Callable[[Config], int]
    work: Work[Config] | None = None
    problems: Callable[[Config], Iterable[Problem]] = _nothing
    """Conflicts between keys that are each valid alone."""
    cautions: Callable[[Config, Path], Iterable[str]] = _nothing
    """What is valid but probably unintended, in one line each; the path is that of the prepared data, if any."""
    data_problems: Callable[[Config], Iterable[Problem]] = _nothing
    """What is wrong with data that is not prepared yet, as far as a few seconds show."""
    title: Callable[[Config], str | None] = _own_name
    """The beginning of a study's default name; None for the task's name."""
    described: Callable[[Mapping[str, Any]], str] | None = None
    """A row's changed values in words; by default each with its symbol."""
    costs: Callable[[Config], Costs] = _unknown
    costs_note: str = "params and FLOPs are computed"
    """How the costs before training come about, below a plan."""
    fingerprint: Callable[[Config], str] = _no_data
    """Identifies the data, without reading it where possible: two trials with one fingerprint share prepared data."""
    prepare: Callable[[Config, Path], None] | None = None
    """Fills an empty folder with the prepared data, once per fingerprint. Raises RefusedError for unusable data."""
    preparation: Preparation[Config] | None = None
    """Instead of ``prepare``."""
    sample_texts: Callable[[Path, str], Mapping[str, Sequence[str]]] | None = None
    """The texts of a set's samples, such as sources and references, from the folder of prepared data; {} if there are
    none. `ablate compare` shows them."""
    resolved: Callable[[Config, Path], Config] = _as_given
    """The configuration with local paths made absolute from the folder where the command was typed."""
    save: Callable[[Any, Path], None] | None = None
    """Writes a state into an empty folder; by default as a pickle."""
    load: Callable[[Path], Any] | None = None
    """Reads what ``save`` wrote."""
    watched: Mapping[str, str] = field(default_factory=lambda: {"train/loss": "loss"})
    """Reported metrics that the live table shows, with their headings."""
    card: Card | None = None
    """What files and tables know of the task, where it is more than follows from this."""
    worker: str | None = None
    """Instead of ``work``, for a task that saves and resumes by itself: the ``module:function`` that yields the events
    of ``sweeps/events.py``. Only workers import it."""
