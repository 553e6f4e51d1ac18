"""What all figures share: named rows, the width of a paper's column, colors, numbers at axes; and
their files.

The same figure gives the same bytes each time. Matplotlib lays out titles, names and legends.

Colors are those of Okabe and Ito, which color-blind people can distinguish, and grays. On a page
each color is a CSS variable, so that dark mode can change it. Files for paper have these values.
"""

import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from tracking.shell import file_name
from tracking.statistics.table_row import BASE, TableRow

INK = "#1c1d22"
MUTED = "#6e7079"
RULE = "#d8d9de"
PAPER = "#fefefe"
BLUE = "#0072b2"
VERMILION = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY = "#56b4e9"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
DASHES: tuple[object, ...] = ("solid", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
VARIABLES = {
    **{INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper"},
    **{color: f"--series-{place}" for place, color in enumerate(SERIES, 1)},
}
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
REFERENCE = re.compile(r"(?:url\(|^)#")
COLOR = re.compile(rf"(?<=: )(?:{'|'.join(VARIABLES)})")
FIGURE_WIDTH = 3.3  # inches: one column of a paper with two
LEGEND_LINE = 0.13  # inches: the height of a line
NAME_LETTERS = 46  # of a row in a legend
FONT_POINTS = 8.0
DOTS_PER_INCH = 300
OTHER_FONTS = "Verdana, sans-serif"
NOTE_POINTS = 12.0
NOTE_FONT_POINTS = 6.5
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
LARGEST_WITH_UNIT = 1e15
FIGURE_FORMATS: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
"""Each with the metadata that matplotlib must not write, since it changes from day to day."""
STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": FONT_POINTS,
    "text.color": INK,
    "text.parse_math": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.unicode_minus": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": FONT_POINTS,
    "axes.titleweight": "bold",
    "axes.labelsize": FONT_POINTS,
    "axes.titlepad": 6.0,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": MUTED,
    "xtick.labelsize": 7.0,
    "xtick.labelcolor": INK,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.color": MUTED,
    "ytick.labelsize": 7.0,
    "ytick.labelcolor": INK,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.borderpad": 0.0,
    "legend.labelspacing": 0.25,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "legend.handlelength": 1.8,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-12, 12),
    "lines.solid_capstyle": "round",
    "svg.hashsalt": "allelse",
    "pdf.fonttype": 42,
    "path.simplify": True,
}


@dataclass(frozen=True, eq=False)
class Entry:
    """A row of the table at its ``place``: figures and page name the row by it, never by its
    text."""

    place: int
    row: TableRow

    @property
    def is_base(self) -> bool:
        return self.row.row == BASE

    @property
    def label(self) -> str:
        """What it changes; base for base. `d_k = d_v = 16` does not break across lines."""
        if self.is_base:
            return BASE
        change = self.row.change or self.row.row
        return change.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")

    @property
    def full(self) -> str:
        """With its group, for legends over several groups."""
        if self.is_base or self.row.group in self.label:
            return self.label
        return f"{self.row.group}  {self.label}"


