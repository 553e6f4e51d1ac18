"""A task: what you bring to a sweep. This file is the whole public interface, and
``docs/your-own.md`` is its guide.

    task = Task("digits", version=1, schema=Config, metrics=(Metric("accuracy", better="up",
    set="test"),), work=train)

It needs only the standard library. ``INTERFACE`` is bumped on breaking changes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from sweeps.fields import Divided as Divided
from sweeps.fields import Fingerprinted as Fingerprinted
from sweeps.fields import Neutral as Neutral
from sweeps.fields import Observes as Observes
from sweeps.fields import Range as Range
from sweeps.fields import Scores as Scores
from sweeps.fields import Seed as Seed
from sweeps.fields import Symbol as Symbol
from sweeps.fields import added_later as added_later
from sweeps.fields import parse as parse
from sweeps.fields import settled as settled
from sweeps.problems import Problem as Problem
from sweeps.problems import RefusedError as RefusedError
from sweeps.problems import nearest as nearest
from tracking.card import Card as Card
from tracking.card import Metric as Metric

INTERFACE = 2
Config = TypeVar("Config")
Config_co = TypeVar("Config_co", covariant=True)

Numbers = Mapping[str, Any]
"""Numbers by name: whatever ``float()`` takes. A metric's ``signature`` and ``within`` may name text."""
Texts = Mapping[str, str]
"""Texts to keep, by their paths in the trial's folder, each in a subfolder: ``texts/test.txt``."""
NO_TEXTS: Texts = MappingProxyType({})
Told = Callable[[str, float | None], None]
"""Reports progress: what you are doing, and the finished share, or None if that is unknown."""


@dataclass(frozen=True)
class Saved:
    """The state after ``step``: everything training needs to go on as if it had not stopped."""

    step: int
    state: Any


@dataclass(frozen=True)
class Keep:
    """Which checkpoints stay: the ``newest``, the one with the lowest score, and those of ``steps``.

    ``steps`` must follow from keys that decide or score, never from keys that only observe.
    """

    newest: int = 2
    best: bool = False
    steps: Sequence[int] = ()


@dataclass(frozen=True)
class Costs:
    """What training costs. None means unknown."""

    params: int | None = None
    flops: float | None = None
    checkpoint_bytes: float | None = None  # of all checkpoints that stay at the end


@dataclass(frozen=True)
class PrecisionChoice(Generic[Config]):
    """Which key sets the precision, and how long training takes in each: a plan says which is
    faster on this machine.

    ``seconds`` measures some work of the configuration's sizes on one CPU thread, and returns
    seconds by precision. It is called once per machine and sizes. It must take under a second.
    """

    key: str
    seconds: Callable[[Config], Mapping[str, float]]


