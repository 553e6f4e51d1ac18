"""How long a sweep still takes: its remaining trials, put on the free slots in their order of work."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.processes.times import MEASURED_S


@dataclass(frozen=True)
class Ongoing:
    """A trial that trained: its whole effort, the part done since ``seconds`` ago, and the part that is left.

    Effort is what the plan knows of the cost: FLOPs, or else steps. ``after`` is the seconds of its evaluation.
    """

    done: float
    left: float
    seconds: float
    running: bool
    after: float = 0.0


def seconds_left(ongoing: Sequence[Ongoing], waiting: Sequence[float], overhead: float = 0.0) -> float | None:
    """Until the last trial ends; None before any pace is known. ``waiting`` are efforts in the order of work.

    A running trial goes on at its own pace, and is then evaluated. Waiting trials take the slots that become free, at
    the mean pace of all, each with ``overhead`` seconds for its start and evaluation.
    """
    measured = [each for each in ongoing if each.seconds >= MEASURED_S and each.done > 0]
    if not measured:
        return None
    pace = sum(each.seconds for each in measured) / sum(each.done for each in measured)
    slots = [_own(each, pace) for each in ongoing if each.running] or [0.0]
    heapq.heapify(slots)
    ends = list(slots)
    for effort in waiting:
        end = heapq.heappop(slots) + overhead + pace * effort
        heapq.heappush(slots, end)
        ends.append(end)
    return max(ends)


def _own(each: Ongoing, pace: float) -> float:
    known = each.seconds >= MEASURED_S and each.done > 0
    return each.left * (each.seconds / each.done if known else pace) + each.after