@dataclass
class Drawing:
    """A figure of matplotlib with its words on a page. ``name`` names its files and begins its ids.

    ``marks``: by the id of a part, the place of its row and its text.
    """

    name: str
    title: str
    description: str  # for readers who cannot see it
    figure: Any
    marks: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A metric's name may hold anything."""
        self.name = file_name(self.name)

    def mark(self, artist: Any, entry: Entry, text: str = "") -> None:
        """Mark a part of the figure: it belongs to this row of the table, and shows the text as a
        tooltip."""
        part_id = f"mark-{len(self.marks)}"
        artist.set_gid(part_id)
        self.marks[part_id] = entry.place, text

    def plot(
        self, axes: Any, points: tuple[Any, Any], entry: Entry, text: str, **style: Any
    ) -> Any:
        """A marked line of a row, or its points. ``points``: their x and their y."""
        (line,) = axes.plot(*points, **style)
        self.mark(line, entry, text)
        return line

    def add_legend(self, lines: Mapping[Entry, Any]) -> None:
        """Below, the name of each row with its line. Both belong to the row."""
        names = [shortened(entry.full, NAME_LETTERS) for entry in lines]
        legend = legend_below(self.figure, [*zip(names, lines.values(), strict=True)])
        for entry, sign, name in zip(lines, legend.get_lines(), legend.get_texts(), strict=True):
            self.mark(sign, entry)
            self.mark(name, entry)

    def inline(self) -> str:
        """SVG for a page: texts stay text, colors are CSS variables, ids begin with the figure's
        name."""
        root = self._svg("none")
        root.attrib = {
            "viewBox": root.attrib["viewBox"],
            "role": "img",
            "aria-label": " ".join(self.description.split()),
        }
        for part in [*root.iter()]:
            _drop(part, "style")  # it would apply to the whole page
            if "style" in part.attrib:
                style = COLOR.sub(_variable, part.attrib["style"])
                part.set("style", style)
        return ElementTree.tostring(root, "unicode")

    def content(self, kind: str) -> bytes:
        """A file of its own, in which texts are outlines or embedded fonts."""
        if kind != "svg":
            return self._saved(kind)
        content: bytes = ElementTree.tostring(self._svg("path"), "utf-8")
        return content

    def svg_with_text(self, note: str = "") -> bytes:
        """SVG in which texts stay text, on paper that dark mode leaves as it is; a note is
        below the figure."""
        root = self._svg("none")
        root.set("style", f"background: {PAPER}")
        if note:
            _add_note(root, note)
        text = ElementTree.tostring(root, "unicode")
        return text.replace("'DejaVu Sans'", f"'DejaVu Sans', {OTHER_FONTS}").encode()

    def _svg(self, font: str) -> ElementTree.Element:
        """Parts with a mark have the class of their row, and a title."""
        ElementTree.register_namespace("", SVG)
        ElementTree.register_namespace("xlink", XLINK)
        root = ElementTree.fromstring(self._saved("svg", font))
        for part in [*root.iter()]:
            _drop(part, "metadata")
            row, text = self.marks.get(part.get("id", ""), (None, ""))
            if row is not None:
                part.set("class", f"row row-{row}")
            if text:
                part.insert(0, ElementTree.Element(f"{{{SVG}}}title"))
                part[0].text = text
            for key, value in part.attrib.items():
                part.set(key, self._with_own_ids(key, value))
        return root

    def _with_own_ids(self, key: str, value: str) -> str:
        """An attribute whose ids begin with the figure's name."""
        if key == "id":
            return f"{self.name}-{value}"
        return REFERENCE.sub(rf"\g<0>{self.name}-", value)

    def _saved(self, kind: str, font: str = "path") -> bytes:
        content = io.BytesIO()
        metadata = FIGURE_FORMATS[kind]
        with styled({"svg.fonttype": font}):
            self._lay_out()
            self.figure.savefig(content, format=kind, metadata=metadata, dpi=DOTS_PER_INCH)
        return content.getvalue()

    def _lay_out(self) -> None:
        """Only once, so that all files have the same layout, whichever is written first."""
        if self.figure.get_layout_engine() is not None:
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")


def _add_note(root: ElementTree.Element, note: str) -> None:
    """Below the figure, which becomes higher by one line."""
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    new_height = height + NOTE_POINTS
    root.set("viewBox", f"0 0 {width:g} {new_height:g}")
    root.set("height", f"{new_height:g}pt")
    style = f"font: {NOTE_FONT_POINTS}px 'DejaVu Sans'; fill: {MUTED}"
    attributes = {"x": "4", "y": f"{height + NOTE_FONT_POINTS:g}", "style": style}
    ElementTree.SubElement(root, f"{{{SVG}}}text", attributes).text = note


def _variable(color: re.Match[str]) -> str:
    """The CSS variable of a color."""
    return f"var({VARIABLES[color[0]]})"


def _drop(part: ElementTree.Element, tag: str) -> None:
    for child in part.findall(f"{{{SVG}}}{tag}"):
        part.remove(child)


def imported_matplotlib() -> Any:
    """The package, whatever backend the environment names: Jupyter's may be missing, and no window
    opens."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    return matplotlib


@contextmanager
def styled(further_style: dict[str, Any] | None = None) -> Iterator[None]:
    """Only our style: a user's matplotlibrc changes nothing. A letter that the font lacks is a box,
    not a warning."""
    matplotlib = imported_matplotlib()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Glyph")
        warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**STYLE, **(further_style or {})})
        yield


def new_figure(height: float, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure as wide as a paper's column and this high, in inches, with its axes from top to
    bottom."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(FIGURE_WIDTH, height), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False)
    return figure, [axes_of_row[0] for axes_of_row in axes]


def legend_below(figure: Any, signs: Sequence[tuple[str, Any]], columns: int = 1) -> Any:
    """Names with their signs, from left to right: matplotlib fills one column after the other."""
    ordered = [sign for column in range(columns) for sign in signs[column::columns]]
    names, handles = zip(*ordered, strict=True)
    return figure.legend(handles, names, loc="outside lower left", ncols=columns, borderaxespad=0.2)


def add_titles(axes: Any, left: str, right: str) -> None:
    """What is drawn, and of what."""
    axes.set_title(left)
    axes.set_title(right, loc="right", fontsize=7, fontweight="normal")


def shortened(text: str, letters: int) -> str:
    """The text at most this long, with … in place of its end."""
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip(' ,;')}…"


def axis_number(value: float, _: object = None) -> str:
    """Such as 0.5, 500, 2k, 1.5M, 300G, 20T; from 1e15 on as in the table, such as 2.5e18."""
    if abs(value) >= LARGEST_WITH_UNIT:
        return f"{value:.3g}".replace("e+", "e")
    for unit, name in UNITS:
        if abs(value) >= unit:
            return f"{value / unit:.6g}{name}"
    return f"{value:.6g}"
