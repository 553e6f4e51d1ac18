"""Where each trial of a study stands, from its folders alone: as JSON, one object per trial, and as tables."""

import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sweeps.config.schema import Schema
from sweeps.planning.compose import source_of_study
from sweeps.planning.composition import read_record
from sweeps.schema import RefusedError, nested
from tracking.attempts import Runner, known_runners, stop_requests
from tracking.look import Look, Stamps, look, stamps_of
from tracking.mlflow.ledger import Lag
from tracking.study import Study, StudyTrial
from tracking.table.text import Column, TextTable, lines_of, said, terminal
from tracking.trial import TrialFolder
from tracking.weights import TO_SCORE_AGAIN, are_current
from tracking.words import number, stopped_at
from tracking.words import time as as_time

Line = dict[str, Any]
"""One trial: what `status --json` prints, and for the tables also ``look`` and ``watched``."""
ONLY_SHOWN = ("look", "watched")
MOST_TRIALS = 100
MOST_NOTES = 20
STYLES = {"failed": "red", "damaged": "red", "silent": "yellow", "finished": "green"}
STYLES |= dict.fromkeys(("missing", "waiting"), "dim")
STATES_IN_ORDER = ("running", "silent", "failed", "damaged", "interrupted", TO_SCORE_AGAIN, "missing", "finished")
"""The order of states where not all trials are shown."""
WIDE = 10_000
"""Columns of a terminal in which everything has room."""
FEWEST_COLUMNS = 5
"""Columns that a line per trial always has, however narrow the terminal is."""


def status_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines for programs."""
    return [{name: value for name, value in line.items() if name not in ONLY_SHOWN} for line in lines]


class Standings:
    """The trials of a study, to be looked at more than once: only those are read again whose files changed."""

    def __init__(self, study: Study) -> None:
        self.study, self._rows = study, _Rows(study)
        self._folders = [(trial, study.trial_folder(trial)) for trial in study.trials]
        self._known: dict[str, tuple[Stamps | None, Look]] = {}  # by trial key; None for trials that may run

    def lines(self, lag: Lag, changing: Collection[str] | None = None) -> list[Line]:
        """One per trial, in the order of the table. With the names of those that are ``changing``, others are shown
        as they were."""
        known = known_runners(self.study.folder)
        running = _Runners(self.study, known)
        looks = [
            (trial, self._look(trial, folder, changing is None or trial.name in changing))
            for trial, folder in self._folders
        ]
        self._rows.results = {trial.name: seen.result for trial, seen in looks}
        return [_line_of(self.study, trial, seen, self._rows, lag, known, running) for trial, seen in looks]

    def _look(self, trial: StudyTrial, folder: TrialFolder, again: bool) -> Look:
        known = self._known.get(trial.key)
        if known is not None and not again:
            return known[1]
        stamps = stamps_of(folder)
        if known is not None and known[0] == stamps:
            return known[1]
        seen = look(folder, trial.key)
        alive = seen.is_open and not seen.ended_here  # it may end without a word, when its process dies
        self._known[trial.key] = None if alive else stamps, seen
        return seen


def _line_of(
    study: Study, trial: StudyTrial, seen: Look, rows: "_Rows", lag: Lag, known: Sequence[Runner], running: "_Runners"
) -> Line:
    headline = study.task.headline
    steps = rows.steps(trial.row)
    state, where = _state(seen, known)
    waits = _waits(study, trial, state, running, seen)
    notes = [where, waits, stopped_at(seen.result), seen.source_note, seen.note]
    return {
        "row": trial.row,
        "seed": trial.seed,
        "key": trial.key,
        "state": TO_SCORE_AGAIN if rows.is_to_score_again(trial, seen.result) else state,
        "step": seen.newest.step if seen.newest else None,
        "steps": steps,
        "seconds_left": seen.seconds_left(steps) if state == "running" else None,
        "attempts": len(seen.attempts),
        f"{headline.set}_{headline.name}": seen.score,
        "synced_step": lag.steps.get(trial.key),
        "note": "; ".join(filter(None, notes)),
        "look": seen,
        "watched": {label: seen.newest.metrics.get(name) if seen.newest else None for name, label in rows.watched},
    }


def _waits(study: Study, trial: StudyTrial, state: str, running: "_Runners", seen: Look) -> str:
    """Why the trial does not run yet, or never will."""
    fault = study.host_fault(trial) if state in ("missing", "interrupted") else ""
    return fault or running.note(trial.name, state, seen)


def _state(seen: Look, known: Sequence[Runner]) -> tuple[str, str]:
    """The state, and what to say of an attempt on another machine, whose process cannot be asked."""
    attempt = seen.attempt
    runner = next((each for each in known if attempt and each.process == attempt.process), None)
    if not (seen.is_open and seen.state == "interrupted") or runner is None or runner.process.is_here:
        return seen.state, ""
    host = runner.process.host
    if runner.lives():
        return "running", f"on {host}"
    if host == socket.gethostname():  # before a reboot, or in a container that has ended
        return seen.state, ""
    return "silent", f"silent for {as_time(time.time() - runner.seen)} on {host}"


class _Runners:
    """What the processes that run now mean for the trials that still run or wait."""

    def __init__(self, study: Study, known: Sequence[Runner]) -> None:
        self._waits, self._stops = dict[str, str](), set[str]()  # why, by the name of the trial
        for runner in (each for each in known if each.lives()):
            self._waits |= dict.fromkeys(runner.trials, f"waiting for {runner.waiting or 'its turn'}")
            asked = stop_requests(study.folder, runner)
            self._stops.update(runner.trials if asked is None else asked)

    def note(self, trial: str, state: str, seen: Look) -> str:
        """Such as "waiting for 4 GPUs, 2 are free", "waiting for its turn", "retry after: …" or "asked to stop"."""
        if trial in self._stops and state in ("missing", "interrupted", "running"):
            return "asked to stop"
        waits = self._waits.get(trial, "") if state in ("missing", "interrupted") else ""
        lost = _lost(seen) if waits or (state == "running" and not seen.has_reported) else ""
        return "; ".join(filter(None, [waits, lost]))


def _lost(seen: Look) -> str:
    """Why the attempt before was lost, if it was."""
    reasons = [attempt.reason for attempt in seen.attempts if attempt.reason]
    head, mark, cause = reasons[-1].partition("worker lost: ") if reasons else ("", "", "")
    return f"retry after: {cause}" if mark and not head else ""


class _Rows:
    """What the study says of its rows today; nothing of those that cannot be composed, or without the task's code."""

    def __init__(self, study: Study) -> None:
        self._known: dict[str, tuple[int, dict[str, Any]]] = {}  # steps and settings for scoring
        self.results: dict[str, dict[str, Any] | None] = {}  # of finished trials, by name
        self.watched: Sequence[tuple[str, str]] = ()  # reported metrics that the task shows, with their headings
        with suppress(RefusedError):
            source = source_of_study(study, Path.cwd())
            self.watched, schema = tuple(source.task.watched.items()), Schema.of(source.task)
            record = read_record(study, source)
            for row in dict.fromkeys(trial.row for trial in study.trials):
                with suppress(RefusedError):
                    config = schema.config(nested(record.settings | record.rows[row].values))
                    self._known[row] = schema.task.steps(config), schema.scoring(config)

    def steps(self, row: str) -> int | None:
        """How many steps its trials have."""
        return self._known[row][0] if row in self._known else None

    def is_to_score_again(self, trial: StudyTrial, result: dict[str, Any] | None) -> bool:
        """Whether a finished trial was scored with other settings, or on other weights, than it has now."""
        if result is None:
            return False
        if trial.weights and not are_current(result, self.results.get(trial.weights)):
            return True
        return trial.row in self._known and any(
            scores["decode"] != self._known[trial.row][1] for scores in result["scores"].values()
        )


