"""Seeds that were added to a study, and trials that were dropped, after its first results could be seen.

Who looks, and adds or drops until a difference is shown, finds one too often. So the caption counts both.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tracking.damage import unless_damaged
from tracking.study import Study

SEEDS = re.compile(r"\bsweep\.seeds=(\[[^\]]*\]|\d+)")
DROP = re.compile(r"\ballelse'? drop\b")
SINGLE_SEED = re.compile(r"\b(?:train|\w+)\.seed=(\d+)")


@dataclass(frozen=True)
class LaterSeeds:
    """``times``: how often seeds were added after a first result. ``seeds``: those seeds. ``drops``: how often rows or
    trials were dropped since then."""

    times: int
    seeds: tuple[int, ...]
    drops: int = 0

    @property
    def text(self) -> str:
        """Such as "Seeds were added twice after first results (4, 5, 6): …", or nothing."""
        listed = ", ".join(map(str, self.seeds))
        added = f"Seeds were added {_often(self.times)} after first results ({listed}): p values assume a fixed number."
        dropped = f"Trials were dropped {_often(self.drops)} after first results: p values do not account for that."
        return " ".join([added] * bool(self.times) + [dropped] * bool(self.drops))


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def later_seeds(study: Study) -> LaterSeeds:
    """From the commands in `study.json` and the times at which trials finished."""
    first = _first_result(study)
    known: set[int] = set()
    added: list[list[int]] = []
    for ts, seeds in _requests(study):
        new = [seed for seed in seeds if seed not in known]
        if new and known and first is not None and ts > first:
            added.append(new)
        known |= set(seeds)
    drops = sum(first is not None and ts > first for ts in _drops(study))
    return LaterSeeds(len(added), tuple(seed for new in added for seed in new), drops)


def _drops(study: Study) -> Iterator[float]:
    """When `allelse drop` was typed, as Unix seconds."""
    for asked in study.asked:
        if DROP.search(asked["command"]) and (ts := _seconds(asked["ts"])) is not None:
            yield ts


def _requests(study: Study) -> Iterator[tuple[float, list[int]]]:
    """When seeds were requested, as Unix seconds, and which of them the study has. The first command has some."""
    recorded = {trial.seed for trial in study.trials}
    for number, asked in enumerate(study.asked):
        seeds = [seed for seed in named_seeds(asked["command"]) if seed in recorded]
        if number == 0 and not seeds:
            seeds = [1]
        if (ts := _seconds(asked["ts"])) is not None:
            yield ts, seeds


def named_seeds(command: str) -> list[int]:
    """The seeds that a command names, such as ``sweep.seeds=[1,2]`` or ``train.seed=3``."""
    found = [*SEEDS.findall(command), *SINGLE_SEED.findall(command)]
    return [int(digits) for text in found for digits in re.findall(r"\d+", text)]


def _first_result(study: Study) -> float | None:
    """When the first trial finished, in Unix seconds."""
    ends = [
        attempt.ended
        for trial in study.trials
        for attempt in unless_damaged(study.trial_folder(trial).attempts.all, [])
        if attempt.ended is not None and attempt.reason == "finished"
    ]
    return min(ends, default=None)


def _seconds(ts: str) -> float | None:
    with suppress(ValueError):
        when = datetime.fromisoformat(ts)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return None
