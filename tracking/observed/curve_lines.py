"""Lines of a csv file that are one run at several steps, such as a line per epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tracking.observed.roles import Asked, Roles
from tracking.observed.source_table import SourceTable, Value, whole_number
from tracking.observed.words_of_columns import TIMES, is_called
from tracking.words import plural

NOT_OF_THE_RUN = ("steps", "metric", "measured", "cost", "start", "end")
"""Roles of columns that may differ between two lines of one run."""
Curve = list[int]
"""The places of the lines of one run."""


@dataclass(frozen=True)
class CurveLines:
    """``table``: with one line per run, its last one. ``note`` says so; "" if nothing changed."""

    table: SourceTable
    note: str = ""


def last_lines(table: SourceTable, roles: Roles, asked: Asked) -> CurveLines:
    """The last line of each run, if lines of equal runs differ only in steps and in scores."""
    typed = {roles.row, roles.seed, *asked.base}
    counters = [column for column in roles.columns("steps") if column not in typed]
    if table.read_curve is not None or not counters:
        return CurveLines(table)
    curves = _curves(table, roles)
    for counter in counters:
        if _are_curves(table, curves, counter, has_seed=roles.seed is not None):
            return _shortened(table, curves, counter)
    return CurveLines(table)


def _curves(table: SourceTable, roles: Roles) -> list[Curve]:
    """The lines that agree in all that describes their run."""
    columns = [
        column
        for column, role in roles.of.items()
        if role not in NOT_OF_THE_RUN and not is_called(column, TIMES)
    ]
    curves: dict[tuple[Value, ...], Curve] = {}
    for place, line in enumerate(table.lines):
        key = tuple(line.get(column) for column in columns)
        curves.setdefault(key, []).append(place)
    return list(curves.values())


def _are_curves(
    table: SourceTable, curves: Sequence[Curve], counter: str, *, has_seed: bool
) -> bool:
    """Whether no run has a step twice, and one has several. Without a seed, lines may be runs that
    ended at different steps: curves then begin at the first step."""
    has_several = False
    for curve in curves:
        steps = _steps(table.lines, curve, counter)
        if len(steps) < len(curve) or (len(curve) > 1 and not has_seed and not _counted(steps)):
            return False
        has_several = has_several or len(curve) > 1
    return has_several


def _steps(lines: Sequence[Mapping[str, Value]], curve: Curve, counter: str) -> list[int]:
    """Each once, the first one first."""
    numbers = {whole_number(lines[place].get(counter)) for place in curve}
    return sorted(number for number in numbers if number is not None)


def _counted(steps: Sequence[int]) -> bool:
    distances = [later - earlier for earlier, later in pairwise(steps)]
    return steps[0] <= min(distances)


def _shortened(table: SourceTable, curves: Sequence[Curve], counter: str) -> CurveLines:
    def step(place: int) -> int:
        return whole_number(table.lines[place].get(counter)) or 0

    last = sorted(max(curve, key=step) for curve in curves)
    lines = len(table.lines)
    runs = len(last)
    note = f"{lines} lines are curves of {runs} {plural('run', runs)}: the last line counts"
    shorter = replace(table, lines=tuple(table.lines[place] for place in last))
    return CurveLines(shorter, note)
