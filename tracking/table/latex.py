r"""One table as LaTeX for a paper with one or two columns. It needs only \usepackage{booktabs}.

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
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "*": "$^{*}$",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "§": r"$^{\S}$",
    # Marks of findings that need no package.
    "▲": r"$\bigtriangleup$",
    "▼": r"$\bigtriangledown$",
    "▽": r"$\downarrow$",
    "◇": r"$\diamond$",
    "⇈": r"$\Uparrow$",
    "°": r"$^{\circ}$",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "⁶": "$^{6}$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "’": "'",
    "½": r"$\frac{1}{2}$",
    "√": r"$\surd$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "δ": r"$\delta$",
    "ε": r"$\epsilon$",
    "η": r"$\eta$",
    "θ": r"$\theta$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "µ": r"$\mu$",
    "ρ": r"$\rho$",
    "σ": r"$\sigma$",
    "τ": r"$\tau$",
    "φ": r"$\phi$",
    "ω": r"$\omega$",
    "π": r"$\pi$",
    "→": r"$\to$",
    **{subscript: f"$_{{{digit}}}$" for digit, subscript in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    # After a line break a bare bracket would begin an option.
    "[": "{[}",
    "]": "{]}",
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
LAST_LATIN = 0x17F
BEYOND_LATIN = "% Letters beyond Latin ones need XeLaTeX or LuaLaTeX, and a font that has them.\n"
NARROW = 52
"""Letters in \footnotesize that fit into one of two columns; a wider table spans both."""
LONGEST = 34
"""Letters of a text before its lines break."""
EM_PER_LETTER = 0.5


def latex(table: TextTable, notes: Sequence[str] = (), label: str = "") -> str:
    """One table environment with a line between groups; ``notes`` follow the caption."""
    environment = "table" if _letters(table) <= NARROW else "table*"
    has_marks = [_has_marks(table, position) for position in range(len(table.columns))]
    sides = "".join(SIDES.get(column.kind, "l") for column in table.columns)
    if table.has_groups:
        sides = f"l{sides}"
    caption = " ".join(for_latex(line) for line in [*table.caption.split("\n"), *notes] if line)
    name = label or f"tab:{re.sub('[^A-Za-z0-9-]', '-', table.title)}"
    lines = [
        BEGIN.replace("ENVIRONMENT", environment),
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        *_head_lines(table, has_marks),
        r"\midrule",
        *_body(table, has_marks),
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{caption}}}",
        rf"\label{{{name}}}",
        rf"\end{{{environment}}}",
        "",
    ]
    text = "\n".join(lines)
    has_letters_beyond_latin = any(ord(letter) > LAST_LATIN for letter in text)
    return BEYOND_LATIN + text if has_letters_beyond_latin else text


def for_latex(text: str) -> str:
    """As LaTeX prints it."""
    return "".join(ESCAPED.get(letter, letter if letter.isprintable() else " ") for letter in text)


def _letters(table: TextTable) -> int:
    """About how wide the table is, with the room between its columns."""
    letters = max(map(len, table.groups), default=0)
    for position, column in enumerate(table.columns):
        first_lines = [cell.text.partition("\n")[0] for cell in table.cells(position)]
        longest = max(map(len, [*column.head.split("\n"), *first_lines]))
        letters += min(longest, LONGEST) + 1
    return letters


def _has_marks(table: TextTable, position: int) -> bool:
    """Whether any cell of this column has a mark behind its number."""
    return any(cell.parted[1] for cell in table.cells(position))


def _head_lines(table: TextTable, has_marks: Sequence[bool]) -> Iterator[str]:
    """Heads are aligned at the bottom: the last line has something in each column."""
    reversed_heads = []
    for column, marked in zip(table.columns, has_marks, strict=True):
        lines = [_with_symbols(line) for line in column.head.split("\n")]
        if marked:
            lines = [f"{line}{_mark('')}" for line in lines]
        reversed_heads.append(reversed(lines))
    lines_from_bottom = list(zip_longest(*reversed_heads, fillvalue=""))
    group = [""] if table.has_groups else []
    for line in reversed(lines_from_bottom):
        yield _line([*group, *line])


def _with_symbols(text: str) -> str:
    r"""As LaTeX prints it, and each letter with an index as $d_{\mathrm{model}}$."""
    first, *parts = SYMBOL.split(text)
    latex_text = for_latex(first)
    for letter, index, following in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        symbol = for_latex(letter).strip("$")
        latex_text += f"${symbol}_{{\\mathrm{{{index}}}}}${for_latex(following)}"
    return latex_text


def _body(table: TextTable, has_marks: Sequence[bool]) -> Iterator[str]:
    for position, line in enumerate(table.lines):
        begins = table.begins(position)
        if begins and position > 0:
            yield r"\midrule"
        cells = []
        if table.has_groups:
            cells.append(for_latex(table.groups[position]) if begins else "")
        for cell, column, marked in zip(line, table.columns, has_marks, strict=True):
            cells.append(_marked_cell(cell) if marked else _cell(cell, column))
        yield _line(cells)


def _marked_cell(cell: Cell) -> str:
    """A number with room for the mark behind it, so that digits align."""
    number, mark = cell.parted
    return f"{_bold(for_latex(number), cell.best)}{_mark(for_latex(mark))}"


def _cell(cell: Cell, column: Column[Any]) -> str:
    """A long text has several lines. The name of a row has no symbols: commands take it as it
    is."""
    is_text = column.kind == "text"
    text = for_latex(cell.line)
    if is_text and column.name != "row":
        text = _with_symbols(cell.line)
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
