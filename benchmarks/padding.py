"""The share of padding in a batch: our batches against sentences in random order."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.workloads import SEED
from transformer.data.batches import Batch, TrainingBatches, collate, cut
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD

BUDGETS = (2000, 4000, 25000)


def padding(pairs: ParallelSet, budgets: Sequence[int] = BUDGETS) -> list[dict[str, Any]]:
    """One line per token budget: the share of all source and target cells without a piece, over one epoch."""
    return [
        {"tokens": tokens, "ours": share(_ours(pairs, tokens)), "random": share(_in_random_order(pairs, tokens))}
        for tokens in budgets
    ]


def share(batches: Iterable[Batch]) -> float:
    """Cells without a piece, of all cells of source and target."""
    cells = pieces = 0.0
    for batch in batches:
        cells += batch.source.numel() + batch.target.numel()
        pieces += int((batch.source != PAD).sum() + (batch.target != PAD).sum())
    return 1 - pieces / cells


def _ours(pairs: ParallelSet, tokens: int) -> Iterable[Batch]:
    epoch = TrainingBatches(pairs, tokens, int(pairs.longest_sides.max()), SEED)
    return (batch for step in range(1, len(epoch) + 1) for batch in epoch.micro_batches(step, 0, 1, tokens))


def _in_random_order(pairs: ParallelSet, tokens: int) -> Iterable[Batch]:
    order = np.random.default_rng(SEED).permutation(len(pairs))
    return (collate(pairs, indices) for indices in cut(pairs, order, tokens))
