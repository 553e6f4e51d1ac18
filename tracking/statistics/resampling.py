"""Paired bootstrap over the samples of one set.

After Koehn (EMNLP 2004, aclanthology.org/W04-3250). The draws are those of sacreBLEU: the same generator, seed and
order, so that with as many draws both resample the same sets.

Shapes: D draws, N samples, C columns of counts, T trials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracking.statistics.counts import Floats, scores

SEED = 12345  # sacreBLEU's default
CELLS_AT_ONCE = 4_000_000  # of a block of draws: 32 MB


@dataclass(frozen=True)
class Resampled:
    """A difference with its 95 % interval and two-sided p-value, over this many samples."""

    difference: float
    low: float
    high: float
    p: float
    samples: int


def resampled_scores(formula: str, counts_TNC: Sequence[Floats], draws: int) -> Floats:
    """[T, D]: the score of each trial on each draw of N samples with replacement; all trials share the draws."""
    samples, columns = counts_TNC[0].shape
    side_by_side = np.concatenate(counts_TNC, axis=1)  # [N, T * C]
    blocks: list[Floats] = []
    for drawn_KN in _draws(samples, draws, max(1, CELLS_AT_ONCE // max(samples, side_by_side.shape[1]))):
        sums_KTC = (drawn_KN @ side_by_side).reshape(-1, columns)
        blocks.append(scores(formula, sums_KTC, samples).reshape(len(drawn_KN), -1))
    return np.concatenate(blocks).T


def compared(ours_D: Floats, theirs_D: Floats, difference: float, samples: int) -> Resampled | None:
    """The difference of two trials over the same draws, with a percentile interval.

    p is the share of draws whose difference, shifted to mean zero, is at least as large as the measured one: a
    two-sided test of no difference, where sacreBLEU's is nearly one-sided (it takes absolute values before it shifts).
    Both counts have one added, as in sacreBLEU, so that p is never 0. None if a draw has no score.
    """
    differences_D = ours_D - theirs_D
    if not np.isfinite(differences_D).all():
        return None
    low, high = np.quantile(differences_D, (0.025, 0.975))
    shifted_D = np.abs(differences_D - differences_D.mean())
    larger = int(np.count_nonzero(shifted_D >= abs(difference)))
    return Resampled(difference, float(low), float(high), (larger + 1) / (len(differences_D) + 1), samples)


def _draws(samples: int, draws: int, at_once: int) -> Iterator[Floats]:
    """Blocks of at most ``at_once`` draws, [K, N]: how often each sample is in each draw."""
    random = np.random.default_rng(SEED)
    for start in range(0, draws, at_once):
        block = min(at_once, draws - start)
        places = random.integers(0, samples, size=(block, samples)) + samples * np.arange(block)[:, None]
        yield np.bincount(places.ravel(), minlength=block * samples).reshape(block, samples).astype(np.float64)
