"""The public interface of tasks. ``docs/your-own.md`` is the guide.

    task = Task("digits", version=1, schema=Config, metrics=(Metric("accuracy", set="test"),),
                steps=lambda config: config.train.steps, work=train)

It imports the standard library only. ``INTERFACE`` is bumped on breaking changes.
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
from sweeps.fields import OtherNames as OtherNames
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
from tracking.words import without_study as without_study

INTERFACE = 2
Config = TypeVar("Config")
Config_co = TypeVar("Config_co", covariant=True)

Numbers = Mapping[str, Any]
"""Numbers by name: anything that ``float()`` accepts. In scores, the values that a metric's
``signature`` and ``within`` name may be text."""
Texts = Mapping[str, str]
"""Texts to keep, by path in the trial's folder, such as ``texts/test.txt``. Each path has a
folder."""
NO_TEXTS: Texts = MappingProxyType({})
Told = Callable[[str, float | None], None]
"""A callback for progress: what is being done, and the share done from 0 to 1, or None if
unknown."""


@dataclass(frozen=True)
class Saved:
    """The state after ``step``: everything that training needs to continue. Its tensors are on the
    CPU."""

    step: int
    state: Any


@dataclass(frozen=True)
class Keep:
    """Which checkpoints to keep: the ``newest`` ones, the one with the lowest score if ``best``,
    and those of ``steps``.

    Only multiples of ``every`` count as ``newest``. A checkpoint at any other step, such as the last
    one or a stop, stays until there is a newer one. It replaces none of the ``newest``. Compute
    ``steps`` from keys that affect training or scores, never from keys that only observe.
    """

    newest: int = 2
    best: bool = False
    steps: Sequence[int] = ()
    every: int = 1


@dataclass(frozen=True)
class Costs:
    """What training costs. None means unknown, and tables say so."""

    params: int | None = None
    flops: float | None = None
    checkpoint_bytes: float | None = None  # of all checkpoints left at the end


@dataclass(frozen=True)
class PrecisionChoice(Generic[Config]):
    """The key that sets the precision, and a function that times each precision on this machine.

    ``seconds`` times a short computation of the configuration's sizes on one CPU thread and returns
    the seconds by precision. ``allelse plan`` calls it once per machine and sizes. It should take
    under a second.
    """

    key: str
    seconds: Callable[[Config], Mapping[str, float]]


class Trial(Protocol[Config_co]):
    """What ``work`` gets: one attempt at a trial, on one worker.

    Only rank zero's reports, checkpoints and scores count. Each call is a sign of life. If a trial
    makes no call for ``sweep.stall_minutes``, the sweep restarts it from its last checkpoint.

    When ``work`` returns, the trial is finished if it has every score of the table; otherwise it
    fails. If it was asked to stop before its last step, it stays unfinished, and the next sweep
    resumes it.
    """

    @property
    def config(self) -> Config_co:
        """The trial's configuration. If training ended early and only scoring remains, the task's
        ``steps`` returns the step at which training ended."""

    @property
    def seed(self) -> int:
        """The trial's seed. Seed every random generator with it."""

    @property
    def rank(self) -> int:
        """This worker's number, starting at 0."""

    @property
    def world(self) -> int:
        """The number of workers of this trial."""

    @property
    def threads(self) -> int:
        """The number of CPU threads for this worker."""

    @property
    def data(self) -> Path:
        """The folder of the prepared data, or ``paths.data`` if the task has no ``prepare``."""

    @property
    def folder(self) -> Path:
        """A folder for the trial's own files on this machine. It outlives the attempt. A trial
        that only scores starts with a copy of what training left there."""

    @property
    def saved(self) -> Saved | None:
        """The newest complete checkpoint, the same on every worker, or None at the start.

        If it was saved with ``random=True``, reading it restores the random numbers: read it after
        you seed and build the model, and before the first step.
        """

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """Scores by set that already exist for these weights and settings."""

    @property
    def kept_steps(self) -> Collection[int]:
        """The steps after which to save a checkpoint: those of ``keep``, and those that other rows
        average."""

    def report(self, step: int, metrics: Numbers) -> None:
        """Record metrics after ``step``, such as ``{"train/loss": 0.3}``.

        Reports of the same step are merged; a later value replaces an earlier one. Name scores that
        you measure during training by set and metric: ``dev/accuracy``.
        """

    def checkpoint(
        self, step: int, state: Any, score: float | None = None, *, random: bool = False
    ) -> None:
        """Save the state after ``step``. It is copied now and written while training continues.
        Report the step first, because a resumed trial continues after it.

        With ``random``, it also saves the states of Python's, NumPy's and torch's random numbers,
        so that a resumed trial draws the same ones. This works with one worker, and leaves out
        generators of your own.

        A plain state consists of dicts, lists, tuples, numbers, strings, and dense tensors and
        arrays of real numbers. It is restored exactly. For other states, give the task ``save`` and
        ``load``; training waits for them. The checkpoint with the lowest ``score`` is the best one.
        Raises StateError for a state that is not plain.
        """

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        """Keep the scores of the set ``on``, and texts such as outputs.

        The report and MLflow show ``pictures/NAME.svg`` among the texts as a picture.

        ``samples`` has one mapping per sample with the numbers that ``Metric.from_counts`` names.
        `allelse compare` then tests differences over samples. Every trial must have the same
        samples in the same order, and at least 20. With ``--by``, `allelse table` groups
        samples by any other number in the mapping.
        """

    def notice(self, text: str) -> None:
        """Show the user one line."""

    def about(self, entries: Mapping[str, Any]) -> None:
        """Add entries to the trial's ``provenance.json``: strings, numbers, lists, dicts."""

    def spent(self, costs: Costs) -> None:
        """Replace the costs that the task computed before training."""

    def stopping(self, *, alone: bool = False) -> bool:
        """Whether to save and return. Call it once per step on every worker; all get the same answer.

        The workers agree through torch.distributed, so the answer may come a step late. With
        ``alone``, this worker gets its own answer and may call it at any time.
        """

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        """The saved states of these steps, one at a time, for example to average them. Call it on
        every worker. Raises MissingStepError."""

    def process_group(self, backend: str | None = None) -> AbstractContextManager[None]:
        """Connect the workers through torch.distributed, with NCCL if each has a GPU, else gloo. With
        one worker it does nothing."""


