"""A task's metrics. Checks of files, MLflow and printed tables follow from them."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from tracking.aggregations import fault
from tracking.formats import number

NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Metric:
    """One score of a set. Its value is None if it was not finite, or if it was not measured."""

    name: str  # its key in result.json and statistics; `final/<name>` in MLflow
    label: str = ""  # in tables; without one, the name
    unit: str = ""
    better: Literal["up", "down"] = "up"
    decimals: int = 3
    set: str = "dev"  # the table shows its value on this set
    tabled: bool = True  # whether it is a column of the table
    table_decimals: int | None = None  # if the table has other decimals
    printed: bool = True  # by `allelse evaluate` and in a model's card
    signature: str | None = None  # the key of its signature, if it has one
    changed_by: tuple[str, ...] | None = None  # the settings for scoring that change it; None: all of them
    note: str = ""  # below the table
    from_counts: tuple[str, ...] = ()  # a formula of `aggregations.py`, and the fields of a sample that it takes
    exp_of: str | None = None  # the metric whose exponential it is: tests and means are made on that one
    negligible: float = 0.0  # a published difference up to this counts as none
    margin: float | None = None  # none is confirmed by an interval within ± this; with exp_of, in the logarithm

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)

    @staticmethod
    def of(content: Mapping[str, Any]) -> "Metric":
        """From JSON. Unknown keys are ignored, missing ones have their defaults."""
        known = {field.name: content[field.name] for field in fields(Metric) if field.name in content}
        plain: dict[str, Any] = {name: tuple(of) if isinstance(of, list) else of for name, of in known.items()}
        return Metric(**plain)

    def text(self, value: float | None) -> str:
        return number(value, self.decimals)

    @property
    def places(self) -> int:
        """The decimals in the table."""
        return self.decimals if self.table_decimals is None else self.table_decimals

    def best(self, values: Iterable[float | None]) -> float | None:
        """None without a finite value."""
        known = [value for value in values if value is not None]
        return (min if self.better == "down" else max)(known, default=None)

    def tested_values(self, values: Mapping[int, float | None]) -> Mapping[int, float | None]:
        """By seed, on the scale on which they are tested: the logarithms of a metric that is e^ of another one."""
        if self.exp_of is None:
            return values
        return {seed: math.log(value) if value is not None and value > 0 else None for seed, value in values.items()}

    def decided_by(self, settings: Iterable[str]) -> bool:
        """Whether any of these settings for scoring can change it."""
        return any(self.changed_by is None or name in self.changed_by for name in settings)

    def faults(self) -> list[str]:
        """Everything that is wrong with it, such as a direction that does not exist."""
        called = f"metric {self.name!r}"
        texts = {name: getattr(self, name) for name in ("label", "unit", "set", "note", "signature", "exp_of")}
        wrong = [name for name, value in texts.items() if not isinstance(value, str | None)]
        found = [f"{called} must have text as its {name}" for name in wrong]
        if not (isinstance(self.name, str) and NAME.fullmatch(self.name)):
            found.append(f"{called} must have a name of letters, digits, _, - and .")
        if self.better not in ("up", "down"):
            found.append(f"{called} must be better up or down, but is better {self.better!r}")
        if not all(type(places) is int and places >= 0 for places in (self.decimals, self.places)):
            found.append(f"{called} must have a whole number of decimals")
        bounds = {"negligible": self.negligible} | ({} if self.margin is None else {"margin": self.margin})
        found += [f"{called} must have a number from 0 as its {name}" for name, of in bounds.items() if not _bound(of)]
        if not (self.changed_by is None or isinstance(self.changed_by, tuple)):
            found.append(f"{called} must have a list of settings as changed_by")
        wrong_counts = (
            fault(self.from_counts) if isinstance(self.from_counts, tuple) else "must have a list as from_counts"
        )
        found += [f"{called} {wrong_counts}"] if wrong_counts else []
        return found


def _bound(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


@dataclass(frozen=True)
class SetScores:
    """One set's scores, as `result.json` and the first line of `statistics/<set>.jsonl` hold them."""

    values: dict[str, float | None]  # of every metric, by name
    signatures: dict[str, str]  # by the metric's name
    decode: dict[str, Any]  # the settings for scoring behind them

    @staticmethod
    def of(content: Mapping[str, Any], metrics: Iterable[Metric]) -> "SetScores":
        """From JSON; {} means a set without scores."""
        known = tuple(metrics)
        signed = {metric.name: content.get(metric.signature) for metric in known if metric.signature}
        return SetScores(
            {metric.name: content.get(metric.name) for metric in known},
            {name: signature for name, signature in signed.items() if signature is not None},
            content.get("decode", {}),
        )
