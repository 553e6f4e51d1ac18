"""What a caption says about trials of several kinds of machine."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracking.card import Metric
from tracking.statistics.means import minus
from tracking.statistics.seeds.finding import FINDING_WORDS
from tracking.table.study_table import StudyTable
from tracking.words import count_of, listed, number

if TYPE_CHECKING:
    from tracking.statistics.seeds.blocks import BlockTest
    from tracking.statistics.seeds.family import RowTest

Pair = tuple[str, "RowTest", "BlockTest"]
"""A row's name, its test, and its test with a block for each kind."""


def machine_lines(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """At most one line: the kinds, and what a block for each changes in these metrics of the shown
    rows."""
    pairs_of_metric = {metric: _pairs(table, metric) for metric in compared}
    tested = {metric: pairs for metric, pairs in pairs_of_metric.items() if pairs}
    inseparable = [*_inseparable(table, compared)]
    if not tested and not inseparable:
        return
    trials = table.findings.blocks.trials.items()
    kinds = [f"{kind} ({count_of(count, 'trial')})" for kind, count in trials]
    yield " ".join(
        [
            f"Trained on {len(kinds)} kinds of machine: {'; '.join(kinds)}.",
            *_changes(tested),
            *inseparable,
        ]
    )


def _pairs(table: StudyTable, metric: Metric) -> list[Pair]:
    tests = table.findings.blocks.tests.get(metric.name, {})
    pairs: list[Pair] = []
    for row in table.rows:
        test = table.findings.test(row, metric)
        with_blocks = tests.get(row.row)
        if test is not None and with_blocks is not None:
            pairs.append((row.row, test, with_blocks))
    return pairs


def _changes(tested: dict[Metric, list[Pair]]) -> Iterator[str]:
    """Such as "With a block for each kind, Δ changes by at most 0.01 (PPL), and no mark does."."""
    if not tested:
        return
    largest = []
    for metric, pairs in tested.items():
        change = max(abs(_change(test, with_block)) for _, test, with_block in pairs)
        largest.append(f"{number(change, metric.places)} ({metric.label})")
    changed = [text for metric, pairs in tested.items() for text in _changed_marks(metric, pairs)]
    marks = f"these marks do: {listed(changed)}" if changed else "no mark does"
    yield f"With a block for each kind, Δ changes by at most {listed(largest)}, and {marks}."


def _change(test: "RowTest", with_block: "BlockTest") -> float:
    return minus(with_block.difference, test.difference) or 0.0


def _changed_marks(metric: Metric, pairs: Sequence[Pair]) -> Iterator[str]:
    """Such as "c_ff_1024 ? instead of ▼ (PPL)"."""
    for row, test, with_blocks in pairs:
        mark = test.finding.mark
        new_mark = FINDING_WORDS[with_blocks.kind].mark
        if new_mark != mark:
            yield f"{row} {new_mark} instead of {mark} ({metric.label})"


def _inseparable(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    shown = {row.row for row in table.rows}
    rows = dict.fromkeys(
        row
        for metric in compared
        for row, test in table.findings.blocks.tests.get(metric.name, {}).items()
        if test is None and row in shown
    )
    if rows:
        yield (
            f"No test can tell the differences of {listed([*rows])} from those between kinds: train "
            "further seeds of rows on several kinds."
        )