def status_table(study: Study, lines: Sequence[Line], width: int | None = None, most: int = MOST_TRIALS) -> Table:
    """A line per trial. Of more than ``most`` those come first that run or failed, and the others are left out.

    In a narrow terminal, columns that one can do without are left out, and notes are cut.
    """
    finished = sum(line["state"] == "finished" for line in lines)
    title = f"{study.name}: {finished} of {len(lines)} finished"
    if len(lines) > most:
        title += f", {most} of {len(lines)} shown; --json lists all"
        lines = sorted(lines, key=lambda line: STATES_IN_ORDER.index(line["state"]))[:most]
    columns = tuple(_columns(study, lines))
    styles = tuple(STYLES.get(shown_state(line), "") for line in lines)
    return terminal(TextTable(title, columns, lines_of(columns, lines), styles=styles), width, FEWEST_COLUMNS)


def cut_notes(study: Study, lines: Sequence[Line], console: Console) -> list[str]:
    """What to know of trials that do not run, whole, where the terminal is too narrow for the tables."""
    wide = console.options.update(width=WIDE)
    if console.measure(status_table(study, lines), options=wide).maximum <= console.width:
        return []
    noted = [line for line in lines if _note(line) and line["state"] != "running"]
    notes = list(dict.fromkeys(map(_named_note, noted)))  # many trials wait for the same
    more = len(notes) - MOST_NOTES
    return [*notes[:MOST_NOTES], *([f"and {more} more; --json lists all"] if more > 0 else [])]


def _named_note(line: Line) -> str:
    """With its trial, unless it only waits."""
    note: str = line["note"]
    return note if shown_state(line) == "waiting" else f"{line['row']}-s{line['seed']}: {note}"


def shown_state(line: Line) -> str:
    """The state in ``status_json``, in three cases more exactly.

    "waiting": a running sweep has not started the trial yet. "starting": its attempt has not reported.
    "evaluating": it is after its last step.
    """
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
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else number(value, 3)


def _note(line: Line) -> str:
    """Its state says already that a trial waits for its turn."""
    return "" if shown_state(line) == "waiting" and line["note"] == "waiting for its turn" else str(line["note"])


def _step(line: Line) -> str:
    """Such as "300/600"; a finished trial has only its last step."""
    if line["step"] is None:
        return ""
    unfinished = line["steps"] is not None and line["state"] not in ("finished", TO_SCORE_AGAIN)
    return f"{line['step']}/{line['steps']}" if unfinished else str(line["step"])
