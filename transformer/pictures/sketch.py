"""A drawing as plain data, in points from its upper left corner: lines, boxes and words.

Every format draws the same sketch. Lines and boxes of equal color and opacity are one part, so a
file stays small.
"""

import colorsys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from transformer.pictures.words import Weights

INK = "#1c1d22"
MUTED = "#62646d"
PAPER = "#ffffff"
RULE = "#c9cace"
CELL = "#0b3c6f"
HEAD_COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b58900",
    "#56b4e9",
    "#6a3d9a",
    "#8c564b",
)
GOLDEN = 0.618034
LEVELS = 40
"""Steps of opacity. A weight below half a step is not drawn."""
FAINTEST = 0.5 / LEVELS
FONTS = "'DejaVu Sans', Verdana, sans-serif"
NARROW = 0.62
WIDE = 1.05
"""Widths of a letter by its size; wide ones are capitals, m, w, and Chinese, Japanese and Korean."""


@dataclass(frozen=True)
class Label:
    """Words at a point of their baseline; ``turned`` reads from bottom to top.

    ``name`` says what it stands for, such as ``query-3``.
    """

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    size: float = 9.0
    color: str = INK
    turned: bool = False
    bold: bool = False
    name: str = ""


Four = tuple[float, float, float, float]


@dataclass(frozen=True)
class Marks:
    """Lines, each as x and y of both ends; or filled boxes, each as x, y, width and height."""

    color: str
    opacity: float
    places: list[Four] = field(default_factory=list)


MarksByStyle = dict[tuple[str, float], Marks]
"""By color and opacity."""


@dataclass
class Sketch:
    """Parts in drawing order; ``description`` is for readers who cannot see it."""

    description: str
    width: float = 0.0
    height: float = 0.0
    boxes: MarksByStyle = field(default_factory=dict)
    strips: MarksByStyle = field(default_factory=dict)  # boxes behind keys, of the asked queries
    frames: list[Four] = field(default_factory=list)
    lines: MarksByStyle = field(default_factory=dict)
    labels: list[Label] = field(default_factory=list)

    def line(self, color: str, weight: float, ends: Four) -> None:
        """A line as strong as the weight, from 0 to 1."""
        _add(self.lines, color, weight, ends)

    def box(self, color: str, weight: float, corner_and_size: Four) -> None:
        """A box as strong as the weight, from 0 to 1."""
        _add(self.boxes, color, weight, corner_and_size)

    def strip(self, color: str, weight: float, corner_and_size: Four) -> None:
        """A box behind a key, which a page hides while it shows other lines."""
        _add(self.strips, color, weight, corner_and_size)

    def strongest_last(self) -> list[Marks]:
        """The lines in drawing order: weak ones never hide strong ones."""
        return sorted(self.lines.values(), key=lambda lines: lines.opacity)


def _add(marks: MarksByStyle, color: str, weight: float, place: Four) -> None:
    opacity = level(weight)
    if opacity:
        marks.setdefault((color, opacity), Marks(color, opacity)).places.append(place)


def level(weight: float) -> float:
    """The opacity for a weight: the nearest of all levels."""
    return round(weight * LEVELS) / LEVELS


def visible(weights_QK: Weights) -> Iterator[tuple[int, int, float]]:
    """Query, key and weight where a weight is drawn at all."""
    for query, key in np.argwhere(weights_QK >= FAINTEST).tolist():
        yield query, key, float(weights_QK[query, key])


def head_color(head: int) -> str:
    """The color of a head, counted from 1."""
    if head <= len(HEAD_COLORS):
        return HEAD_COLORS[head - 1]
    red, green, blue = colorsys.hls_to_rgb(head * GOLDEN % 1, 0.42, 0.6)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in (red, green, blue))


def width_of(texts: Sequence[str], size: float) -> float:
    """About the width of the longest text at this size."""
    return size * max(sum(map(_letter_width, text)) for text in texts)


def _letter_width(letter: str) -> float:
    is_wide = letter.isupper() or letter in "mw" or unicodedata.east_asian_width(letter) in "WF"
    return WIDE if is_wide else NARROW
