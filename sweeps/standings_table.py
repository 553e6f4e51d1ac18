"""Where the trials of a study stand, as a table for a terminal: a line per trial, or per row of a large study."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tracking import formats
from tracking.study import Study

Line = dict[str, Any]
ONE_LINE_EACH = 100
"""Up to so many trials have a line each; more are summed up by row."""
NAMED = 20
"""How many trials that need attention a summed-up table names."""
STYLES = {"failed": "red", "damaged": "red", "silent": "yellow", "finished": "green"}
STYLES |= dict.fromkeys(("missing", "waiting"), "dim")
CALM = ("finished", "missing")
FIRST = ("running", "silent", "failed", "damaged", "interrupted", "to score again", "missing", "finished")
"""The order of states where not all trials are shown."""
WIDE = 10_000
"""Columns of a terminal in which everything has room."""
FRAME = 6
"""Lines of a table besides its rows: a title of two lines, the names of columns, and space."""


def status_tables(study: Study, lines: Sequence[Line], room: int | None = None) -> list[Table]:
    """From the lines of ``status_json``: the whole study, and of a large one the trials that run or failed.

    With ``room``, as many lines of them as fit in it.
    """
    others = others_table(study, lines, None if room is None else max(1, min(NAMED, room // 2 - FRAME)))
    if others is None:
        return [status_table(study, lines, room)]
    return [status_table(study, lines, None if room is None else room - others.row_count - FRAME), others]


def cut_notes(study: Study, lines: Sequence[Line], console: Console) -> list[str]:
    """What to know of trials that do not run, whole, where the terminal is too narrow for the tables."""
    wide = console.options.update(width=WIDE)
    if all(console.measure(table, options=wide).maximum <= console.width for table in status_tables(study, lines)):
        return []
    noted = [line for line in lines if _note(line) and line["state"] != "running"]
    named = [f"{line['row']}-s{line['seed']}: " * (shown_state(line) != "waiting") + line["note"] for line in noted]
    known = list(dict.fromkeys(named))  # many trials wait for the same
    more = len(known) - NAMED
    return [*known[:NAMED], *([f"and {more} more; --json lists all"] if more > 0 else [])]


def status_table(study: Study, lines: Sequence[Line], room: int | None = None) -> Table:
    """The whole study; with ``room``, in so many lines."""
    most = None if room is None else max(1, room - FRAME)
    return _rows(study, lines, most) if _is_large(lines) else _trials(study, lines, _title(study, lines), most)


def others_table(study: Study, lines: Sequence[Line], named: int | None = None) -> Table | None:
    """The trials that a table by row does not show: those that run, failed or stopped early; None without any."""
    others = sorted((line for line in lines if _needs_a_line(line)), key=_turn)
    if not others or not _is_large(lines):
        return None
    return _trials(study, others, "Running, or in need of attention", named or NAMED)


def _needs_a_line(line: Line) -> bool:
    return line["state"] not in CALM or (line["state"] == "finished" and bool(line["note"]))


def _is_large(lines: Sequence[Line]) -> bool:
    """Whether a line per trial would be too long to read, and a line per row is shorter."""
    return len(lines) > ONE_LINE_EACH and len({line["row"] for line in lines}) < len(lines)


def shown_state(line: Line) -> str:
    """The state in ``status_json``, but "waiting" for a trial that a running sweep has not started yet."""
    return "waiting" if line["state"] == "missing" and line["note"].startswith("waiting for ") else str(line["state"])


def counted(states: Iterable[str]) -> str:
    """Such as "48 finished, 1 running"."""
    return ", ".join(f"{count} {state}" for state, count in Counter(states).most_common())


def _title(study: Study, lines: Sequence[Line]) -> str:
    finished = sum(line["state"] == "finished" for line in lines)
    return f"{study.name}: {finished} of {len(lines)} finished"


def _trials(study: Study, lines: Sequence[Line], title: str, most: int | None = None) -> Table:
    """A line each: the note, which comes last, is cut first where the terminal is narrow."""
    if most is not None and len(lines) > most:
        title += f", {most} of {len(lines)} shown; --json lists all"
        lines = sorted(lines, key=_turn)[:most]
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    headline = study.task.headline
    score = escape(f"{headline.set} {headline.label}")
    left = ["left"] * any(line["seconds_left"] is not None for line in lines)
    attempts = ["attempts"] * any(line["attempts"] > 1 for line in lines)
    numbers = ("seed", "step", "left", "attempts", score)
    for name in ("row", "seed", "state", "step", *left, *attempts, score, ""):
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=name != "")
    for line in lines:
        value, state = headline.text(line[f"{headline.set}_{headline.name}"]), shown_state(line)
        seen = [_step(line), *[formats.time(line["seconds_left"]) for _ in left]]
        seen += [*[str(line["attempts"]) for _ in attempts], value]
        note = Text(_note(line), no_wrap=True, overflow="ellipsis")
        table.add_row(escape(line["row"]), str(line["seed"]), state, *seen, note, style=STYLES.get(state))
    return table


def _note(line: Line) -> str:
    """Its state says already that a trial waits for its turn."""
    return "" if shown_state(line) == "waiting" and line["note"] == "waiting for its turn" else str(line["note"])


def _rows(study: Study, lines: Sequence[Line], most: int | None = None) -> Table:
    """One line per row: its seeds by state, and the mean of the headline over those that have one."""
    headline, rows = study.task.headline, dict[str, list[Line]]()
    for line in lines:
        rows.setdefault(line["row"], []).append(line)
    shown, title = list(rows), _title(study, lines)
    if most is not None and len(rows) > most:
        title += f", {most} of {len(rows)} rows shown"
        shown = sorted(rows, key=lambda row: min(map(_turn, rows[row])))[:most]
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for name, justify in (("row", "left"), ("seeds", "right"), ("states", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column(escape(f"mean {headline.set} {headline.label}"), justify="right")
    for row in shown:
        own = rows[row]
        values = [value for line in own if (value := line[f"{headline.set}_{headline.name}"]) is not None]
        states = [shown_state(line) for line in own]
        style = "green" if set(states) == {"finished"} else "red" if "failed" in states else None
        mean = headline.text(sum(values) / len(values) if values else None)
        table.add_row(escape(row), str(len(own)), counted(states), mean, style=style)
    return table


def _turn(line: Line) -> int:
    return FIRST.index(line["state"])


def _step(line: Line) -> str:
    """Such as "300/600"; a finished trial has only its last step."""
    if line["step"] is None:
        return ""
    unfinished = line["steps"] is not None and line["state"] not in ("finished", "to score again")
    return f"{line['step']}/{line['steps']}" if unfinished else str(line["step"])
