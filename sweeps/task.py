"""A task: what a user brings to be swept. This file is the whole public interface;
``docs/your-own.md`` is its guide.

    task = Task("digits", version=1, schema=Config, metrics=(Metric("accuracy", better="up",
    set="test"),), work=train)

Besides the standard library it needs nothing. ``INTERFACE`` rises when a task that works would no
longer do so.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from sweeps.schema import Divided as Divided
from sweeps.schema import Fingerprinted as Fingerprinted
from sweeps.schema import Neutral as Neutral
from sweeps.schema import Observes as Observes
from sweeps.schema import Problem as Problem
from sweeps.schema import Range as Range
from sweeps.schema import RefusedError as RefusedError
from sweeps.schema import Scores as Scores
from sweeps.schema import Seed as Seed
from sweeps.schema import Symbol as Symbol
from sweeps.schema import added_later as added_later
from sweeps.schema import nearest as nearest
from sweeps.schema import parse as parse
from sweeps.schema import settled as settled
from tracking.card import Card as Card
from tracking.card import Metric as Metric

INTERFACE = 2
Config = TypeVar("Config")
Config_co = TypeVar("Config_co", covariant=True)

Numbers = Mapping[str, Any]
"""Numbers by name: whatever ``float()`` takes. Among scores, what a metric names as its
``signature`` and ``within`` may be text."""
Texts = Mapping[str, str]
"""Texts to keep, by their paths in the trial's folder, each in a folder of its own:
``texts/test.txt``."""
NO_TEXTS: Texts = MappingProxyType({})
Told = Callable[[str, float | None], None]
"""Called with what is being done, and the share of it that is done; None if that is unknown."""


@dataclass(frozen=True)
class Saved:
    """The state after ``step``: all that training needs to go on as if it had not stopped."""

    step: int
    state: Any


@dataclass(frozen=True)
class Keep:
    """Which checkpoints stay: the ``newest`` ones, the one with the lowest score, and those of
    ``steps``.

    ``steps`` must follow from keys that decide or score, never from keys that only observe.
    """

    newest: int = 2
    best: bool = False
    steps: Sequence[int] = ()


@dataclass(frozen=True)
class Costs:
    """What a training costs. None means unknown."""

    params: int | None = None
    flops: float | None = None
    checkpoint_bytes: float | None = None  # of all checkpoints that stay at the end


@dataclass(frozen=True)
class PrecisionChoice(Generic[Config]):
    """Which key sets the precision, and how long training takes in each: a plan says which is
    faster on this machine.

    ``seconds`` gives seconds by precision, for some work of the configuration's sizes on one CPU
    thread. It is called once per machine and sizes, and measures in under a second.
    """

    key: str
    seconds: Callable[[Config], Mapping[str, float]]


class Trial(Protocol[Config_co]):
    """One attempt at a trial, as its work sees it on one worker. What workers other than rank zero
    say is ignored.

    Each call is a sign of life: a trial that makes none for ``sweep.stall_minutes`` counts as
    hanging.
    """

    @property
    def config(self) -> Config_co:
        """The trial's configuration. Where training ended early and only scoring is left, the key
        that names its steps has the step at which it ended."""

    @property
    def seed(self) -> int:
        """Set every random generator from it."""

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""

    @property
    def world(self) -> int:
        """How many workers the trial has."""

    @property
    def threads(self) -> int:
        """CPU threads of this worker."""

    @property
    def data(self) -> Path:
        """The folder of the prepared data; without ``prepare`` it is ``paths.data``."""

    @property
    def folder(self) -> Path:
        """For the trial's own files on this machine, which outlive its attempts. A trial that only
        scores begins with a copy of what training has left there."""

    @property
    def saved(self) -> Saved | None:
        """The newest whole checkpoint, the same bytes on every worker; None at the start."""

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """The sets that these weights and settings have scores for already."""

    @property
    def kept_steps(self) -> Collection[int]:
        """The steps whose checkpoints stay: those of ``keep``, and of rows that score these
        weights. Save each."""

    def report(self, step: int, metrics: Numbers) -> None:
        """Keep the metrics after ``step``. Reports of one step are merged; the later value of a
        metric counts."""

    def checkpoint(self, step: int, state: Any, score: float | None = None) -> None:
        """Save the state after ``step``: copied now, written while training goes on.

        The best is the one with the lowest ``score``. Raises StateError for a state that is not
        plain, unless the task has ``save`` and ``load``; training then waits for them.
        """

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        """Keep the scores of the set ``on``. ``samples``: of each sample, the numbers that metrics
        follow from."""

    def notice(self, text: str) -> None:
        """Show a line to the user."""

    def about(self, entries: Mapping[str, Any]) -> None:
        """Add plain entries to the trial's provenance.json."""

    def spent(self, costs: Costs) -> None:
        """Replace the costs that were computed before training."""

    def stopping(self, *, alone: bool = False) -> bool:
        """Whether to stop: save, and return. Ask once per step on every worker; all get one answer.

        They agree by torch.distributed, so it may come a step late. ``alone``: this worker's own
        answer, at any time.
        """

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        """The saved states of these steps, one by one. Call it on every worker. Raises
        MissingStepError."""

    def process_group(self, backend: str | None = None) -> AbstractContextManager[None]:
        """Join the workers by torch.distributed: by NCCL if each has a GPU, else by gloo. One
        worker joins nothing."""


