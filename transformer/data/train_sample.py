"""A sample of the training pairs, scored as a set: it shows whether a model over-fits."""

import numpy as np

from transformer.data.prepared import ParallelSet, Prepared


def train_sample(prepared: Prepared, longest: int) -> ParallelSet:
    """As many training pairs as dev has, or all if there are fewer, in their order in train.

    Pairs that have more than ``longest`` pieces on a side are left out, as they are in training.
    The fingerprint of the data is the seed, so rows with the same ``longest`` get the same pairs.
    """
    train = prepared.pairs("train")
    size = len(prepared.pairs("dev"))
    random = np.random.default_rng(int(prepared.fingerprint, 16))
    order = random.permutation(len(train))
    fitting = order[train.longest_sides[order] <= longest]
    sample = np.sort(fitting[:size])
    return ParallelSet(train.source.at(sample), train.target.at(sample))
