"""How a row of the study's table differs from its reference: the differences, and why some are
missing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracking.card import Card, Metric
from tracking.statistics.means import minus, published_minus
from tracking.statistics.references import RowReference, why_not_compared
from tracking.statistics.scoring_settings import ScoringSettings, agreed, decode_note
from tracking.statistics.table_row import Comparison, TableRow


@dataclass(frozen=True)
class ComparedRow:
    """A row beside its reference; ``base`` is that row, or None if the study lacks it.

    ``settings`` are the row's own for scoring. ``expected`` are those that it should have to be
    compared.
    """

    card: Card
    row: TableRow
    reference: RowReference
    base: TableRow | None
    settings: ScoringSettings
    expected: Mapping[str, Any]

    def with_comparison(self) -> TableRow:
        """The row, compared; its notes say which settings for scoring are unlike."""
        other_decode = self._other_decode()
        note = decode_note(self.card, self.settings, other_decode, self.expected)
        return replace(
            self.row,
            comparison=self._comparison(tuple(other_decode)),
            notes=self.row.notes.and_then(note),
        )

    def _comparison(self, other_decode: tuple[str, ...]) -> Comparison:
        not_compared = self._not_compared()
        deltas = self._deltas()
        common_deltas = deltas_at_common_seeds(self.card.tabled, self.row, self.base)
        for metric in self.card.tabled:
            name = metric.name
            if metric.decided_by(other_decode) or name in not_compared:
                deltas[name] = None
            elif self.reference.paired and deltas[name] is not None:
                deltas[name] = common_deltas[name]
            if deltas[name] is None:
                common_deltas[name] = None
        return Comparison(
            reference=self.reference.row,
            reference_seeds=self.base.finished_seeds if self.base else (),
            shares_weights=self.reference.shares_weights,
            paired=self.reference.paired,
            deltas=deltas,
            common_deltas=common_deltas,
            published_deltas=self._published_deltas(not_compared),
            not_compared=not_compared,
            other_decode=other_decode,
        )

    def _other_decode(self) -> dict[str, Any]:
        """The settings for scoring unlike the expected ones that the row does not change itself."""
        changed = set(self.row.cells)
        if self.base is not None and self.base.weights and self.reference.shares_weights:
            # Two rows score the same weights: either may be the one that changes the setting.
            changed |= set(self.base.cells)
        other_decode = {}
        for name, value in agreed(self.settings).items():
            if value != self.expected[name] and name.rpartition(".")[2] not in changed:
                other_decode[name] = value
        return other_decode

    def _not_compared(self) -> dict[str, str]:
        """By metric, why the row's scores cannot be compared with those of the reference."""
        base = self.base
        if base is None or base.row == self.row.row:
            return {}
        reasons = dict[str, str]()
        for metric in self.card.tabled:
            row_texts = self.row.within[metric.name]
            reason = why_not_compared(metric, row_texts, base.within[metric.name], base.row)
            if reason:
                reasons[metric.name] = reason
        return reasons

    def _deltas(self) -> dict[str, float | None]:
        """Means over all seeds, less those of the reference."""
        deltas = dict[str, float | None]()
        for name, score in self.row.scores.items():
            base_score = self.base.scores[name] if self.base else None
            deltas[name] = minus(score, base_score)
        return deltas

    def _published_deltas(self, not_compared: Mapping[str, str]) -> dict[str, float | None]:
        deltas = dict[str, float | None]()
        for name in self.row.scores:
            base_published = self.base.published[name] if self.base else None
            delta = published_minus(self.row.published[name], base_published)
            deltas[name] = None if name in not_compared else delta
        return deltas


def deltas_at_common_seeds(
    metrics: Iterable[Metric], row: TableRow, base: TableRow | None
) -> dict[str, float | None]:
    """Between means over the seeds that both rows have; None where they have none."""
    base_seeds = base.finished_seeds if base else ()
    seeds = [seed for seed in row.finished_seeds if seed in base_seeds]
    deltas = dict[str, float | None]()
    for metric in metrics:
        row_mean = row.mean_at(metric, seeds)
        base_mean = base.mean_at(metric, seeds) if base else None
        deltas[metric.name] = minus(row_mean, base_mean)
    return deltas
