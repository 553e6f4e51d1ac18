"""Where the trials of a study stand, as tables for a terminal: a line per trial, per row, or per study of a folder."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.table import Table

from sweeps.status.standings import Line
from tracking.card import Card
from tracking.files import DamagedFileError
from tracking.statistics.rows import BASE, table
from tracking.study import Study, last_active, last_asked
from tracking.table.text import Column, TextTable, lines_of, said, terminal
from tracking.words import number
from tracking.words import time as as_time

ONE_LINE_EACH = 100
"""Up to so many trials have a line each; more are summed up by row."""
MOST_TRIALS_NAMED = 20
"""How many trials that need attention a summed-up table names."""
STYLES = {"failed": "red", "damaged": "red", "silent": "yellow", "finished": "green"}
STYLES |= dict.fromkeys(("missing", "waiting"), "dim")
CALM = ("finished", "missing")
STATES_IN_ORDER = ("running", "silent", "failed", "damaged", "interrupted", "to score again", "missing", "finished")
"""The order of states where not all trials are shown."""
WIDE = 10_000
"""Columns of a terminal in which everything has room."""
FEWEST_COLUMNS = 5
"""Columns that a line per trial always has, however narrow the terminal is."""
FRAME = 6
"""Lines of a table besides its rows: a title of two lines, the names of columns, and space."""


def status_tables(
    study: Study, lines: Sequence[Line], width: int | None = None, room: int | None = None
) -> list[Table]:
    """The whole study, and of a large one the trials that run or failed; in so many columns of a terminal.

    With ``room``, as many lines of them as fit in it.
    """
    if not _is_large(lines):
        return [_trials(study, lines, _title(study, lines), None if room is None else max(1, room - FRAME), width)]
    others = sorted((line for line in lines if _needs_a_line(line)), key=_turn)
    most = MOST_TRIALS_NAMED if room is None else max(1, min(MOST_TRIALS_NAMED, room // 2 - FRAME))
    named = [_trials(study, others, "Running, or in need of attention", most, width)] if others else []
    taken = sum(table.row_count + FRAME for table in named)
    return [_rows(study, lines, None if room is None else max(1, room - taken - FRAME)), *named]


def cut_notes(study: Study, lines: Sequence[Line], console: Console) -> list[str]:
    """What to know of trials that do not run, whole, where the terminal is too narrow for the tables."""
    wide = console.options.update(width=WIDE)
    if all(console.measure(table, options=wide).maximum <= console.width for table in status_tables(study, lines)):
        return []
    noted = [line for line in lines if _note(line) and line["state"] != "running"]
    named = [f"{line['row']}-s{line['seed']}: " * (shown_state(line) != "waiting") + line["note"] for line in noted]
    known = list(dict.fromkeys(named))  # many trials wait for the same
    more = len(known) - MOST_TRIALS_NAMED
    return [*known[:MOST_TRIALS_NAMED], *([f"and {more} more; --json lists all"] if more > 0 else [])]


def _needs_a_line(line: Line) -> bool:
    return line["state"] not in CALM or (line["state"] == "finished" and bool(line["note"]))


def _is_large(lines: Sequence[Line]) -> bool:
    """Whether a line per trial would be too long to read, and a line per row is shorter."""
    return len(lines) > ONE_LINE_EACH and len({line["row"] for line in lines}) < len(lines)


def shown_state(line: Line) -> str:
    """The state in ``status_json``, but "waiting" for a trial that a running sweep has not started yet,
    "starting" for one without a report of its attempt, "evaluating" for one after its last step."""
    if line["state"] in ("missing", "interrupted") and line["note"].startswith("waiting for "):
        return "waiting"
    if line["state"] != "running":
        return str(line["state"])
    return "starting" if not line["look"].has_reported else "evaluating" if line["step"] == line["steps"] else "running"


def progress_of(line: Line) -> str:
    """Of a running trial, such as "300/600", or "evaluating"."""
    return _step(line) if shown_state(line) == "running" else shown_state(line)


def counted(states: Iterable[str]) -> str:
    """Such as "48 finished, 1 running"."""
    return ", ".join(f"{count} {state}" for state, count in Counter(states).most_common())


def _title(study: Study, lines: Sequence[Line]) -> str:
    finished = sum(line["state"] == "finished" for line in lines)
    return f"{study.name}: {finished} of {len(lines)} finished"


def _trials(
    study: Study, lines: Sequence[Line], title: str, most: int | None = None, width: int | None = None
) -> Table:
    """A line each. Where the terminal is narrow, columns that one can do without are left out, and notes are cut."""
    if most is not None and len(lines) > most:
        title += f", {most} of {len(lines)} shown; --json lists all"
        lines = sorted(lines, key=_turn)[:most]
    columns, styles = tuple(_columns(study, lines)), tuple(STYLES.get(shown_state(line), "") for line in lines)
    return terminal(TextTable(title, columns, lines_of(columns, lines), styles=styles), width, FEWEST_COLUMNS)


def _columns(study: Study, lines: Sequence[Line]) -> Iterator[Column[Line]]:
    """Those that one can do without come last, but for the note."""
    headline = study.task.headline
    score = f"{headline.set}_{headline.name}"
    yield said("row", itemgetter("row"), "name")
    yield said("seed", lambda line: str(line["seed"]), "number")
    yield said("state", shown_state, "name")
    yield said("step", _step, "number")
    yield said(score, lambda line: headline.text(line[score]), "number", f"{headline.set} {headline.label}")
    if any(line["seconds_left"] is not None for line in lines):
        yield said("left", lambda line: as_time(line["seconds_left"]), "number")
    if any(line["state"] == "running" for line in lines):
        yield from (said(name, partial(_watched, name), "number") for name in lines[0]["watched"])
    if any(line["attempts"] > 1 for line in lines):
        yield said("attempts", lambda line: str(line["attempts"]), "number")
    yield Column("note", "", _note, _note, "note")


def _watched(name: str, line: Line) -> str:
    return _number(line["watched"][name])


def _number(value: float | None) -> str:
    """A watched metric: a loss, or a large rate."""
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


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
    score = f"{headline.set}_{headline.name}"

    def mean(row: str) -> str:
        values = [line[score] for line in rows[row] if line[score] is not None]
        return headline.text(sum(values) / len(values) if values else None)

    columns: tuple[Column[str], ...] = (
        said("row", str),
        said("seeds", lambda row: str(len(rows[row])), "number"),
        said("states", lambda row: counted(map(shown_state, rows[row]))),
        said(score, mean, "number", f"mean {headline.set} {headline.label}"),
    )
    styles = tuple(_style({shown_state(line) for line in rows[row]}) for row in shown)
    return terminal(TextTable(title, columns, lines_of(columns, shown), styles=styles))


def _style(states: Collection[str]) -> str:
    return "green" if set(states) == {"finished"} else "red" if "failed" in states else ""


def _turn(line: Line) -> int:
    return STATES_IN_ORDER.index(line["state"])


def _step(line: Line) -> str:
    """Such as "300/600"; a finished trial has only its last step."""
    if line["step"] is None:
        return ""
    unfinished = line["steps"] is not None and line["state"] not in ("finished", "to score again")
    return f"{line['step']}/{line['steps']}" if unfinished else str(line["step"])


def studies_json(studies: Sequence[Study], faults: Sequence[DamagedFileError]) -> list[dict[str, Any]]:
    """One object per study, the most recently active first; of damaged ones, at the end, ``name`` and ``damage``."""
    unknown = dict.fromkeys(("rows", "seeds", "trials", "finished", "failed", "asked", "active", "base", "headline"))
    damaged = [{"name": fault.path.parent.name, **unknown, "damage": str(fault)} for fault in faults]
    return [*map(_line, studies), *damaged]


def studies_table(lines: Sequence[dict[str, Any]], width: int) -> Table:
    """From the lines of ``studies_json``."""
    columns: tuple[Column[dict[str, Any]], ...] = (
        said("study", itemgetter("name")),
        said(
            "seeds", lambda of: "damaged" if of["damage"] else f"{of['rows']} × {of['seeds']}", "name", "rows × seeds"
        ),
        said("finished", lambda of: "" if of["damage"] else f"{of['finished']} of {of['trials']}", "number"),
        replace(said("failed", lambda of: str(of["failed"] or ""), "number"), best=lambda of: bool(of["failed"])),
        said("active", lambda of: (of["active"] or "").replace("T", " ")[:16], "number", "last active, UTC"),
        said("base", lambda of: of["damage"] or of["headline"] or ""),
    )
    styles = tuple("red" * bool(of["damage"]) for of in lines)
    return terminal(TextTable("", columns, lines_of(columns, lines), styles=styles), width, text=8)


def _line(study: Study) -> dict[str, Any]:
    states = [study.trial_folder(trial).state(trial.key) for trial in study.trials]
    base = next((row for row in table(study) if row.row == BASE and row.seeds), None)
    return {
        "name": study.name,
        "rows": len({trial.row for trial in study.trials}),
        "seeds": len({trial.seed for trial in study.trials}),
        "trials": len(study.trials),
        "finished": states.count("finished"),
        "failed": states.count("failed"),
        "asked": _utc(last_asked(study)),
        "active": _utc(last_active(study) or None),
        "base": base and base.scores,
        "headline": base and _headline(study.task, base.scores),
        "damage": None,
    }


def _headline(card: Card, scores: Mapping[str, float | None]) -> str:
    """Such as "accuracy 0.897"."""
    known = [(metric, scores.get(metric.name)) for metric in card.tabled]
    return ", ".join(f"{metric.label} {number(value, metric.places)}" for metric, value in known if value is not None)


def _utc(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
