"""The paired bootstrap of many pairs of trials, each with the counts of its samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tracking.statistics.counts import Floats, of_reference
from tracking.statistics.resampling import Resampled, compared, resampled_scores
from tracking.statistics.scored_samples import Evaluated, UntestedError

Pair = tuple[Evaluated, Evaluated]
Read = Callable[[Evaluated], Floats]
Counted = Mapping[Evaluated, Floats | str]


def paired_tests(formula: str, pairs: Sequence[Pair], read: Read, noun: str, draws: int) -> list[Resampled | str]:
    """The test of each pair, or why it has none. Trials with as many samples share their draws.

    ``read`` returns [N, C] counts, and raises UntestedError. ``noun`` is what a sample is called.
    """
    counted = _read({each for pair in pairs for each in pair}, read)
    faults = [_fault(formula, pair, counted, noun) for pair in pairs]
    tested = [pair for pair, fault in zip(pairs, faults, strict=True) if not fault]
    tests = _tests(formula, tested, counted, draws)
    return [fault or tests[pair] for pair, fault in zip(pairs, faults, strict=True)]


def _read(trials: Iterable[Evaluated], read: Read) -> Counted:
    found: dict[Evaluated, Floats | str] = {}
    for trial in trials:
        try:
            found[trial] = read(trial)
        except UntestedError as error:
            found[trial] = str(error)
    return found


def _fault(formula: str, pair: Pair, counted: Counted, noun: str) -> str | None:
    """Why the two have no samples in common, if they have none."""
    ours, theirs = (counted[each] for each in pair)
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours if isinstance(ours, str) else str(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} {noun}s, but {pair[1].trial.name} has {len(theirs)}"
    fixed, expected = of_reference(formula, ours), of_reference(formula, theirs)
    other_data = pair[0].data != pair[1].data and pair[0].data and pair[1].data
    if not np.array_equal(fixed, expected) or (other_data and fixed.shape[1] == 0):
        return f"other {noun}s than {pair[1].trial.name}, or counted in other units"
    return None


def _tests(formula: str, pairs: Sequence[Pair], counted: Counted, draws: int) -> dict[Pair, Resampled | str]:
    """Of pairs with samples in common."""
    found: dict[Pair, Resampled | str] = {}
    by_size: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_size.setdefault(len(counted[pair[0]]), []).append(pair)
    for size, of_size in by_size.items():
        trials = list(dict.fromkeys(each for pair in of_size for each in pair))
        arrays = [array for trial in trials if not isinstance(array := counted[trial], str)]
        drawn = dict(zip(trials, resampled_scores(formula, arrays, draws), strict=True))
        for ours, theirs in of_size:
            difference = ours.score - theirs.score
            test = compared(drawn[ours], drawn[theirs], difference, size)
            found[ours, theirs] = test or "not every draw of the set has a score"
    return found
