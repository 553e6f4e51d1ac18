r"""One table as text: rows seen through columns, printed as Markdown, HTML and LaTeX, and as CSV and JSON for programs.

A table in LaTeX needs the preamble \usepackage{booktabs}. One in HTML takes nothing from elsewhere and has no script.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from jinja2 import Environment

Row = TypeVar("Row")
Kind = Literal["name", "text", "setting", "number", "note"]
"""How a column is set: a name never breaks, a note takes the room that is left, a setting is in the middle."""
MARK = re.compile(r"(?<=\d)[^\w\s.,%\])]$")
"""A sign right behind a number, such as *."""
ESCAPED = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}"},
    **{"|": r"\textbar{}", '"': r"\textquotedbl{}", "*": "$^{*}$", "†": "$^{\\dagger}$", "‡": "$^{\\ddagger}$"},
    **{"§": "$^{\\S}$", "▲": r"$\bigtriangleup$", "▼": r"$\bigtriangledown$", "▽": r"$\downarrow$"},
    **{"◇": r"$\diamond$", "⇈": r"$\Uparrow$"},  # that need no package
    **{"°": r"$^{\circ}$", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$"},
    **{"⁶": "$^{6}$", "–": "--", "—": "---", "…": r"\dots{}", "’": "'", "½": r"$\frac{1}{2}$", "√": r"$\surd$"},
    **{"Δ": r"$\Delta$", "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\epsilon$"},
    **{"η": r"$\eta$", "θ": r"$\theta$", "λ": r"$\lambda$", "μ": r"$\mu$", "µ": r"$\mu$", "ρ": r"$\rho$"},
    **{"σ": r"$\sigma$", "τ": r"$\tau$", "φ": r"$\phi$", "ω": r"$\omega$", "π": r"$\pi$", "→": r"$\to$"},
    **{"[": "{[}", "]": "{]}"},  # after \\ a bracket would be an option
}
SYMBOL = re.compile(r"(\w)_([A-Za-z0-9]+)")
BEGIN = r"""% Needs \usepackage{booktabs}. With \usepackage{graphicx} a wide table shrinks to the line.
\begin{table}
\centering
\footnotesize
\setlength{\tabcolsep}{3pt}
\ifdefined\resizebox
\def\fitted#1{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{#1}}
\else
\def\fitted#1{#1}
\fi
\fitted{%"""
SIDES = {"number": "r", "setting": "c"}
BEYOND_LATIN = "% Letters beyond Latin ones need XeLaTeX or LuaLaTeX, and a font that has them.\n"


@dataclass(frozen=True)
class Column(Generic[Row]):
    """``text`` is the cell of a row for people, ``value`` the one for programs; ``missing`` stands for None in CSV.

    ``best`` says whether the cell is among the best of its column. A ``faint`` column holds others' numbers."""

    name: str
    head: str
    text: Callable[[Row], str]
    value: Callable[[Row], Any]
    kind: Kind = "number"
    missing: Callable[[Row], str] = lambda _: ""
    best: Callable[[Row], bool] = lambda _: False
    faint: bool = False


@dataclass(frozen=True)
class Cell:
    """The first line of a text, in a terminal, is followed by what is to say of it."""

    text: str
    best: bool = False

    @property
    def line(self) -> str:
        """On one line."""
        return self.text.replace("\n", " ")

    @property
    def parted(self) -> tuple[str, str]:
        """A number on one line, and the mark behind it: without the mark, digits stand below digits."""
        text = self.line
        return (text[:-1], text[-1]) if MARK.search(text) else (text, "")


@dataclass(frozen=True)
class TextTable:
    """``groups`` has the group of each line, or is empty. The caption's first line explains the columns."""

    title: str
    columns: tuple[Column[Any], ...]
    lines: tuple[tuple[Cell, ...], ...]
    groups: tuple[str, ...] = ()
    caption: str = ""
    styles: tuple[str, ...] = ()  # of the lines, in a terminal
    names_groups: bool = True  # whether they have a column

    @property
    def has_groups(self) -> bool:
        """Whether a column names them."""
        return bool(self.groups) and self.names_groups

    def begins(self, place: int) -> bool:
        """Whether another group begins with this line."""
        return bool(self.groups) and (place == 0 or self.groups[place - 1] != self.groups[place])


def said(name: str, text: Callable[[Row], str], kind: Kind = "text", head: str = "") -> Column[Row]:
    """A column that holds the same for people and programs."""
    return Column(name, head or name, text, text, kind)


def lines_of(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(Cell(column.text(row), column.best(row)) for column in columns) for row in rows)


def markdown(table: TextTable) -> str:
    """The best cells are bold."""
    head = ["", *(column.head for column in table.columns)]
    body = [[group, *map(_markdown, line)] for group, line in zip(table.groups, table.lines, strict=True)]
    lines = [list(map(_escape, head)), ["---"] * len(head), *body]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{table.caption}\n"


def templates(folder: Path) -> "Environment":
    """The templates of a folder. What they are given is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # not for a table in a terminal

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def html(table: TextTable) -> str:
    """One body of the table per group."""
    return templates(Path(__file__).parent / "templates").get_template("table.html").render(table=table)


def latex(table: TextTable, notes: Sequence[str] = ()) -> str:
    """One table environment; groups are apart, ``notes`` stand below the caption."""
    sides = "".join(SIDES.get(column.kind, "l") for column in table.columns)
    head = _latex_line(["", *(_latex_head(column.head) for column in table.columns)])
    lines = [f"\\begin{{tabular}}{{l{sides}}}", "\\toprule", head, "\\midrule", *_latex_body(table)]
    name = re.sub("[^A-Za-z0-9-]", "-", table.title)
    about = " ".join(map(escaped, [*table.caption.split("\n"), *notes]))
    end = ["\\bottomrule", "\\end{tabular}}", f"\\caption{{{escaped(table.title)}. {about}}}"]
    text = "\n".join([BEGIN, *lines, *end, f"\\label{{tab:{name}}}", "\\end{table}", ""])
    return (BEYOND_LATIN if any(ord(letter) > 0x17F for letter in text) else "") + text


def escaped(text: str) -> str:
    """As LaTeX prints it."""
    return "".join(ESCAPED.get(letter, letter if letter.isprintable() else " ") for letter in text)


def csv_text(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> str:
    """One line per row, with unrounded numbers; whole ones have no point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    for row in rows:
        writer.writerow(_csv(column, row) for column in columns)
    return text.getvalue()


def json_text(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> str:
    """A list of objects; null for a missing number."""
    content = [{column.name: column.value(row) for column in columns} for row in rows]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(cell: Cell) -> str:
    text = _escape(cell.line)
    return f"**{text}**" if cell.best else text


def _escape(cell: str) -> str:
    """A mark * is no emphasis."""
    return cell.replace("|", "\\|").replace("*", "\\*")


def _csv(column: Column[Row], row: Row) -> object:
    value = column.value(row)
    if isinstance(value, tuple | list):
        return column.text(row)
    if value is None:
        return column.missing(row)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _latex_head(text: str) -> str:
    r"""A symbol with an index, such as d_model, as $d_{\mathrm{model}}$."""
    found = SYMBOL.fullmatch(text)
    return f"${escaped(found[1]).strip('$')}_{{\\mathrm{{{found[2]}}}}}$" if found else escaped(text)


def _latex_body(table: TextTable) -> Iterator[str]:
    for place, line in enumerate(table.lines):
        first = table.begins(place)
        if first and place > 0:
            yield r"\midrule"
        cells = (rf"\textbf{{{escaped(cell.line)}}}" if cell.best else escaped(cell.line) for cell in line)
        yield _latex_line([escaped(table.groups[place]) if first else "", *cells])


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
