r"""One table as text: rows seen through columns, printed for a terminal, in Markdown, HTML and LaTeX, and for programs.

A table in LaTeX needs the preamble \usepackage{booktabs}. One in HTML takes nothing from elsewhere and has no script.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T")
ColumnKind = Literal["name", "text", "setting", "number", "note"]
"""How a column is set: a name never breaks, a note takes the room that is left, a setting is in the middle."""
TRAILING_MARK = re.compile(r"(?<=\d)[^\w\s.,%\])]$")
"""A sign right behind a number, such as *."""
EDGES, BETWEEN = 1, 3
"""Blanks at the edges of a table, and around the cells of each column."""
LEAST, WISH, MOST = 12, 24, 44
"""Letters of a column of text: where the column is needed, where it is optional, and where its lines break."""
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
class Column(Generic[T]):
    """``text`` is the cell of a row for people, ``value`` the one for programs; ``missing`` stands for None in CSV.

    ``best`` says whether the cell is among the best of its column. A ``faint`` column holds others' numbers."""

    name: str
    head: str
    text: Callable[[T], str]
    value: Callable[[T], Any]
    kind: ColumnKind = "number"
    missing: Callable[[T], str] = lambda _: ""
    best: Callable[[T], bool] = lambda _: False
    faint: bool = False


@dataclass(frozen=True)
class Cell:
    """In a terminal, the lines of a text below its first one are a note on it."""

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
        return (text[:-1], text[-1]) if TRAILING_MARK.search(text) else (text, "")


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
    summary: str = ""  # what the table shows, in one line, for below its title

    @property
    def has_groups(self) -> bool:
        """Whether a column names them."""
        return bool(self.groups) and self.names_groups

    def begins(self, place: int) -> bool:
        """Whether another group begins with this line."""
        return bool(self.groups) and (place == 0 or self.groups[place - 1] != self.groups[place])


def said(name: str, text: Callable[[T], str], kind: ColumnKind = "text", head: str = "") -> Column[T]:
    """A column that holds the same for people and programs."""
    return Column(name, head or name, text, text, kind)


def lines_of(columns: Sequence[Column[T]], rows: Sequence[T]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(Cell(column.text(row), column.best(row)) for column in columns) for row in rows)


def terminal(table: TextTable, width: int | None = None, needed: int = 1, text: int = WISH) -> Table:
    """The table of Rich. Behind the ``needed`` columns stand as many as fit into a terminal of this ``width``."""
    kept = table if width is None else fitting(table, width, needed, text)
    left = [column.head.replace("\n", " ") for column in table.columns if column not in kept.columns]
    more = f" A wider terminal also shows {', '.join(left)}." if left and table.caption else ""
    title = "\n".join(filter(None, [table.title, table.summary]))
    shown = Table(title=escape(title) or None, box=box.SIMPLE_HEAD, caption=escape(table.caption + more) or None)
    shown.title_justify = shown.caption_justify = "left"
    if kept.has_groups:
        shown.add_column("", no_wrap=True)
    room = None if width is None else _room(kept, width)
    cells = [
        _add_column(shown, column, [line[at] for line in kept.lines], room) for at, column in enumerate(kept.columns)
    ]
    for place in range(len(kept.lines)):
        group = [escape(kept.groups[place]) if kept.begins(place) else ""] * kept.has_groups
        ends = place + 1 < len(kept.lines) and kept.begins(place + 1)
        style = kept.styles[place] if kept.styles else ""
        shown.add_row(*group, *(column[place] for column in cells), end_section=ends, style=style or None)
    return shown


def fitting(table: TextTable, width: int, needed: int, text: int = WISH) -> TextTable:
    """The table without the columns that do not fit, where texts have at most so many letters. Names always stay, and
    so does a note, which is cut where the terminal ends."""
    widths = [_width(column, [line[at] for line in table.lines], text) for at, column in enumerate(table.columns)]
    named = [BETWEEN + of for of, column in zip(widths, table.columns, strict=True) if column.kind == "name"]
    room = width - EDGES - sum(named) - (BETWEEN + max(map(cell_len, table.groups)) if table.has_groups else 0)
    kept: list[int] = []
    for place, column in enumerate(table.columns):
        room -= 0 if column.kind in ("name", "note") else BETWEEN + widths[place]
        if place < needed or room >= 0 or column.kind in ("name", "note"):
            kept.append(place)
    columns = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, lines=tuple(tuple(line[place] for place in kept) for line in table.lines))


def _room(table: TextTable, width: int) -> int:
    """What the other columns of a terminal leave for a note."""
    whole = [_width(column, [line[at] for line in table.lines], MOST) for at, column in enumerate(table.columns)]
    others = (of for of, column in zip(whole, table.columns, strict=True) if column.kind != "note")
    return max(LEAST, width - EDGES - sum(others) - BETWEEN * len(whole))


