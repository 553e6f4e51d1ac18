"""One row of the study's table: what its trials measured, and how it differs from its reference."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tracking.card import Metric
from tracking.statistics.means import metric_mean

BASE = "base"


@dataclass(frozen=True, kw_only=True)
class RowCosts:
    """Means over the row's seeds. None is unknown."""

    params: float | None
    flops: float | None  # of the whole training run
    seconds: float | None
    cpu_seconds: float | None
    device_flops: float | None  # as the paper counts them
    mfu: float | None  # from 0 to 1


@dataclass(frozen=True, kw_only=True)
class RowNotes:
    """Why numbers of the row are missing, not those of all seeds, or not comparable."""

    full: str  # "missing", "FAILED: why", "2 of 3 seeds; …", diverged seeds, or ""
    brief: str  # without causes of errors and without missing seeds
    errors: dict[str, tuple[int, ...]]  # seeds by error, such as "FAILED: ValueError: no"

    def and_then(self, note: str) -> "RowNotes":
        """With another note at the end, unless it is empty."""
        return replace(self, full=joined(self.full, note), brief=joined(self.brief, note))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a row differs from its reference. Numbers are by metric; None means no number."""

    reference: str = ""  # its host, if the row only scores
    reference_seeds: tuple[int, ...] = ()  # its finished seeds that did not diverge
    shares_weights: bool = False  # with the reference
    paired: bool = False  # whether differences are taken seed by seed, at the seeds that both have
    deltas: dict[str, float | None] = field(default_factory=dict)
    common_deltas: dict[str, float | None] = field(default_factory=dict)  # at common seeds
    published_deltas: dict[str, float | None] = field(default_factory=dict)  # between published
    not_compared: dict[str, str] = field(default_factory=dict)  # why there is no Δ
    other_decode: tuple[str, ...] = ()  # unlike the reference, though not changed by the row: no Δ


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row: the mean over its finished seeds, without those that diverged.

    Scores are by metric, for each metric of the table. None means no number; ``notes`` explain our
    own missing numbers. ``comparison`` is empty until the row is compared.
    """

    row: str
    group: str
    change: str
    before_scaling: str  # the change before scaling, if scaling touches it
    cells: dict[str, object]
    size: str  # how the model's size differs from base's though the row changes no size; or ""
    weights: str  # the row whose weights it scores; "": its own
    published: dict[str, float | None]  # of the metrics, and params_m (millions)

    asked: int  # all seeds of the row in the study
    seeds: int  # finished ones that did not diverge
    diverged: tuple[int, ...]  # finished seeds that diverged
    stopped: tuple[int, ...]  # finished seeds whose training ended before its steps
    notes: RowNotes

    scores: dict[str, float | None]
    sd: dict[str, float | None]  # over seeds; None for fewer than two
    seed_values: dict[str, dict[int, float | None]]  # by metric and seed; None: not finite
    decode: dict[str, Any]  # the settings for scoring that are the same for all seeds
    mixed_decode: tuple[str, ...]  # the other settings: a score that they change has no mean
    within: dict[str, tuple[str, ...]]  # of ``comparable_within``

    steps: float | None
    costs: RowCosts
    sustained: tuple[str, ...]  # in words, how it is known what the devices sustain

    comparison: Comparison = field(default_factory=Comparison)

    @property
    def status(self) -> str:
        """The text in place of a number: FAILED, damaged, missing, running, interrupted or "not
        finite"."""
        if self.seeds:
            return "not finite"
        return re.split(r"[:;]| \(", self.notes.full)[0]

    @property
    def finished_seeds(self) -> tuple[int, ...]:
        """Those behind its means."""
        return next((tuple(seed_value) for seed_value in self.seed_values.values()), ())

    @property
    def common_seeds(self) -> tuple[int, ...]:
        """The seeds that the reference has, too."""
        reference_seeds = self.comparison.reference_seeds
        return tuple(seed for seed in self.finished_seeds if seed in reference_seeds)

    def is_compared(self, metric: Metric) -> bool:
        """Whether its score was measured like that of the reference."""
        comparison = self.comparison
        is_left_out = metric.name in comparison.not_compared
        return not is_left_out and not metric.decided_by(comparison.other_decode)

    def mean_at(self, metric: Metric, seeds: Iterable[int]) -> float | None:
        """Over these finished seeds; None if there are none, or if all diverged."""
        values = self.seed_values[metric.name]
        return metric_mean(metric, [values[seed] for seed in seeds])


def joined(*notes: str) -> str:
    """The notes that are not empty, as one."""
    return "; ".join(filter(None, notes))