class Trial(Protocol[Config_co]):
    """One attempt at a trial, as its work sees it on one worker. Only rank zero's reports count.

    Each call is a sign of life: a trial that makes none for ``sweep.stall_minutes`` counts as
    hanging.
    """

    @property
    def config(self) -> Config_co:
        """The trial's configuration. If training ended early and only scoring is left, the key for
        the number of steps holds the step at which it ended."""

    @property
    def seed(self) -> int:
        """Seed every random generator with it."""

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
        """The folder of prepared data; ``paths.data`` if the task has no ``prepare``."""

    @property
    def folder(self) -> Path:
        """A folder for the trial's own files on this machine; they outlive an attempt. A trial that
        only scores starts with a copy of what training left there."""

    @property
    def saved(self) -> Saved | None:
        """The newest complete checkpoint, the same bytes on every worker; None at the start."""

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """The scores that these weights and settings already have, by set."""

    @property
    def kept_steps(self) -> Collection[int]:
        """The steps whose checkpoints stay: those of ``keep``, and those that rows score.

        Save each of them.
        """

    def report(self, step: int, metrics: Numbers) -> None:
        """Record the metrics after ``step``.

        Reports of one step are merged; the last value of a metric counts.
        """

    def checkpoint(self, step: int, state: Any, score: float | None = None) -> None:
        """Save the state after ``step``: copied now, written while training goes on.

        The best checkpoint has the lowest ``score``. Raises StateError for a state that is not
        plain, unless the task has ``save`` and ``load``; training waits for these.
        """

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        """Record the scores of the set ``on``. ``samples`` holds the numbers of each sample from
        which metrics follow."""

    def notice(self, text: str) -> None:
        """Show a line to the user."""

    def about(self, entries: Mapping[str, Any]) -> None:
        """Add plain entries to the trial's provenance.json."""

    def spent(self, costs: Costs) -> None:
        """Replace the costs that were computed before training."""

    def stopping(self, *, alone: bool = False) -> bool:
        """Whether to save and return. Ask once per step on every worker; all get the same answer.

        Workers agree over torch.distributed, so it may come a step late. With ``alone``, this
        worker answers for itself, at any time.
        """

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        """Yield the saved states of these steps. Call it on every worker.

        Raises MissingStepError.
        """

    def process_group(self, backend: str | None = None) -> AbstractContextManager[None]:
        """Connect the workers over torch.distributed: NCCL if each has a GPU, otherwise gloo. Does
        nothing for a single worker."""


class DivergedError(ArithmeticError):
    """Training or scoring reached a number that is not finite at this step. Work may raise it; the
    trial then ends as diverged."""

    def __init__(self, why: str, step: int) -> None:
        super().__init__(why, step)
        self.why = why
        self.step = step

    def __str__(self) -> str:
        return self.why


class StateError(TypeError):
    """A state that cannot be saved, or one that does not fit."""


class MissingStepError(LookupError):
    """No complete checkpoint of a step; the message names the steps that have one."""