class DivergedError(ArithmeticError):
    """Training or scoring found no finite number at this step: work may raise it, and the trial
    ends as diverged."""

    def __init__(self, why: str, step: int) -> None:
        super().__init__(why, step)
        self.why, self.step = why, step

    def __str__(self) -> str:
        return self.why


class StateError(TypeError):
    """A state that cannot be saved, or one that does not fit."""


class MissingStepError(LookupError):
    """No whole checkpoint of a step; the message names those that are there."""


class Trained(Protocol[Config_co]):
    """A finished trial, as a verb of its task sees it."""

    @property
    def name(self) -> str:
        """Of the study and the trial: ``synthetic-tiny/base-s1``."""

    @property
    def config(self) -> Config_co:
        """Its configuration, with the settings that were typed."""

    @property
    def step(self) -> int:
        """The step at which training ended; for a checkpoint that was named, its own."""

    @property
    def data(self) -> Path:
        """The folder of its prepared data, prepared again if it is gone. Raises RefusedError."""

    @property
    def folder(self) -> Path:
        """The trial's folder."""

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """Scores by set that the folder holds for these weights and settings."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """How the trial came about: provenance.json, with key, seed and costs of a finished one."""

    def configured(self, config: Any) -> "Trained[Config_co]":
        """The same with other settings that only score: ``scored`` and ``evaluated`` are then about
        those.

        Raises RefusedError for conflicts between keys.
        """

    def states(self, steps: Sequence[int] = ()) -> Iterator[Saved]:
        """The saved states of these steps, or that of the last step. Raises RefusedError for one
        that is missing."""

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        """Keep the scores of a set, beside those that the trial has. Raises RefusedError while a
        sweep runs it."""

    def kept(self, text: str) -> Path:
        """Where ``evaluated`` keeps a text; settings other than the trial's own are part of the
        file's name."""

    def register(self, model: Path, name: str) -> str:
        """Register an MLflow model in the trial's run, under ``NAME`` or ``NAME@ALIAS``; its
        README.md is shown there.

        Returns the command that serves it. Raises RefusedError.
        """


class Typed(dict[str, Any]):
    """The settings that were typed after a verb's names, by dotted key: a parameter of this type
    gets them.

    A ``Trained`` has them in its ``config`` already; another folder has not.
    """


