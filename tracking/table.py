"""The study's table in the paper's layout: Markdown, CSV, JSON, and for the terminal."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tracking.columns import CELLS, SCORES, decode_words, other_changes, paper_size_note, setting_cells
from tracking.decode_settings import decides
from tracking.formats import flops, millions, number, signed, time
from tracking.metrics import METRICS
from tracking.rows import BASE as BASE
from tracking.rows import NO_SEED_IN_COMMON, decode_of
from tracking.rows import TableRow as TableRow
from tracking.rows import table as table
from tracking.study import Study

if TYPE_CHECKING:
    from rich.table import Table

CSV_COLUMNS = (
    *("row", "group", "change", "seeds", "steps", "ppl", "bleu", "params", "flops"),
    *("paper_ppl", "paper_bleu", "paper_params_m", "seconds", "delta_ppl", "delta_bleu"),
    *("paper_delta_ppl", "paper_delta_bleu", "asked", "note", "delta_seeds"),
)
OURS = frozenset({"steps", "params", "flops", "seconds", *SCORES, *(f"delta_{name}" for name in SCORES)})
LABELS = tuple(METRICS[name].label for name in SCORES)
DELTAS = tuple(f"Δ{label}" for label in LABELS)
MEASURES = (
    *(*LABELS, *DELTAS, "params", "FLOPs", "time"),
    *(*(f"paper {label}" for label in LABELS), "paper params ×10⁶", *(f"paper {delta}" for delta in DELTAS)),
)
TERMINAL_COLUMNS = (  # with the least terminal width of each
    *((name, 0) for pair in zip(LABELS, DELTAS, strict=True) for name in (*pair, "paper\nΔ")),
    *(("params", 86), ("FLOPs", 109), ("time", 109)),
)
EXPLAINED = ("other decode", "mixed decode", "no seed in common")  # in the row's note
MEASURED = (
    "PPL and BLEU: measured on dev{decode}; BLEU: sacreBLEU's 13a (published BLEU, like bleu_paper in result.json, "
    "is on tokenized text); time: measured; params: computed; FLOPs: computed from the real lengths; "
    "Δ: difference from base. "
    "Published values come from another vocabulary and corpus: compare the differences, not the values."
)


def to_csv(rows: Sequence[TableRow]) -> str:
    """One line per row, with unrounded numbers. A missing number of ours reads FAILED, missing, …; a cell that
    the paper left blank is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in rows:
        writer.writerow(_csv_cell(row, name) for name in CSV_COLUMNS)
    return text.getvalue()


