"""One figure for a column of a paper, and its files. The same figure gives the same bytes each time."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tracking.report.inline_svg import Mark, finished
from tracking.report.palette import INK, MUTED, RULE

WIDTH = 3.3  # inches: one column of a paper with two
POINTS = 8.0
DOTS_PER_INCH = 300
Format = Literal["svg", "pdf", "png"]
FORMATS: tuple[Format, ...] = ("svg", "pdf", "png")
WITHOUT_DATES: dict[Format, dict[str, None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
STYLE = {
    **{"font.family": ["DejaVu Sans"], "font.size": POINTS, "text.color": INK, "text.usetex": False},
    **{"axes.linewidth": 0.6, "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.unicode_minus": True},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.titlelocation": "left"},
    **{"axes.titlesize": POINTS, "axes.titleweight": "bold", "axes.labelsize": POINTS, "axes.titlepad": 6.0},
    **{"axes.grid": True, "grid.color": RULE, "grid.linewidth": 0.5, "figure.facecolor": "none"},
    **{"axes.facecolor": "none", "savefig.facecolor": "none", "xtick.color": MUTED, "ytick.color": MUTED},
    **{f"{axis}tick.{key}": value for axis in "xy" for key, value in (("labelsize", 7.0), ("labelcolor", INK))},
    **{f"{axis}tick.major.{key}": value for axis in "xy" for key, value in (("size", 2.5), ("width", 0.6))},
    **{"legend.fontsize": 7.0, "legend.frameon": False, "lines.solid_capstyle": "round"},
    **{"svg.hashsalt": "allelse", "pdf.fonttype": 42, "path.simplify": True},
}


@dataclass
class Drawing:
    """A figure of matplotlib with what a page says of it. ``name``: of its files, and the prefix of its ids."""

    name: str
    title: str
    description: str  # for who cannot see it
    figure: Any
    marks: dict[str, Mark] = field(default_factory=dict)  # by the id of a part

    def mark(self, artist: Any, row: int, text: str = "") -> None:
        """Name a part of the figure: it belongs to this row of the table, and shows the text when pointed at."""
        gid = f"mark-{len(self.marks)}"
        artist.set_gid(gid)
        self.marks[gid] = Mark(row, text)

    def inline(self) -> str:
        """SVG for a page: texts stay text, colors are CSS variables, ids begin with the figure's name."""
        return finished(self._saved("svg", "none").decode(), self.name, self.description, self.marks, variables=True)

    def content(self, kind: Format) -> bytes:
        """A file of its own, in which texts are outlines or embedded fonts."""
        if kind != "svg":
            return self._saved(kind)
        return finished(self._saved(kind).decode(), self.name, self.description, {}, variables=False).encode()

    def _saved(self, kind: Format, font: str = "path") -> bytes:
        held = io.BytesIO()
        with styled({"svg.fonttype": font}):
            self.figure.savefig(held, format=kind, metadata=WITHOUT_DATES[kind], dpi=DOTS_PER_INCH)
        return held.getvalue()


@contextmanager
def styled(more: dict[str, Any] | None = None) -> Iterator[None]:
    """Our style alone: a user's matplotlibrc changes nothing. A letter that the font lacks is a box, not a warning."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Glyph")
        warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**STYLE, **(more or {})})
        yield


def new_figure(height: float, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure of one column's width and this height in inches, with its axes from top to bottom."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(rows, 1, squeeze=False)
    return figure, [line[0] for line in axes]


def plain(text: Any) -> Any:
    """A text of matplotlib that takes no dollar sign for mathematics."""
    text.set_parse_math(False)
    return text


def shortened(text: str, letters: int) -> str:
    """The text on one line, at most this long, with … in place of its end."""
    line = " ".join(text.split(" "))
    return line if len(line) <= letters else f"{line[: letters - 1].rstrip(' ,;')}…"
