"""What the files and tables of a study need to know about its task, such as the metrics.

`study.json` stores it, so that reading a study doesn't need the task's own code."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tracking.files import misfit
from tracking.words import count_of, number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
NAME = re.compile(r"\w[\w.-]*")
FORMULAS = {
    "mean": 1,
    "ratio": 2,
    "exp_ratio": 2,
    "ngram_precision": 1,
    "ngram_precision_unsmoothed": 1,
    "ngram_f": 1,
}
"""The formulas that ``from_counts`` may name, with their numbers of fields. A formula computes a
set's score from its samples.

A sample is a line of ``statistics/<set>.jsonl``. A formula sums fields of these lines over the
samples and computes the score from the sums. So scores of resampled sets need no new evaluation.

- ``mean``: of a number per sample.
- ``ratio``: the sum of the first field over the sum of the second.
- ``exp_ratio``: e to that power.
- ``ngram_precision``: from a list: length, reference's length, matching n-grams by order, all
  n-grams by order. The geometric mean of the precisions with a brevity penalty, 0 to 100. The k-th
  order without a match counts as 2^-k matches; in ``ngram_precision_unsmoothed`` it makes the
  score 0.
- ``ngram_f``: from a list, per order: n-grams of the sample, of the reference, in both. F2 of mean
  precision and mean recall, 0 to 100.
"""
COSTS = ("params", "flops", "seconds", "cpu_seconds")
DEVICE_COSTS = ("device_flops", "mfu")
"""The paper's FLOPs, seconds × devices × sustained FLOP/s, and ``flops`` as a share of them. They
exist only if the devices' rate is known."""
RESERVED_NAMES = (
    *("row", "group", "change", "before_scaling", "seeds", "asked", "steps", *COSTS, *DEVICE_COSTS),
    *("diverged", "paper_params_m", "summary", "cells", "decode", "mixed_decode", "other_decode"),
    *("note", "unlike", "best_step", "best_by_seed", "device_hours", "weights", "reference"),
    "paired",
)
"""Fields of the table that are not metrics."""
NEW_NAMES = frozenset({"cpu_seconds", *DEVICE_COSTS, "summary", "device_hours"})
"""Reserved names that metrics of recorded studies may have: their tables show the metric."""
TESTED = ("low", "high", "p")
"""The numbers of a test; `low_<metric>` and so on are fields of the table."""
METRIC_FIELDS = (
    "delta",
    "delta_common_seeds",
    "paper",
    "paper_delta",
    "sd",
    "best",
    "verdict",
    "finding",
    *TESTED,
)
PREFIXES = ("", *(f"{field_name}_" for field_name in METRIC_FIELDS))
"""What precedes a metric's name in fields of the table."""


@dataclass(frozen=True)
class Metric:
    """One score of a set. Its value is None if it was not finite, or if it was not measured."""

    name: str  # its key in result.json and statistics; `final/<name>` in MLflow
    label: str = ""  # its name in tables; by default, `name`
    unit: str = ""
    better: Literal["up", "down"] = "up"
    decimals: int = 3
    set: str = "dev"  # the set on which the table shows it
    tabled: bool = True  # whether it is a column of the table
    table_decimals: int | None = None  # the decimals in the table, if they differ
    printed: bool = True  # whether `allelse evaluate` and model cards show it
    signature: str | None = None  # the key of its signature, if it has one
    changed_by: tuple[str, ...] | None = None
    """The scoring settings that affect it; None means all of them."""
    note: str = ""  # a note below the table; a setting replaces `{name:usual}`
    from_counts: tuple[str, ...] = ()
    """A formula, and the sample's fields that it takes. The formulas are `mean`, `ratio`,
    `exp_ratio`, `ngram_precision`, `ngram_precision_unsmoothed` and `ngram_f`."""
    within: str | None = None
    """The score that holds a text, such as a digest: values compare only if the texts are equal."""
    exp_of: str | None = None
    """The metric whose exponential it is. Means and tests use that metric."""
    published_as: str | None = None
    """The name of its published values in the rows' files, if it differs."""
    negligible: float = 0.0  # a published difference up to this counts as none
    agrees_within: float | None = None
    """A negligible published difference agrees if our interval lies within ± this; with ``exp_of``,
    in the logarithm."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)

    def text(self, value: float | None) -> str:
        return number(value, self.decimals)

    @property
    def published_name(self) -> str:
        """The name of its published values in the rows' files."""
        return self.name if self.published_as is None else self.published_as

    @property
    def places(self) -> int:
        """The decimals in the table."""
        return self.decimals if self.table_decimals is None else self.table_decimals

    @property
    def texts(self) -> list[str]:
        """The names among the scores that hold a text of this metric."""
        return [name for name in (self.signature, self.within) if name is not None]

    def best(self, values: Iterable[float | None]) -> float | None:
        """None without a finite value."""
        finite = [value for value in values if value is not None]
        return (min if self.better == "down" else max)(finite, default=None)

    def tested_values(self, values: Mapping[int, float | None]) -> Mapping[int, float | None]:
        """By seed, on the scale of the tests: logarithms for the exponential of a metric."""
        if self.exp_of is None:
            return values
        logarithms: dict[int, float | None] = {}
        for seed, value in values.items():
            logarithms[seed] = math.log(value) if value is not None and value > 0 else None
        return logarithms

    def decided_by(self, settings: Iterable[str]) -> bool:
        """Whether any of these settings for scoring can change it."""
        return any(self.changed_by is None or name in self.changed_by for name in settings)

    def faults(self) -> list[str]:
        """Everything that is wrong with it, such as a direction that does not exist."""
        subject = f"metric {self.name}"
        mistyped = _mistyped_fields(self)
        if mistyped:
            return [f"{subject} cannot have {value} as its {name}" for name, value in mistyped]
        faults = list[str]()
        if not self.name.strip() or self.name != self.name.strip() or not self.name.isprintable():
            rule = "must have a name of printable characters, without a space at its ends"
            faults.append(f"{subject} {rule}")
        if self.better not in ("up", "down"):
            faults.append(f'{subject}: better is "{self.better}"; it must be "up" or "down"')
        for name in ("decimals", "table_decimals", "negligible", "agrees_within"):
            value = getattr(self, name) or 0
            if not value >= 0:
                faults.append(f"{subject} must have a number from 0 as its {name}")
        if self.within is not None and not NAME.fullmatch(str(self.within)):
            rule = "must have one plain name as its within, such as pieces"
            faults.append(f"{subject} {rule}, but has {self.within}")
        fault = formula_fault(self.from_counts)
        if fault:
            faults.append(f"{subject} {fault}")
        return faults