def to_json(rows: Sequence[TableRow]) -> str:
    """A list of objects with TableRow's fields; null for a missing number."""
    return json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(rows: Sequence[TableRow]) -> str:
    """The paper's Table 3: changed cells only, then our measurements, then the published values."""
    other = any(_other(row) for row in rows)
    head = ["", "row", *CELLS.values(), *(["other"] if other else []), *MEASURES, "note"]
    body = [[*_setting_cells(row, other), *_measure_cells(row), row.note] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    table_text = "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in lines)
    return f"{table_text}\n\n{caption(rows)}\n"


def render(study: Study, rows: Sequence[TableRow], width: int = 120) -> "Table":
    """For a terminal: one section per group, our scores and the paper's differences. Fewer columns if it is narrow."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    columns = [name for name, least in TERMINAL_COLUMNS if width >= least]
    left_out = [name for name, _ in TERMINAL_COLUMNS[len(columns) :]]
    words = f" A wider terminal also shows {', '.join(left_out)}." if left_out else ""
    shown = Table(title=escape(study.name), box=box.SIMPLE_HEAD, caption=escape(caption(rows) + words))
    shown.title_justify = shown.caption_justify = "left"
    shown.add_column("", no_wrap=True)
    shown.add_column("change", max_width=32, overflow="fold")
    for name in columns:
        shown.add_column(name, justify="right", no_wrap=True, style="dim" if name == "paper\nΔ" else None)
    for place, row in enumerate(rows):
        group = row.group if place == 0 or rows[place - 1].group != row.group else ""
        ends = place + 1 < len(rows) and rows[place + 1].group != row.group
        shown.add_row(escape(group), _described(row), *_terminal_cells(row)[: len(columns)], end_section=ends)
    return shown


def caption(rows: Sequence[TableRow]) -> str:
    """An explanation of the columns and names, with the decode settings and the number of seeds."""
    words = decode_words(decode_of(rows)) or ["mixed decode settings"] * any(row.mixed_decode for row in rows)
    text = f"{MEASURED.format(decode=''.join(f', {word}' for word in words))} {seeds_note(rows)}"
    names = paper_size_note({row.row: row.at_paper_size for row in rows if row.at_paper_size})
    return f"{text}\n{names}" if names else text


def seeds_note(rows: Sequence[TableRow]) -> str:
    """The number of seeds behind each row, and the limits that it sets on conclusions."""
    counts = sorted({row.seeds for row in rows if row.seeds})
    if not counts:
        return "No seed is finished."
    spread = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"Seeds per row: {spread}."
    if any((row.delta_seeds and row.seeds != len(row.delta_seeds)) or NO_SEED_IN_COMMON in row.note for row in rows):
        text += " Δ is over the seeds that a row shares with base."
    return text if counts[0] > 1 else f"{text} With one seed: differences not tested."


def _csv_cell(row: TableRow, name: str) -> object:
    value = getattr(row, name)
    if name == "delta_seeds":
        return " ".join(map(str, value))
    if value is None:
        return _absent(row, name) if name in OURS else ""
    return int(value) if isinstance(value, float) and value.is_integer() and name in OURS else value


def _absent(row: TableRow, name: str) -> str:
    """Why a number is missing. A difference also needs a score of base with the same settings of `decode`."""
    measure = name.removeprefix("delta_")
    if name != measure and getattr(row, measure) is not None:
        if decides(row.other_decode, measure):
            return "other decode"
        return "no seed in common" if NO_SEED_IN_COMMON in row.note else "no base"
    return "mixed decode" if measure in SCORES and decides(row.mixed_decode, measure) else row.status


def _setting_cells(row: TableRow, other: bool) -> list[str]:
    return [row.group, row.row, *setting_cells(row.cells), *([_other(row)] if other else [])]


def _other(row: TableRow) -> str:
    """The changes without a column; none for base, which has all cells."""
    return "" if row.row == BASE else other_changes(row.cells)


def _measure_cells(row: TableRow) -> list[str]:
    costs = [millions(row.params), flops(row.flops), time(row.seconds)]
    ours = [*_score_cells(row), *(cell or row.status for cell in costs)]
    return [*ours, *_paper_cells(row, ""), number(row.paper_params_m, 0), *_paper_cells(row, "delta_")]


def _score_cells(row: TableRow) -> list[str]:
    scores = [number(getattr(row, name), places) or _absent(row, name) for name, places in SCORES.items()]
    deltas = {f"delta_{name}": places for name, places in SCORES.items()}
    return scores + [signed(getattr(row, name), places) or _absent(row, name) for name, places in deltas.items()]


def _paper_cells(row: TableRow, kind: str) -> list[str]:
    written = signed if kind else number
    return [written(getattr(row, f"paper_{kind}{name}"), places) for name, places in SCORES.items()]


def _terminal_cells(row: TableRow) -> list[str]:
    ppl, bleu, delta_ppl, delta_bleu, params, work, took, *_, paper_ppl, paper_bleu = _measure_cells(row)
    if row.seeds == 0:  # the state appears once: the note below the change has the cause
        return [ppl, "–", paper_ppl, "–", "–", paper_bleu, "–", "–", "–"]
    scores = [ppl, delta_ppl, paper_ppl, bleu, delta_bleu, paper_bleu]
    return [*("–" if cell in EXPLAINED else cell for cell in scores), params, work, took]


def _described(row: TableRow) -> str:
    from rich.markup import escape

    change = row.change if row.row != BASE else BASE
    shown = not row.note or row.note == row.status  # in place of the numbers
    return escape(change) + ("" if shown else f"\n[italic]{escape(row.note)}[/]")


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
