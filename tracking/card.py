"""What the files and tables of a study know of its task. It is stored in `study.json`, so that a study is read without
the task's own code."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from tracking.metrics import NAME, Metric, SetScores

COSTS = ("params", "flops", "seconds")
TAKEN = (
    *("row", "group", "change", "before_scaling", "seeds", "asked", "steps", *COSTS, "diverged", "paper_params_m"),
    *("cells", "decode", "mixed_decode", "other_decode", "note"),
)
"""Fields of the table that are no metrics."""
TEXTS = ("published_note", "tags", "sample")
LISTS = ("groups", "artifacts")
TABLES = ("scoring", "symbols", "change_phrases", "setting_phrases", "cost_notes")


@dataclass(frozen=True)
class Card:
    """``symbols``: the table's columns for changes, a key's short name and its symbol. A phrase holds ``{value}``."""

    name: str
    version: int
    metrics: tuple[Metric, ...]  # the first one in the table is the headline
    symbols: dict[str, str] = field(default_factory=dict)
    change_phrases: dict[str, str] = field(default_factory=dict)  # for changed keys without a column
    setting_phrases: dict[str, str] = field(default_factory=dict)  # for scoring, by `name` or `name=value`
    scoring: dict[str, str] = field(default_factory=dict)  # the keys that only score, each with its name in scores
    groups: tuple[str, ...] = ()  # the groups that every config.yaml must hold
    artifacts: tuple[str, ...] = ()  # the text files of every evaluated set: `<artifact>/<set>.txt`
    cost_notes: dict[str, str] = field(
        default_factory=lambda: {"seconds": "measured", "params": "computed", "flops": "computed"}
    )
    millions: bool = False  # whether parameters are always shown in millions
    published_note: str = ""  # how to compare with published values; such a table always has their columns
    tags: str = "study"  # where MLflow's tags for group, row and change lie
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

    def setting(self, name: str) -> str:
        """The dotted key of a setting for scoring."""
        return next((key for key, known in self.scoring.items() if known == name), name)

    def scores(self, content: Mapping[str, Any]) -> SetScores:
        """One set's scores from JSON; {} means a set without scores."""
        return SetScores.of(content, self.metrics)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    @staticmethod
    def of(content: Mapping[str, Any]) -> "Card":
        """From JSON. Unknown keys are ignored, missing ones have their defaults. Raises ValueError with every fault."""
        stored = {field.name: content[field.name] for field in fields(Card) if field.name in content}
        known: dict[str, Any] = {key: tuple(of) if isinstance(of, list) else of for key, of in stored.items()}
        card = Card(**known | {"metrics": tuple(map(Metric.of, content["metrics"]))})
        if faults := card.faults():
            raise ValueError("; ".join(faults))
        return card

    def faults(self) -> list[str]:
        """Everything that is wrong with it, such as two metrics with one name."""
        found = [] if isinstance(self.name, str) and NAME.fullmatch(self.name) else ["a task must have a plain name"]
        if type(self.version) is not int:
            found.append(f"task {self.name} must have a whole number as its version, but has {self.version!r}")
        found += [fault for metric in self.metrics for fault in metric.faults()]
        if not self.tabled:
            found.append(f"task {self.name} must have a metric for the table")
        return found + self._doubled() + self._wrong_exponentials() + self._wrong_kinds()

    def _doubled(self) -> list[str]:
        """Two metrics, or a metric and a field, with one name in files and tables."""
        kinds = ("", "delta_", "paper_", "paper_delta_")
        names = Counter([*TAKEN, *(f"{kind}{metric.name}" for kind in kinds for metric in self.metrics)])
        doubled = [name for name, count in names.items() if count > 1]
        signatures = [str(metric.signature) for metric in self.metrics if metric.signature in names]
        return [f"{name} stands for two things in tables and files" for name in (*doubled, *signatures)]

    def _wrong_exponentials(self) -> list[str]:
        """Metrics whose ``exp_of`` is no other metric of this card on the same set."""
        logarithms = {metric.name: metric for metric in self.metrics if metric.exp_of is None}
        return [
            f"metric {metric.name!r} must be exp_of another metric on the set {metric.set}, but is of {metric.exp_of!r}"
            for metric in self.metrics
            if isinstance(metric.exp_of, str)
            and (metric.exp_of not in logarithms or logarithms[metric.exp_of].set != metric.set)
        ]

    def tested(self, metric: Metric) -> Metric:
        """The metric on which differences of ``metric`` are tested: itself, or its logarithm."""
        return next((other for other in self.metrics if other.name == metric.exp_of), metric)

    def _wrong_kinds(self) -> list[str]:
        found = [] if isinstance(self.millions, bool) else ["millions must be true or false"]
        found += [f"{name} must be text" for name in TEXTS if not isinstance(getattr(self, name), str)]
        found += [f"{name} must be a list of text" for name in LISTS if not _all_text(getattr(self, name), tuple)]
        return found + [f"{name} must map text to text" for name in TABLES if not _all_text(getattr(self, name), dict)]


def _all_text(value: Any, kind: type) -> bool:
    words = [*value, *value.values()] if isinstance(value, dict) else value
    return isinstance(value, kind) and all(isinstance(word, str) for word in words)