class Trained(Protocol[Config_co]):
    """A finished trial, as a verb of its task sees it."""

    @property
    def name(self) -> str:
        """The names of the study and the trial: ``synthetic-tiny/base-s1``."""

    @property
    def config(self) -> Config_co:
        """Its configuration, with the settings you typed."""

    @property
    def step(self) -> int:
        """The step at which training ended, or that of the checkpoint you named."""

    @property
    def data(self) -> Path:
        """The folder of its prepared data, prepared again if it is gone. Raises RefusedError."""

    @property
    def folder(self) -> Path:
        """The trial's folder."""

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """The scores that its folder holds for these weights and settings, by set."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """How the trial was run: provenance.json, with key, seed and costs once it has finished."""

    def configured(self, config: Any) -> "Trained[Config_co]":
        """The same weights with different settings for scoring: ``scored`` and ``evaluated`` then
        refer to these.

        Raises RefusedError for conflicts between keys.
        """

    def states(self, steps: Sequence[int] = ()) -> Iterator[Saved]:
        """Yield the saved states of these steps, by default the last one.

        Raises RefusedError if one is missing.
        """

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        """Record the scores of a set, next to the trial's own.

        Raises RefusedError while a sweep runs the trial.
        """

    def kept(self, text: str) -> Path:
        """The path of a text that ``evaluated`` keeps.

        Its name has the settings that differ from the trial's own.
        """

    def register(self, model: Path, name: str) -> str:
        """Register an MLflow model in the trial's run as ``NAME`` or ``NAME@ALIAS``, with its
        README.md as the description.

        Returns the command that serves it. Raises RefusedError.
        """


class Typed(dict[str, Any]):
    """The settings that you type after a verb's names, by dotted key. A parameter of this type
    gets them.

    A ``Trained`` already has them in its ``config``; a folder that is no trial doesn't.
    """


@dataclass(frozen=True, eq=False)
class Task(Generic[Config]):
    """``schema`` is a frozen dataclass of groups, each a frozen dataclass of keys: ``model.width``.

    Functions of the configuration must be quick and deterministic: each plan calls them. The trial
    key holds ``name`` and ``version``. Raise the version when the same configuration trains to a
    different result.
    """

    name: str
    version: int
    schema: type[Config]
    metrics: tuple[Metric, ...]
    steps: Callable[[Config], int]
    work: Callable[[Trial[Config]], None]
    """Trains and scores one trial. Import torch and the like inside."""
    base: Config | None = None
    """Base's values. Without it, they are read from ``conf/task/NAME/base.yaml``."""
    problems: Callable[[Config], Iterable[Problem]] = lambda *_: ()
    """Conflicts between keys that are each valid alone."""
    cautions: Callable[[Config, Path], Iterable[str]] = lambda *_: ()
    """Settings that are valid but probably unintended, a line each; the path is the prepared data."""
    data_problems: Callable[[Config, Path | None], Iterable[Problem]] = lambda *_: ()
    """What is wrong with the data for this configuration. The path is the folder of prepared data;
    None if it isn't prepared yet. Then check only what takes a few seconds."""
    title: Callable[[Config], str | None] = lambda _: None
    """How a study's default name begins; None for the task's name."""
    words: Callable[[Mapping[str, Any]], str] | None = None
    """A row's changed values in words; by default each with its symbol."""
    costs: Callable[[Config], Costs] = lambda _: Costs()
    precision: Callable[[Config], str] = lambda _: "fp32"
    """The precision of matrix products: fp32, tf32, bf16 or fp16. The device's rate is measured
    with it, and a plan's hours come only from trials with the same precision."""
    precision_choice: PrecisionChoice[Config] | None = None
    """If a key sets the precision, `allelse plan` and `allelse doctor` can say which is faster."""
    memory: Callable[[Config, str], float | None] = lambda *_: None
    """Bytes that one worker needs to train: main memory for "cpu", GPU memory for "cuda"; None if
    unknown. Measured memory replaces it."""
    costs_note: str = ""
    """A line below the plan that explains the costs; by default it lists the computed ones."""
    keep: Callable[[Config], Keep] = lambda _: Keep()
    """Which checkpoints stay."""
    fingerprint: Callable[[Config], str] = lambda _: ""
    """Identifies the data, if possible without reading it. Equal fingerprints share prepared data."""
    prepare: Callable[[Sequence[Config], Path, Told], None] | None = None
    """Prepares the data for all configurations of one fingerprint in an empty folder, once. Raises
    RefusedError for data that they can't use."""
    texts: Callable[[Path, str], Mapping[str, Sequence[str]]] | None = None
    """The texts of a set's samples, such as sources and references, from the folder of prepared
    data; {} for none. `allelse compare` shows them."""
    resolved: Callable[[Config, Path], Config] = lambda config, _: config
    """The configuration with local paths made absolute, relative to the working folder."""
    save: Callable[[Any, Path], None] | None = None
    """Writes a state that isn't plain to an empty folder."""
    load: Callable[[Path], Any] | None = None
    """Reads what ``save`` wrote."""
    diverged: Callable[[Config, Numbers], bool] = lambda *_: False
    """Whether training diverged, from its final scores by ``set/metric``: a rule that you declare
    before training. ``DivergedError`` and a score of the table that isn't finite always count. A
    diverged trial is not retried."""
    early_stop: bool = False
    """Whether a trial may end before its last step and still be finished."""
    watched: Mapping[str, str] = field(default_factory=lambda: {"train/loss": "loss"})
    """The reported metrics in the live table, with their headings."""
    verbs: tuple[Callable[..., Any], ...] = ()
    """Commands of the task: Typer functions whose first parameter is a ``Trained`` or a sequence of
    them. ``Trained | Path`` also takes a folder that is no trial, such as one that a verb wrote.
    Return an int as the exit code, or a text as the next command to show."""
    card: Card | None = None
    """What files and tables know about the task, if it is more than follows from the above."""
