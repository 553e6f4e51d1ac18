r"""A table in LaTeX, for the preamble \usepackage{booktabs}."""

import re
from collections.abc import Sequence

from tracking.table.text import Cell, TextTable

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


def latex(table: TextTable, notes: Sequence[str] = ()) -> str:
    """One table environment; groups are apart, ``notes`` stand below the caption."""
    head = _line(["", *(_head(column.head) for column in table.columns)])
    lines = [f"\\begin{{tabular}}{{l{_layout(table)}}}", "\\toprule", head, "\\midrule", *_body(table)]
    name = re.sub("[^A-Za-z0-9-]", "-", table.title)
    about = " ".join(map(escaped, [*table.caption.split("\n"), *notes]))
    end = ["\\bottomrule", "\\end{tabular}}", f"\\caption{{{escaped(table.title)}. {about}}}"]
    text = "\n".join([BEGIN, *lines, *end, f"\\label{{tab:{name}}}", "\\end{table}", ""])
    return (BEYOND_LATIN if any(ord(letter) > 0x17F for letter in text) else "") + text


def escaped(text: str) -> str:
    """As LaTeX prints it."""
    return "".join(ESCAPED.get(letter, letter if letter.isprintable() else " ") for letter in text)


def _layout(table: TextTable) -> str:
    return "".join(SIDES.get(column.kind, "l") for column in table.columns)


def _head(text: str) -> str:
    r"""A symbol with an index, such as d_model, as $d_{\mathrm{model}}$."""
    found = SYMBOL.fullmatch(text)
    return f"${escaped(found[1]).strip('$')}_{{\\mathrm{{{found[2]}}}}}$" if found else escaped(text)


def _body(table: TextTable) -> list[str]:
    lines: list[str] = []
    for place, line in enumerate(table.lines):
        first = table.begins(place)
        lines += ["\\midrule"] * (first and place > 0)
        lines.append(_line([escaped(table.groups[place]) if first else "", *map(_cell, line)]))
    return lines


def _cell(cell: Cell) -> str:
    return f"\\textbf{{{escaped(cell.line)}}}" if cell.best else escaped(cell.line)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
