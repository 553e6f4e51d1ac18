"""A sample of the training pairs, scored as a set of its own: a model that knows it better than dev over-fits."""

import numpy as np

from transformer.data.prepared import ParallelSet, Prepared


def train_sample(prepared: Prepared, max_positions: int) -> ParallelSet:
    """As many training pairs as dev has, or all if there are fewer; in their order in train.

    The fingerprint of the data draws them, so every row and seed gets the same ones. Pairs that do not fit into
    ``max_positions`` are passed over: they are not trained either.
    """
    train, size = prepared.pairs("train"), len(prepared.pairs("dev"))
    order = np.random.default_rng(int(prepared.fingerprint, 16)).permutation(len(train))
    fitting = order[train.longest_sides[order] <= max_positions]
    chosen = np.sort(fitting[:size])
    return ParallelSet(train.source.at(chosen), train.target.at(chosen))
