"""A program's standard output: its lines, and the states of its progress bars."""

import re
from collections.abc import Iterator
from pathlib import Path

from tracking.written.growing_file import GrowingFile
from tracking.written.output_line import (
    Position,
    has_score,
    plain_text,
    points_in,
    position_of,
)
from tracking.written.point import WrittenPoint
from tracking.written.rounds import Rounds

STATE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r)")
"""Text that is whole, and what ended it. A bar writes a carriage return before its next state."""


class StandardOutput:
    """A line without a step belongs to the last step or epoch that an earlier line named.

    A bar is written many times a second: its full state counts, and its newest one per look.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self._position = Position()
        self._rounds: Rounds | None = None
        self._last_values: dict[str, tuple[float, int | None]] = {}

    def skip_to_end(self) -> None:
        self._file.skip_to_end()
        self._position = Position()
        self._rounds = None

    def complete(self) -> None:
        self._file.complete()

    def new_points(self) -> Iterator[WrittenPoint]:
        growth = self._file.growth()
        if growth is None:
            return
        states = list(STATE.finditer(growth.content))
        if states:
            self._file.advance(growth.content[: states[-1].end()])
        for index, state in enumerate(states):
            is_newest = index == len(states) - 1
            yield from self._points(plain_text(state[1]), state[2] == b"\r", is_newest)

    def _points(self, line: str, is_bar: bool, is_newest: bool) -> Iterator[WrittenPoint]:
        position = self._place(line)
        self._position = position or self._position
        if is_bar and not is_newest and not (position and position.is_end):
            return
        for point in points_in(line, self._position):
            if not self._is_repeated(point, position):
                yield point

    def _place(self, line: str) -> Position | None:
        """None for a line that names neither a step nor an epoch."""
        position = position_of(line)
        if position is None:
            return None
        scored = has_score(line)
        if self._rounds is None and scored and self._position.epoch is None:
            self._rounds = _first_round(position)
        place = self._rounds.place(position, scored) if self._rounds is not None else None
        if place is None:
            self._rounds = None
            place = position.after(self._position)
        return place

    def _is_repeated(self, point: WrittenPoint, position: Position | None) -> bool:
        """A bar writes its full state again when it is closed."""
        last = self._last_values.get(point.name)
        self._last_values[point.name] = (point.value, point.step)
        return position is not None and position.is_end and last == (point.value, point.step)


def _first_round(position: Position) -> Rounds | None:
    return Rounds(position.steps) if position.is_bar_alone and position.steps else None
