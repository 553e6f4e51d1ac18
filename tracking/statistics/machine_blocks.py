"""The second analysis of a study whose trials were trained on several kinds of machine: the tests
over seeds again, with a block for each kind."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracking.card import Metric
from tracking.statistics.table_row import TableRow
from tracking.statistics.unlike_trials import machine_kinds
from tracking.study import Study

if TYPE_CHECKING:
    from tracking.statistics.seeds.blocks import BlockTest
    from tracking.statistics.seeds.family import Family

KindOfSeed = Mapping[str, Mapping[int, str]]
"""Row -> seed -> the kind of machine."""


@dataclass(frozen=True)
class MachineBlocks:
    """Empty if all trials were trained on one kind of machine."""

    trials: dict[str, int] = field(default_factory=dict)  # of each kind
    tests: dict[str, dict[str, "BlockTest | None"]] = field(default_factory=dict)
    """By metric and tested row. None: the row can't be told from the kinds."""


def machine_blocks(
    study: Study, rows: Sequence[TableRow], families: Mapping[str, Sequence["Family"]]
) -> MachineBlocks:
    """Of the trained rows that ``families``, by metric, test by their means."""
    kinds = machine_kinds(study)
    trained = [row.row for row in rows if not row.comparison.shares_weights]
    trials = Counter(kind for row in trained for kind in kinds.get(row, {}).values())
    if len(trials) < 2:
        return MachineBlocks()
    tests = {}
    for metric in study.task.tabled:
        references = _references(families.get(metric.name, ()))
        if references:
            margin = study.margins.get(metric.name)
            tests[metric.name] = _tests(rows, metric, kinds, references, margin)
    return MachineBlocks(dict(trials.most_common()), tests)


def _references(families: Iterable["Family"]) -> dict[str, str]:
    """Of each row that is tested by its mean."""
    by_means = [family for family in families if not family.paired]
    return {row: family.reference for family in by_means for row in family.tests}


def _tests(
    rows: Sequence[TableRow],
    metric: Metric,
    kinds: KindOfSeed,
    references: Mapping[str, str],
    margin: float | None,
) -> dict[str, "BlockTest | None"]:
    from tracking.statistics.seeds.blocks import block_tests
    from tracking.statistics.seeds.family import finite

    values: dict[str, list[float]] = {}
    blocks: dict[str, list[str]] = {}
    for row in rows:
        if row.row in references or row.row in references.values():
            value_of_seed = finite(metric.tested_values(row.seed_values[metric.name]))
            values[row.row] = [*value_of_seed.values()]
            blocks[row.row] = [kinds[row.row][seed] for seed in value_of_seed]
    return block_tests(metric, values, blocks, references, margin)