def _width(column: Column[Any], cells: Sequence[Cell], text: int) -> int:
    lines = [line for words in (column.head, *(cell.text for cell in cells)) for line in words.split("\n")]
    return min(text, max(map(cell_len, lines))) if column.kind == "text" else max(map(cell_len, lines))


def _add_column(shown: Table, column: Column[Any], cells: Sequence[Cell], room: int | None) -> list[str]:
    """Returns its cells in the markup of Rich. ``room`` is that of a note."""
    if column.kind == "number":
        head, texts = _aligned(column.head, [cell.text for cell in cells])
        side: Any = "left" if head.endswith(" ") else "right"
        shown.add_column(escape(head), justify=side, no_wrap=True, style="dim" if column.faint else None)
        return [
            f"[bold]{escape(text)}[/]" if cell.best else escape(text) for text, cell in zip(texts, cells, strict=True)
        ]
    if column.kind == "note":
        shown.add_column(escape(column.head), no_wrap=True, overflow="ellipsis", max_width=room)
    else:
        shown.add_column(escape(column.head), no_wrap=column.kind == "name", overflow="fold", max_width=MOST)
    return [_with_note(cell.text) for cell in cells]


def _aligned(head: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    """With a place of its own for a mark behind a number, so that digits stand below digits.

    Rich drops blanks at the end of what it aligns right, so these columns are aligned here."""
    blocks = [text.split("\n") for text in texts]
    if not any(TRAILING_MARK.search(lines[0]) for lines in blocks):
        return head, list(texts)
    blocks = [[f"{first}{'' if TRAILING_MARK.search(first) else ' '}", *rest] for first, *rest in [[head], *blocks]]
    width = max(len(line) for lines in blocks for line in lines)
    first, *others = ["\n".join(line.rjust(width) for line in lines) for lines in blocks]
    return first, others


def _with_note(text: str) -> str:
    """What is said of a row stands below its name."""
    first, _, more = text.partition("\n")
    return escape(first) + (f"\n[italic]{escape(more)}[/]" if more else "")


def markdown(table: TextTable) -> str:
    """The best cells are bold."""
    head = ["", *(column.head for column in table.columns)]
    body = [[group, *map(_markdown, line)] for group, line in zip(table.groups, table.lines, strict=True)]
    lines = [list(map(_for_markdown, head)), ["---"] * len(head), *body]
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
    about = " ".join(map(_for_latex, [*table.caption.split("\n"), *notes]))
    end = ["\\bottomrule", "\\end{tabular}}", f"\\caption{{{_for_latex(table.title)}. {about}}}"]
    text = "\n".join([BEGIN, *lines, *end, f"\\label{{tab:{name}}}", "\\end{table}", ""])
    return (BEYOND_LATIN if any(ord(letter) > 0x17F for letter in text) else "") + text


def _for_latex(text: str) -> str:
    """As LaTeX prints it."""
    return "".join(ESCAPED.get(letter, letter if letter.isprintable() else " ") for letter in text)


def csv_text(columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    """One line per row, with unrounded numbers; whole ones have no point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    for row in rows:
        writer.writerow(_csv(column, row) for column in columns)
    return text.getvalue()


def json_text(columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    """A list of objects; null for a missing number."""
    content = [{column.name: column.value(row) for column in columns} for row in rows]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(cell: Cell) -> str:
    text = _for_markdown(cell.line)
    return f"**{text}**" if cell.best else text


def _for_markdown(cell: str) -> str:
    """A mark * is no emphasis."""
    return cell.replace("|", "\\|").replace("*", "\\*")


def _csv(column: Column[T], row: T) -> object:
    value = column.value(row)
    if isinstance(value, tuple | list):
        return column.text(row)
    if value is None:
        return column.missing(row)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _latex_head(text: str) -> str:
    r"""A symbol with an index, such as d_model, as $d_{\mathrm{model}}$."""
    found = SYMBOL.fullmatch(text)
    return f"${_for_latex(found[1]).strip('$')}_{{\\mathrm{{{found[2]}}}}}$" if found else _for_latex(text)


def _latex_body(table: TextTable) -> Iterator[str]:
    for place, line in enumerate(table.lines):
        first = table.begins(place)
        if first and place > 0:
            yield r"\midrule"
        cells = (rf"\textbf{{{_for_latex(cell.line)}}}" if cell.best else _for_latex(cell.line) for cell in line)
        yield _latex_line([_for_latex(table.groups[place]) if first else "", *cells])


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