def formula_fault(from_counts: Sequence[str]) -> str | None:
    """What is wrong with a metric's ``from_counts``; None if nothing is, or if it is empty."""
    if not from_counts:
        return None
    formula, *fields = from_counts
    if formula not in FORMULAS:
        formulas = ", ".join(FORMULAS)
        return f"must have one of {formulas} as the formula of from_counts, but has {formula}"
    count = FORMULAS[formula]
    if len(fields) != count:
        wanted = f"{count_of(count, 'field')} after {formula}"
        return f"must have {wanted} in from_counts, but has {len(fields)}"
    return None


@dataclass(frozen=True)
class SetScores:
    """One set's scores, as in `result.json` and the first line of `statistics/<set>.jsonl`."""

    values: dict[str, float | None]  # of every metric, by name
    signatures: dict[str, str]  # by the metric's name
    decode: dict[str, Any]  # the settings for scoring behind them


@dataclass(frozen=True)
class Card:
    """Details of a task for files and tables."""

    name: str
    version: int
    metrics: tuple[Metric, ...]  # the first one in the table is the headline
    symbols: dict[str, str] = field(default_factory=dict)
    """The table's columns for changes: each key's short name, and its symbol."""
    change_phrases: dict[str, str] = field(default_factory=dict)
    """Phrases for changed keys without a column. The value replaces ``{value}``."""
    setting_phrases: dict[str, str] = field(default_factory=dict)
    """Phrases for scoring settings, by ``name`` or ``name=value``."""
    scoring: dict[str, str] = field(default_factory=dict)
    """The keys that only affect scores, each with its name in scores."""
    groups: tuple[str, ...] = ()  # the groups that every config.yaml must have
    artifacts: tuple[str, ...] = ()  # the text files of every evaluated set: `<artifact>/<set>.txt`
    sets_without_artifacts: tuple[str, ...] = ()  # evaluated sets without these files
    cost_notes: dict[str, str] = field(
        default_factory=lambda: {"seconds": "measured", "params": "computed", "flops": "computed"}
    )
    """How each cost was obtained, for the caption."""
    millions: bool = False  # whether parameters are always shown in millions
    published_note: str = ""
    """How to compare with published values. A table with this note always has the
    columns of published values."""
    tags: str = "study"  # the prefix of MLflow's tags for group, row and change
    sample: str = "sample"  # what a scored set consists of, in the singular

    @cached_property
    def tabled(self) -> tuple[Metric, ...]:
        return tuple(metric for metric in self.metrics if metric.tabled)

    @cached_property
    def printed(self) -> tuple[Metric, ...]:
        return tuple(metric for metric in self.metrics if metric.printed)

    @property
    def headline(self) -> Metric:
        return self.tabled[0]

    @property
    def scored_sets(self) -> tuple[str, ...]:
        """The sets that the table shows."""
        return tuple(dict.fromkeys(metric.set for metric in self.tabled))

    def reported(self, name: str) -> tuple[str, Metric] | None:
        """The set and the metric of a reported name such as `dev/ppl`; "" means no set. None if the
        name is not that of a metric.

        A metric's own name may contain a slash.
        """
        for metric in sorted(self.metrics, key=lambda metric: -len(metric.name)):
            if name == metric.name:
                return "", metric
            if name.endswith(f"/{metric.name}"):
                return name.removesuffix(f"/{metric.name}"), metric
        return None

    def setting(self, name: str) -> str:
        """The dotted key of a setting for scoring."""
        keys = [key for key, setting in self.scoring.items() if setting == name]
        return keys[0] if keys else name

    def scores(self, content: Mapping[str, Any]) -> SetScores:
        """One set's scores from JSON; {} means a set without scores."""
        signatures = {}
        for metric in self.metrics:
            signature = content.get(metric.signature or "")
            if signature:
                signatures[metric.name] = signature
        values = {metric.name: content.get(metric.name) for metric in self.metrics}
        return SetScores(values, signatures, content.get("decode", {}))

    @staticmethod
    def of(content: Mapping[str, Any]) -> "Card":
        """From JSON. Ignores unknown keys; missing ones have their defaults.

        Raises ValueError with every fault.
        """
        metrics = [_read(Metric, metric) for metric in content["metrics"]]
        card = _read(Card, {**content, "metrics": metrics})
        faults = card.faults([name for name in RESERVED_NAMES if name not in NEW_NAMES])
        if faults:
            raise ValueError("; ".join(faults))
        return card

    def faults(self, reserved: Sequence[str] = RESERVED_NAMES) -> list[str]:
        """Everything that is wrong with it, such as a metric with a ``reserved`` name."""
        mistyped = _mistyped_fields(self)
        if mistyped:
            return [f"a task cannot have {value} as its {name}" for name, value in mistyped]
        faults = list[str]()
        if not NAME.fullmatch(str(self.name)):
            faults.append("a task must have a plain name")
        for metric in self.metrics:
            faults += metric.faults()
        if not self.tabled:
            faults.append(f"task {self.name} must have a metric for the table")
        return faults or [*self._ambiguous_names(reserved), *self._wrong_exponentials()]

    def _ambiguous_names(self, reserved: Sequence[str]) -> list[str]:
        """Two metrics, or a metric and a field, with one name in files and tables."""
        counts = Counter(reserved)
        for prefix in PREFIXES:
            counts.update(f"{prefix}{metric.name}" for metric in self.metrics)
        ambiguous = [name for name, count in counts.items() if count > 1]
        names = "|".join(re.escape(metric.name) for metric in self.metrics)
        column_of_seed = re.compile(f"({names})_s\\d+")
        texts: dict[str, None] = {}
        for metric in self.metrics:
            if column_of_seed.fullmatch(metric.name):
                ambiguous.append(metric.name)
            texts |= dict.fromkeys(name for name in metric.texts if name in counts)
        return [f"{name} has two meanings in tables and files" for name in (*ambiguous, *texts)]

    def _wrong_exponentials(self) -> list[str]:
        """Metrics whose ``exp_of`` names no metric on the same set."""
        set_of_logarithm = {
            metric.name: metric.set for metric in self.metrics if metric.exp_of is None
        }
        faults = []
        for metric in self.metrics:
            if not isinstance(metric.exp_of, str):
                continue
            if set_of_logarithm.get(metric.exp_of) != metric.set:
                rule = f"must be exp_of another metric on the set {metric.set}"
                faults.append(f"metric {metric.name} {rule}, but is of {metric.exp_of}")
        return faults

    def tested(self, metric: Metric) -> Metric:
        """The metric that tests of ``metric`` use: itself, or its logarithm."""
        for candidate in self.metrics:
            if candidate.name == metric.exp_of:
                return candidate
        return metric


def _read(entity: type[T], content: Mapping[str, Any]) -> T:
    """From JSON. Ignores unknown keys; missing ones have their defaults."""
    names = {entity_field.name for entity_field in fields(entity)}
    values = {}
    for name, value in content.items():
        if name in names:
            values[name] = tuple(value) if isinstance(value, list) else value
    return entity(**values)


def _mistyped_fields(entity: Metric | Card) -> list[tuple[str, Any]]:
    """The fields whose value and default differ in type, such as a number as a label."""
    example = Card("x", 1, ()) if isinstance(entity, Card) else Metric("x")
    mistyped = []
    for name, default in vars(example).items():
        value = vars(entity)[name]
        if default is not None and misfit(value, type(default)):
            mistyped.append((name, value))
    return mistyped
