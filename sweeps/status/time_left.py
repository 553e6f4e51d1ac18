"""The time until a running sweep ends, extrapolated from its finished trials."""

from collections.abc import Mapping, Sequence

from sweeps.planning.planned_trial import PlannedTrial
from sweeps.status.standings import Line
from tracking.activity.look import Look

WAITING = ("missing", "interrupted")


def sweep_seconds_left(pending: Sequence[PlannedTrial], lines: Mapping[str, Line]) -> float | None:
    """Seconds until the last of these trials that train ends; None before one has. ``lines``: their
    status lines, by name.

    Extrapolated from how long the finished trials took, with start and scoring, per planned FLOP or
    else step. Assumes that as many trials run at a time as run now.
    """
    trained = [planned for planned in pending if planned.host is None]
    with_lines = [(planned, lines[planned.name]) for planned in trained if planned.name in lines]
    pace = _seconds_per_effort(with_lines)
    if pace is None:
        return None
    running: list[float] = []
    waiting: list[float] = []
    for planned, line in with_lines:
        seconds = pace * planned.effort * _share_left(planned, line)
        if line["state"] == "running":
            running.append(seconds)
        elif line["state"] in WAITING:
            waiting.append(seconds)
    longest = max(running, default=0.0)
    slots = max(1, len(running))
    return max(longest, sum([*running, *waiting]) / slots)


def _seconds_per_effort(with_lines: Sequence[tuple[PlannedTrial, Line]]) -> float | None:
    """The mean over the finished trials; None before one has finished."""
    paces = [
        _seconds_of(line["look"]) / planned.effort
        for planned, line in with_lines
        if line["look"].result
    ]
    return sum(paces) / len(paces) if paces else None


def _seconds_of(look: Look) -> float:
    """Seconds of a finished trial: of all its training, or of its last attempt."""
    attempt = look.attempt
    result = look.result or {}
    last_attempt = attempt.ended - attempt.began if attempt and attempt.ended else 0.0
    return max(last_attempt, float(result.get("seconds") or 0))


def _share_left(planned: PlannedTrial, line: Line) -> float:
    """The share of the trial's steps that is still to train."""
    return float(1 - (line["step"] or 0) / planned.steps)
