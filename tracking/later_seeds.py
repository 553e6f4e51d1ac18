"""Seeds that were added to a study after its first results could be seen.

Who looks, and adds seeds until a difference is shown, finds one too often. So the caption counts such additions.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tracking.damage import unless_damaged
from tracking.study import Study

SEEDS = re.compile(r"\bsweep\.seeds=(\[[^\]]*\]|\d+)")
SINGLE_SEED = re.compile(r"\b(?:train|\w+)\.seed=(\d+)")


@dataclass(frozen=True)
class LaterSeeds:
    """``times``: how often seeds were added after a first result. ``seeds``: those seeds."""

    times: int
    seeds: tuple[int, ...]

    @property
    def text(self) -> str:
        """Such as "Seeds were added twice after first results (4, 5, 6).", or nothing."""
        if not self.times:
            return ""
        often = {1: "once", 2: "twice"}.get(self.times, f"{self.times} times")
        listed = ", ".join(map(str, self.seeds))
        return f"Seeds were added {often} after first results ({listed}): p values assume a fixed number."


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
    return LaterSeeds(len(added), tuple(seed for new in added for seed in new))


def _requests(study: Study) -> Iterator[tuple[float, list[int]]]:
    """When seeds were requested, as Unix seconds, and which of them the study has. The first command has some."""
    recorded = {trial.seed for trial in study.trials}
    for number, asked in enumerate(study.asked):
        words = asked["command"]
        seeds = [seed for seed in named_seeds(words if isinstance(words, str) else " ".join(words)) if seed in recorded]
        if number == 0 and not seeds:
            seeds = [1]
        if (ts := _seconds(str(asked["ts"]))) is not None:
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
        for attempt in unless_damaged(study.trial_folder(trial).attempts, [])
        if attempt.ended is not None and attempt.reason == "finished"
    ]
    return min(ends, default=None)


def _seconds(ts: str) -> float | None:
    with suppress(ValueError):
        when = datetime.fromisoformat(ts)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return None