class DivergedError(ArithmeticError):
    """Raise it in ``work`` when a number at this step is not finite: the trial ends as diverged."""

    def __init__(self, why: str, step: int) -> None:
        super().__init__(why, step)
        self.why = why
        self.step = step

    def __str__(self) -> str:
        return self.why


class StateError(TypeError):
    """A state that can't be saved, or a checkpoint that doesn't fit the code."""


class MissingStepError(LookupError):
    """A step has no complete checkpoint. The message lists the steps that have one."""


class Trained(Protocol[Config_co]):
    """A finished trial, as passed to a verb of its task."""

    @property
    def name(self) -> str:
        """The study and the trial: ``synthetic-tiny/base-s1``."""

    @property
    def config(self) -> Config_co:
        """The configuration, with the settings from the command line."""

    @property
    def step(self) -> int:
        """The step at which training ended, or the step of the checkpoint on the command line."""

    @property
    def data(self) -> Path:
        """The folder of the prepared data. Prepares it again if it is gone. Raises RefusedError."""

    @property
    def folder(self) -> Path:
        """The trial's folder."""

    @property
    def scored(self) -> Mapping[str, Numbers]:
        """Scores by set that the folder has for these weights and settings."""

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The content of ``provenance.json``, with the trial's key, seed and costs."""

    def configured(self, config: Any) -> "Trained[Config_co]":
        """The same trial with new scoring settings, which ``scored`` and ``evaluated`` then use.

        Raises RefusedError if keys conflict.
        """

    def states(self, steps: Sequence[int] = ()) -> Iterator[Saved]:
        """The saved states of these steps, one at a time; by default, of the last step. Raises
        RefusedError if one is missing."""

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        """Add scores of a set to the trial. Raises RefusedError while a sweep runs the trial."""

    def kept(self, text: str) -> Path:
        """The path where ``evaluated`` keeps a text. Its name contains settings that differ from
        the trial's own."""

    def register(self, model: Path, name: str) -> str:
        """Register an MLflow model in the trial's run as ``NAME`` or ``NAME@ALIAS``.

        MLflow shows the model's README.md. Returns the command that serves the model. Raises
        RefusedError.
        """


class Typed(dict[str, Any]):
    """The settings from a verb's command line, by dotted key. A parameter of this type gets them.

    ``Trained.config`` already includes them. If a verb gets the path of another folder, that path
    doesn't.
    """