@dataclass(frozen=True, eq=False)
class Task(Generic[Config]):
    """``schema`` is a frozen dataclass of groups, each a frozen dataclass of keys: ``model.width``.

    Functions of the configuration must be quick and deterministic: each plan calls them. The trial
    key holds ``name`` and ``version``; raise the version when the same configuration trains to
    another result.
    """

    name: str
    version: int
    schema: type[Config]
    metrics: tuple[Metric, ...]
    steps: Callable[[Config], int]
    work: Callable[[Trial[Config]], None]
    """Trains and scores one trial; torch and the like are best imported inside."""
    base: Config | None = None
    """The values of base. Without it they are read from ``conf/task/NAME/base.yaml``."""
    problems: Callable[[Config], Iterable[Problem]] = lambda *_: ()
    """Conflicts between keys that are each valid alone."""
    cautions: Callable[[Config, Path], Iterable[str]] = lambda *_: ()
    """What is valid but probably unintended, in one line each; the path is that of the prepared
    data, if any."""
    data_problems: Callable[[Config, Path | None], Iterable[Problem]] = lambda *_: ()
    """What is wrong with the data for this configuration, from the folder of prepared data; None
    while it is not prepared yet: then as far as a few seconds show."""
    title: Callable[[Config], str | None] = lambda _: None
    """The beginning of a study's default name; None for the task's name."""
    words: Callable[[Mapping[str, Any]], str] | None = None
    """A row's changed values in words; by default each with its symbol."""
    costs: Callable[[Config], Costs] = lambda _: Costs()
    precision: Callable[[Config], str] = lambda _: "fp32"
    """Of matrix products: fp32, tf32, bf16 or fp16. What the device sustains is measured with it,
    and a plan's hours come only from trials that have the same."""
    precision_choice: PrecisionChoice[Config] | None = None
    """For a task whose precision is a key: then `allelse plan` and `allelse doctor` say if another
    one is faster."""
    memory: Callable[[Config, str], float | None] = lambda *_: None
    """Bytes that one worker holds while it trains on a "cpu", or of its GPU for "cuda"; None if a
    formula cannot tell. Measured memory takes its place."""
    costs_note: str = ""
    """How the costs before training come about, below a plan that has any; by default which of them
    are computed."""
    keep: Callable[[Config], Keep] = lambda _: Keep()
    """Which checkpoints stay."""
    fingerprint: Callable[[Config], str] = lambda _: ""
    """Identifies the data, without reading it where possible: two trials with one fingerprint share
    prepared data."""
    prepare: Callable[[Sequence[Config], Path, Told], None] | None = None
    """Fills an empty folder with the prepared data of all configurations of one fingerprint, once.
    Raises RefusedError for data that they cannot use."""
    texts: Callable[[Path, str], Mapping[str, Sequence[str]]] | None = None
    """The texts of a set's samples, such as sources and references, from the folder of prepared
    data; {} if there are none. `allelse compare` shows them."""
    resolved: Callable[[Config, Path], Config] = lambda config, _: config
    """The configuration with local paths made absolute from the folder where the command was
    typed."""
    save: Callable[[Any, Path], None] | None = None
    """Writes a state that is not plain into an empty folder."""
    load: Callable[[Path], Any] | None = None
    """Reads what ``save`` wrote."""
    diverged: Callable[[Config, Numbers], bool] = lambda *_: False
    """Whether training diverged, by a rule that is declared before it, from the scores after it by
    ``set/metric``. A score of the table that is not finite, and ``DivergedError``, always mean so.
    Such a trial is not retried."""
    early_stop: bool = False
    """Whether a trial may end before its last step and still be finished."""
    watched: Mapping[str, str] = field(default_factory=lambda: {"train/loss": "loss"})
    """Reported metrics that the live table shows, with their headings."""
    verbs: tuple[Callable[..., Any], ...] = ()
    """Commands of the task: Typer functions whose first parameter is a ``Trained``, or a sequence
    of them. With ``Trained | Path`` it may also be a folder that is no trial, such as one that
    another verb wrote. A returned int is the exit code; a returned text is the next command, which
    is shown."""
    card: Card | None = None
    """What files and tables know of the task, where it is more than follows from this."""
