r"""One table as LaTeX for a paper of one or two columns. It needs \usepackage{booktabs}, and no
other package.

With \usepackage{graphicx} a table that is still too wide shrinks to the line.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from tracking.table.text import Cell, Column, TextTable

ESCAPED = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    },
    **{
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "*": "$^{*}$",
        "†": "$^{\\dagger}$",
        "‡": "$^{\\ddagger}$",
    },
    **{"§": "$^{\\S}$", "▲": r"$\bigtriangleup$", "▼": r"$\bigtriangledown$", "▽": r"$\downarrow$"},
    **{"◇": r"$\diamond$", "⇈": r"$\Uparrow$"},  # that need no package
    **{
        "°": r"$^{\circ}$",
        "−": "$-$",
        "±": r"$\pm$",
        "×": r"$\times$",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
    },
    **{
        "⁶": "$^{6}$",
        "–": "--",
        "—": "---",
        "…": r"\dots{}",
        "’": "'",
        "½": r"$\frac{1}{2}$",
        "√": r"$\surd$",
    },
    **{
        "Δ": r"$\Delta$",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
        "δ": r"$\delta$",
        "ε": r"$\epsilon$",
    },
    **{
        "η": r"$\eta$",
        "θ": r"$\theta$",
        "λ": r"$\lambda$",
        "μ": r"$\mu$",
        "µ": r"$\mu$",
        "ρ": r"$\rho$",
    },
    **{
        "σ": r"$\sigma$",
        "τ": r"$\tau$",
        "φ": r"$\phi$",
        "ω": r"$\omega$",
        "π": r"$\pi$",
        "→": r"$\to$",
    },
    **{subscript: f"$_{{{digit}}}$" for digit, subscript in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{"[": "{[}", "]": "{]}"},  # after \\ a bracket would be an option
}
SYMBOL = re.compile(r"\b([^\W\d_])_([A-Za-z0-9]+)\b")
"""A letter with an index, such as d_model."""
BEGIN = r"""% Needs \usepackage{booktabs}. With \usepackage{graphicx} a wide table shrinks to the line.
\begin{ENVIRONMENT}
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
NARROW = 52
"""Letters in \footnotesize that fit into one of two columns; a wider table spans both."""
LONGEST = 34
"""Letters of a text before its lines break."""
EM_PER_LETTER = 0.5


def latex(table: TextTable, notes: Sequence[str] = (), label: str = "") -> str:
    """One table environment; groups are apart, ``notes`` stand below the caption."""
    environment = "table" if _letters(table) <= NARROW else "table*"
    marked = [_has_marks(table, place) for place in range(len(table.columns))]
    sides = "".join(SIDES.get(column.kind, "l") for column in table.columns)
    sides = f"l{sides}" if table.has_groups else sides
    heads = [_head(column, marks) for column, marks in zip(table.columns, marked, strict=True)]
    lines = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule", *_head_lines(table, heads), "\\midrule"]
    lines += _body(table, marked)
    about = " ".join(for_latex(line) for line in [*table.caption.split("\n"), *notes] if line)
    end = ["\\bottomrule", "\\end{tabular}}", f"\\caption{{{about}}}"]
    name = label or f"tab:{re.sub('[^A-Za-z0-9-]', '-', table.title)}"
    begin = BEGIN.replace("ENVIRONMENT", environment)
    text = "\n".join([begin, *lines, *end, f"\\label{{{name}}}", f"\\end{{{environment}}}", ""])
    return (BEYOND_LATIN if any(ord(letter) > 0x17F for letter in text) else "") + text


def for_latex(text: str) -> str:
    """As LaTeX prints it."""
    return "".join(ESCAPED.get(letter, letter if letter.isprintable() else " ") for letter in text)


def _letters(table: TextTable) -> int:
    """About how wide the table is, with the room between its columns."""
    widths: list[int] = []
    for place, column in enumerate(table.columns):
        texts = [*column.head.split("\n"), *(_shown(line[place]) for line in table.lines)]
        widths.append(max(map(len, texts)))
    return sum(min(width, LONGEST) + 1 for width in widths) + max(map(len, table.groups), default=0)


def _shown(cell: Cell) -> str:
    return cell.text.partition("\n")[0]


def _has_marks(table: TextTable, column: int) -> bool:
    """Whether any cell of this column has a mark behind its number."""
    return any(line[column].parted[1] for line in table.lines)


def _head(column: Column[Any], has_marks: bool) -> list[str]:
    """The lines of the column's head."""
    parts = [_with_symbols(part) for part in column.head.split("\n")]
    return [f"{part}{_mark('') if has_marks else ''}" for part in parts]


def _head_lines(table: TextTable, heads: Sequence[list[str]]) -> Iterator[str]:
    """Heads stand at the bottom: the last line has something in each column."""
    first = [""] if table.has_groups else []
    flipped = list(zip_longest(*(reversed(head) for head in heads), fillvalue=""))
    for line in reversed(flipped):
        yield _line([*first, *line])


def _with_symbols(text: str) -> str:
    r"""As LaTeX prints it, and each letter with an index as $d_{\mathrm{model}}$."""
    parts = SYMBOL.split(text)
    shown = [for_latex(parts[0])]
    for letter, index, following in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        shown += [f"${for_latex(letter).strip('$')}_{{\\mathrm{{{index}}}}}$", for_latex(following)]
    return "".join(shown)


def _body(table: TextTable, marked: Sequence[bool]) -> Iterator[str]:
    for place, line in enumerate(table.lines):
        first = table.begins(place)
        if first and place > 0:
            yield r"\midrule"
        group = [for_latex(table.groups[place]) if first else ""] if table.has_groups else []
        columns = zip(line, table.columns, marked, strict=True)
        cells = [_cell(cell, column, marks) for cell, column, marks in columns]
        yield _line([*group, *cells])


def _cell(cell: Cell, column: Column[Any], has_marks: bool) -> str:
    """A number with room for the mark behind it, so that digits stand below digits; a long text in
    several lines.

    The name of a row has no symbols: commands take it as it is.
    """
    is_text = column.kind == "text"
    if has_marks:
        number, mark = cell.parted
        return f"{_bold(for_latex(number), cell.best)}{_mark(for_latex(mark))}"
    text = _with_symbols(cell.line) if is_text and column.name != "row" else for_latex(cell.line)
    if is_text and len(cell.line) > LONGEST:
        width = f"{LONGEST * EM_PER_LETTER:g}em"
        text = rf"\parbox[t]{{{width}}}{{\raggedright {text}\strut}}"
    return _bold(text, cell.best)


def _bold(text: str, best: bool) -> str:
    return rf"\textbf{{{text}}}" if best else text


def _mark(text: str) -> str:
    return rf"\makebox[0.9em][l]{{{text}}}"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