@dataclass(frozen=True, eq=False)
class Task(Generic[Config]):
    """What you bring to a sweep. The first six fields are required.

    Functions of the configuration must be fast and deterministic, because each plan calls them.
    """

    name: str
    """Part of trial keys, file names and study names. The module may have another name."""
    version: int
    """Part of trial keys. Raise it when the same configuration would give a different result."""
    schema: type[Config]
    """A frozen dataclass of groups, each a frozen dataclass of keys, such as ``model.width``.

    No group may be named ``row``, ``scale``, ``cluster``, ``sweep``, ``tracking`` or ``paths``.
    """
    metrics: tuple[Metric, ...]
    """The metrics. The first one in the table is the headline."""
    steps: Callable[[Config], int]
    """The number of training steps."""
    work: Callable[[Trial[Config]], None]
    """Trains and scores one trial. Import torch and other large packages inside."""
    base: Config | None = None
    """The values of base. Without them, ``conf/task/NAME/base.yaml`` has the values."""
    problems: Callable[[Config], Iterable[Problem]] = lambda *_: ()
    """One ``Problem`` per conflict between keys that are valid by themselves."""
    cautions: Callable[[Config, Path], Iterable[str]] = lambda *_: ()
    """One line per setting that is valid but probably not what the user wants. The path is the
    prepared data, if any."""
    data_problems: Callable[[Config, Path | None], Iterable[Problem]] = lambda *_: ()
    """One ``Problem`` per fault of the data for this configuration. The path is the prepared data,
    or None before preparation; then take a few seconds at most."""
    title: Callable[[Config], str | None] = lambda _: None
    """The beginning of a study's default name, or None for the task's name."""
    words: Callable[[Mapping[str, Any]], str] | None = None
    """Describes a row's changed values. By default, each value follows its symbol."""
    costs: Callable[[Config], Costs] = lambda _: Costs()
    """The costs of training, before it starts."""
    precision: Callable[[Config], str] = lambda _: "fp32"
    """The precision of matrix products: fp32, tf32, bf16 or fp16. A device's rate is measured with
    it, and a plan estimates hours from trials with the same precision."""
    precision_choice: PrecisionChoice[Config] | None = None
    """For a task with a precision key. `allelse plan` and `allelse doctor` then say if another
    precision is faster."""
    memory: Callable[[Config, str], float | None] = lambda *_: None
    """The bytes that one worker needs while it trains: of memory for "cpu", of its GPU for "cuda".
    None if you have no formula. On a CPU, measured memory replaces it."""
    pace: Callable[[Config], str] = lambda _: ""
    """What makes steps slower at equal FLOPs, such as "additive scores". A plan interpolates hours
    only between trials with the same text."""
    costs_note: str = ""
    """A line below the plan that explains its costs. By default it says which of them are
    computed."""
    keep: Callable[[Config], Keep] = lambda _: Keep()
    """Which checkpoints to keep."""
    fingerprint: Callable[[Config], str] = lambda _: ""
    """Text that identifies the data, if possible without reading it. Trials with the same
    fingerprint share prepared data."""
    prepare: Callable[[Sequence[Config], Path, Told], None] | None = None
    """Fills an empty folder with the prepared data of all configurations that share a fingerprint.
    It runs once per fingerprint and version of your code. Raises RefusedError for unusable data."""
    texts: Callable[[Path, str], Mapping[str, Sequence[str]]] | None = None
    """The texts of a set's samples by kind, such as sources and references, from the folder of
    prepared data. {} if there are none. `allelse compare` shows them."""
    resolved: Callable[[Config, Path], Config] = lambda config, _: config
    """The configuration with absolute paths. The path is the folder of the command."""
    save: Callable[[Any, Path], None] | None = None
    """Writes a state that is not plain into an empty folder. Several files are fine."""
    load: Callable[[Path], Any] | None = None
    """Reads the files that ``save`` wrote. The folder is removed after it returns."""
    diverged: Callable[[Config, Numbers], bool] = lambda *_: False
    """Whether training diverged, given its scores by ``set/metric``. It always counts as diverged if
    a score in the table is not finite or ``work`` raises ``DivergedError``. A diverged trial isn't
    retried."""
    early_stop: bool = False
    """Whether a trial may end before its last step without a mark in the table."""
    watched: Mapping[str, str] = field(default_factory=lambda: {"train/loss": "loss"})
    """The reported metrics in the live table, with their headings."""
    verbs: tuple[Callable[..., Any], ...] = ()
    """Commands for finished trials: Typer functions whose first parameter is a ``Trained`` or a
    ``Sequence[Trained]``. ``Trained | Path`` also accepts a folder that isn't a trial, such as one
    that another verb wrote. A ``typer.Argument`` takes the text after the trial. A returned int is
    the exit code. A returned string is shown as the next command."""
    card: Card | None = None
    """Details for files and tables that don't follow from the other fields."""
