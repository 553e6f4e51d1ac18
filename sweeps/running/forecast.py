"""How long a sweep still takes: its remaining trials, put on the free slots in their order of work."""

import heapq
from collections.abc import Mapping, Sequence

from sweeps.planning.plan import PlannedTrial
from sweeps.standings import Line
from tracking.look import Look


def seconds_left(pending: Sequence[PlannedTrial], lines: Mapping[str, Line]) -> float | None:
    """Until the last of these trials ends; None before any pace is known. ``lines``: where they stand, by name.

    A running trial goes on at its own pace. The others take the slots that become free, at the mean pace of all:
    seconds by what the plan knows of the cost, FLOPs or else steps. What finished trials took besides training, for
    their start and their scores, the others take as well.
    """
    known = [(planned, lines[planned.trial.name]) for planned in pending if planned.trial.name in lines]
    paces = [pace for planned, line in known if (pace := _pace(planned, line["look"])) is not None]
    if not paces:
        return None
    pace, others = sum(paces) / len(paces), [_besides(line["look"]) for _, line in known if line["look"].result]
    besides = sum(others) / len(others) if others else 0.0
    slots, waiting = list[float](), list[float]()
    for planned, line in known:
        left = pace * planned.effort * (1 - (line["step"] or 0) / planned.steps)
        if line["state"] == "running":
            slots.append((left if line["seconds_left"] is None else line["seconds_left"]) + besides)
        elif line["state"] in ("missing", "interrupted"):
            waiting.append(left + besides)
    slots = slots or [0.0]
    heapq.heapify(slots)
    last = max(slots)
    for seconds in waiting:
        last = max(last, slots[0] + seconds)
        heapq.heapreplace(slots, slots[0] + seconds)
    return last


def _pace(planned: PlannedTrial, look: Look) -> float | None:
    """Seconds by effort: of the whole training, or of the running attempt."""
    if look.result is not None:
        seconds: float | None = look.result["seconds"]
        return None if seconds is None else seconds / planned.effort
    return None if look.pace is None else look.pace * planned.steps / planned.effort


def _besides(look: Look) -> float:
    """Seconds of its last attempt without training."""
    attempt, result = look.attempt, look.result
    if attempt is None or attempt.ended is None or result is None:
        return 0.0
    return max(0.0, attempt.ended - attempt.began - float(result["seconds"] or 0))
