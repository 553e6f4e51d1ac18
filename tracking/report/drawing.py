"""What all figures share: rows by name, one column of a paper, colors, numbers at axes; and their files.

The same figure gives the same bytes each time.

Colors are those of Okabe and Ito, which the color-blind can tell apart, and the grays around them. On a page each color
is a CSS variable, so that dark mode has others. The first value is that of files on paper.
"""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from tracking.statistics.rows import BASE, TableRow

INK, MUTED, RULE, PAPER = "#1c1d22", "#6e7079", "#d8d9de", "#fefefe"
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES: tuple[object, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
VARIABLES = {
    **{INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"},
    **{color: f"--series-{place}" for place, color in enumerate(SERIES, 1)},
}
SVG_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
OPENING = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>")
SVG_STYLE = re.compile(r"\s*<style.*?</style>", re.DOTALL)  # it would hold for the whole page
TAG = re.compile(r"<[^<>]+>")  # never a part of a text, in which < is escaped
IDENTITY = re.compile(r'\bid="([^"]+)"')
REFERENCE = re.compile(r'(url\(#|xlink:href="#)([^")]+)')
COLOR = re.compile(rf"(?<=: )(?:{'|'.join(VARIABLES)})")
COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
GROUP = re.compile(r'<g id="([^"]+)">')
UP = dict(zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True))
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


@dataclass(frozen=True)
class Entry:
    """One row. ``place`` is its line of the table: figures and page name the row by it, never by its text."""

    place: int
    row: str
    group: str
    label: str  # what it changes; base for base

    @property
    def is_base(self) -> bool:
        return self.row == BASE

    @property
    def full(self) -> str:
        """With its group, for legends over several groups."""
        return self.label if self.is_base or self.group in self.label else f"{self.group}  {self.label}"


def entries(rows: Sequence[TableRow]) -> list[Entry]:
    return [
        Entry(place, row.row, row.group, BASE if row.row == BASE else _together(row.change or row.row))
        for place, row in enumerate(rows)
    ]


def _together(change: str) -> str:
    """`d_k = d_v = 16` is not broken at the end of a line."""
    return change.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


@dataclass(frozen=True)
class Mark:
    """What a part of a figure stands for."""

    row: int  # its place in the table
    text: str  # shown when the part is pointed at


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


def counted(value: float) -> str:
    """500, 2k, 1.5M; powers of ten from 10⁹ on."""
    for unit, name in ((1e9, ""), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return powered(value) if not name else f"{value / unit:g}{name}"
    return f"{value:g}"


def powered(value: float) -> str:
    """10¹², 5·10¹¹."""
    digits, _, exponent = f"{value:.3e}".partition("e")
    ten = f"10{''.join(UP[digit] for digit in str(int(exponent)))}"
    return ten if float(digits) == 1 else f"{float(digits):g}·{ten}"


def label_ticks(axis: Any, write: Any) -> None:
    """Let this function write the numbers of an axis, without offsets, mathematics or minor numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())


def finished(svg: str, name: str, description: str, marks: Mapping[str, Mark], *, variables: bool) -> str:
    """One `<svg>` element. With ``variables`` it belongs to a page, otherwise to a file of its own."""
    text = COMMENT.sub("", METADATA.sub("", svg))
    text = GROUP.sub(lambda found: _marked(found[1], marks), text)
    text = TAG.sub(lambda tag: _named(tag[0], name), text)
    return _for_page(SVG_HEAD.sub("", text), description) if variables else text


def _named(tag: str, name: str) -> str:
    tag = IDENTITY.sub(lambda found: f'id="{name}-{found[1]}"', tag)
    return REFERENCE.sub(lambda found: f"{found[1]}{name}-{found[2]}", tag)


def _marked(gid: str, marks: Mapping[str, Mark]) -> str:
    mark = marks.get(gid)
    if mark is None:
        return f'<g id="{gid}">'
    title = f"<title>{escape(mark.text)}</title>" if mark.text else ""
    return f'<g id="{gid}" class="row row-{mark.row}">{title}'


def _for_page(text: str, description: str) -> str:
    def opening(found: re.Match[str]) -> str:
        label = escape(" ".join(description.split()))
        return f'<svg viewBox="{found[1]}" role="img" aria-label="{label}" xmlns:xlink="http://www.w3.org/1999/xlink">'

    def recolored(tag: re.Match[str]) -> str:
        return COLOR.sub(lambda found: f"var({VARIABLES[found[0]]})", tag[0])

    return TAG.sub(recolored, OPENING.sub(opening, SVG_STYLE.sub("", text), count=1)).strip()
