"""The status of each trial of a study, read only from its folders: as JSON, one object per trial,
and as tables."""

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

from sweeps.command_task.command_task import begins_again, planned_steps_of
from sweeps.config.schema import Schema
from sweeps.planning.study_rows.study_record import read_record
from sweeps.planning.study_rows.task_choice import source_of_study
from sweeps.problems import RefusedError
from sweeps.trees import nested
from tracking.activity.look import Look, Stamps, look, stamps_of
from tracking.activity.runners import known_runners, stop_request
from tracking.mlflow.ledger import Lag
from tracking.study import Study, StudyTrial
from tracking.table.text import Column, TextTable, lines_of, terminal, text_column
from tracking.trial import TrialFolder
from tracking.weights import TO_SCORE_AGAIN, are_current
from tracking.words import grouped, number, ranges, stopped_at, trial_name
from tracking.words import time as as_time

Line = dict[str, Any]
"""One trial: what `status --json` prints, and for the tables also ``look`` and ``watched``. A line of
a table has ``seeds``."""
ONLY_SHOWN = ("look", "watched")
MOST_LINES = 100
MOST_NOTES = 20
STYLES = {"failed": "red", "damaged": "red", "silent": "yellow", "finished": "green"}
STYLES |= dict.fromkeys(("missing", "waiting"), "dim")
STATES_IN_ORDER = (
    "running",
    "silent",
    "failed",
    "damaged",
    "interrupted",
    TO_SCORE_AGAIN,
    "missing",
    "finished",
)
"""The order of states where not all trials are shown."""
WIDE = 10_000
"""Columns of a terminal in which everything has room."""
FEWEST_COLUMNS = 5
"""Columns that a line per trial always has, however narrow the terminal is."""


def status_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines for programs."""
    json_lines = [dict(line) for line in lines]
    for line in json_lines:
        for name in ONLY_SHOWN:
            del line[name]
    return json_lines


class Standings:
    """The trials of a study, for repeated looks: only trials whose files changed are read again."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._rows = _Rows(study)
        self._folders = [(trial, study.trial_folder(trial)) for trial in study.trials]
        # by trial key; None for trials that may run
        self._known: dict[str, tuple[Stamps | None, Look]] = {}

    def lines(self, lag: Lag, changing: Collection[str] | None = None) -> list[Line]:
        """One line per trial, in the order of the table.

        ``changing``: the names of trials to look at again; others are shown as they were. None
        looks at all.
        """
        running = _Runners(self.study)
        looks = [
            (trial, self._look(trial, folder, changing is None or trial.name in changing))
            for trial, folder in self._folders
        ]
        self._rows.results = {trial.name: trial_look.result for trial, trial_look in looks}
        return [self._line(trial, trial_look, lag, running) for trial, trial_look in looks]

    def _look(self, trial: StudyTrial, folder: TrialFolder, again: bool) -> Look:
        cached = self._known.get(trial.key)
        if cached is not None and not again:
            return cached[1]
        stamps = stamps_of(folder)
        if cached is not None and cached[0] == stamps:
            return cached[1]
        trial_look = look(folder, trial.key)
        # it may end without a word, when its process dies
        alive = trial_look.is_open and not trial_look.ended_here
        self._known[trial.key] = None if alive else stamps, trial_look
        return trial_look

    def _line(self, trial: StudyTrial, trial_look: Look, lag: Lag, running: "_Runners") -> Line:
        rows = self._rows
        headline = self.study.task.headline
        newest = trial_look.newest
        metrics = newest.metrics if newest else {}
        steps = rows.steps(trial.row)
        state, where = running.state(trial_look)
        waits = self._waits(trial, state, running, trial_look)
        again = rows.begins_again if state in ("interrupted", "running") else ""
        ended = stopped_at(trial_look.result)
        notes = [where, waits, ended, trial_look.source_note, trial_look.note, again]
        return {
            "row": trial.row,
            "seed": trial.seed,
            "key": trial.key,
            "state": TO_SCORE_AGAIN if rows.is_to_score_again(trial, trial_look.result) else state,
            "step": newest.step if newest else None,
            "steps": steps,
            "seconds_left": trial_look.seconds_left(steps) if state == "running" else None,
            "attempts": len(trial_look.attempts),
            f"{headline.set}_{headline.name}": trial_look.score,
            "synced_step": lag.steps.get(trial.key),
            "note": "; ".join(filter(None, notes)),
            "look": trial_look,
            "watched": {label: metrics.get(name) for name, label in rows.watched},
        }

    def _waits(self, trial: StudyTrial, state: str, running: "_Runners", trial_look: Look) -> str:
        """Why the trial does not run yet, or never will."""
        fault = self.study.host_fault(trial) if state in ("missing", "interrupted") else ""
        return fault or running.note(trial.name, state, trial_look)


class _Runners:
    """What the records of processes say of the trials that they run, and of those that wait."""

    def __init__(self, study: Study) -> None:
        records = known_runners(study.folder)
        self._by_process = {runner.process: runner for runner in reversed(records)}
        self._waits: dict[str, str] = {}  # what a trial waits for, by its name
        self._stops: set[str] = set()  # names of trials that were asked to stop
        for runner in records:
            if not runner.lives():
                continue
            self._waits |= dict.fromkeys(
                runner.trials, f"waiting for {runner.waiting or 'its turn'}"
            )
            request = stop_request(study.folder, runner)
            self._stops.update(runner.trials if request.everything else request.trials)

    def state(self, trial_look: Look) -> tuple[str, str]:
        """The state, and a note about an attempt on another machine, whose process cannot be
        asked."""
        attempt = trial_look.attempt
        runner = self._by_process.get(attempt.process) if attempt else None
        is_interrupted = trial_look.is_open and trial_look.state == "interrupted"
        if not is_interrupted or runner is None or runner.process.is_here:
            return trial_look.state, ""
        host = runner.process.host
        if runner.lives():
            return "running", f"on {host}"
        if host == socket.gethostname():  # before a reboot, or in a container that has ended
            return trial_look.state, ""
        return "silent", f"silent for {as_time(time.time() - runner.seen)} on {host}"

    def note(self, trial: str, state: str, trial_look: Look) -> str:
        """Such as "waiting for 4 GPUs, 2 are free", "waiting for its turn", "retry after: …" or
        "asked to stop"."""
        if trial in self._stops and state in ("missing", "interrupted", "running"):
            return "asked to stop"
        waits = self._waits.get(trial, "") if state in ("missing", "interrupted") else ""
        lost = (
            _lost(trial_look)
            if waits or (state == "running" and not trial_look.has_reported)
            else ""
        )
        return "; ".join(filter(None, [waits, lost]))


def _lost(trial_look: Look) -> str:
    """Why the previous attempt was lost; "" if it was not."""
    reasons = [attempt.reason for attempt in trial_look.attempts if attempt.reason]
    head, mark, cause = reasons[-1].partition("worker lost: ") if reasons else ("", "", "")
    return f"retry after: {cause}" if mark and not head else ""


class _Rows:
    """The rows of the study as composed today. Empty without the code; bad rows are left out."""

    def __init__(self, study: Study) -> None:
        # steps, if they are known, and settings for scoring
        self._known: dict[str, tuple[int | None, dict[str, Any]]] = {}
        self.begins_again = ""  # why a lost trial begins again, if it does
        self.results: dict[str, dict[str, Any] | None] = {}  # of finished trials, by name
        # reported metrics that the task shows, with their headings
        self.watched: Sequence[tuple[str, str]] = ()
        with suppress(RefusedError):
            source = source_of_study(study, Path.cwd())
            self.watched = tuple(source.task.watched.items())
            self.begins_again = begins_again(source.task)
            schema = Schema.of(source.task)
            record = read_record(study, source)
            for row in dict.fromkeys(trial.row for trial in study.trials):
                if row not in record.rows:
                    continue
                with suppress(RefusedError):
                    config = schema.config(nested(record.settings | record.rows[row].values))
                    steps = planned_steps_of(schema.task, config)
                    self._known[row] = steps, schema.scoring(config)

    def steps(self, row: str) -> int | None:
        """How many steps its trials have."""
        return self._known[row][0] if row in self._known else None

    def is_to_score_again(self, trial: StudyTrial, result: dict[str, Any] | None) -> bool:
        """Whether a finished trial was scored with other settings, or on other weights, than it has
        now."""
        if result is None:
            return False
        if trial.weights and not are_current(result, self.results.get(trial.weights)):
            return True
        if trial.row not in self._known:
            return False
        _, scoring = self._known[trial.row]
        return any(scores["decode"] != scoring for scores in result["scores"].values())


def status_table(
    study: Study, lines: Sequence[Line], width: int | None = None, most: int = MOST_LINES
) -> Table:
    """A line per trial that has begun. Those of a row that have not share a line.

    Of more than ``most`` lines, running and failed trials come first, and the last lines are left
    out. In a narrow terminal, less important columns are left out, and notes are cut.
    """
    finished = sum(line["state"] == "finished" for line in lines)
    title = f"{study.name}: {finished} of {len(lines)} finished"
    lines = _sharing_lines(lines)
    if len(lines) > most:
        title += f", {most} of {len(lines)} lines shown; --json lists all"
        lines = sorted(lines, key=lambda line: STATES_IN_ORDER.index(line["state"]))[:most]
    columns = tuple(_columns(study, lines))
    styles = tuple(STYLES.get(shown_state(line), "") for line in lines)
    return terminal(
        TextTable(title, columns, lines_of(columns, lines), styles=styles), width, FEWEST_COLUMNS
    )


def _sharing_lines(lines: Sequence[Line]) -> list[Line]:
    """The lines with their ``seeds``: one for those of a row that have not begun and have the same
    state and note."""
    groups = grouped((_sharing_key(line), line) for line in lines)
    return [
        {**same[0], "seeds": ranges(sorted(line["seed"] for line in same))}
        for same in groups.values()
    ]


def _sharing_key(line: Line) -> tuple[Any, ...]:
    """What lines that share one have in common. The attempts of a trial with a result may be
    lost."""
    has_begun = line["attempts"] or line["step"] or line["state"] == "finished"
    own_line = line["seed"] if has_begun else None
    return line["row"], own_line, line["state"], line["note"]


def cut_notes(study: Study, lines: Sequence[Line], console: Console) -> list[str]:
    """What to know of trials that do not run, whole, where the terminal is too narrow for the
    tables."""
    wide = console.options.update(width=WIDE)
    if console.measure(status_table(study, lines), options=wide).maximum <= console.width:
        return []
    noted = [line for line in lines if _note(line) and line["state"] != "running"]
    notes = list(dict.fromkeys(map(_named_note, noted)))  # many trials wait for the same
    hidden = len(notes) - MOST_NOTES
    if hidden <= 0:
        return notes
    return [*notes[:MOST_NOTES], f"and {hidden} more; --json lists all"]


def _named_note(line: Line) -> str:
    """The note after the trial's name; without the name if the trial only waits."""
    note: str = line["note"]
    if shown_state(line) == "waiting":
        return note
    return f"{trial_name(line['row'], line['seed'])}: {note}"


def shown_state(line: Line) -> str:
    """The state in ``status_json``, with three more exact words.

    "waiting": a running sweep has not started the trial yet. "starting": its attempt has not
    reported. "evaluating": it is after its last step.
    """
    if line["state"] in ("missing", "interrupted") and line["note"].startswith("waiting for "):
        return "waiting"
    if line["state"] != "running":
        return str(line["state"])
    if not line["look"].has_reported:
        return "starting"
    return "evaluating" if line["step"] == line["steps"] else "running"


def progress_of(line: Line) -> str:
    """Of a running trial, such as "300/600", or "evaluating"."""
    return _step(line) if shown_state(line) == "running" else shown_state(line)


def counted(states: Iterable[str]) -> str:
    """Such as "48 finished, 1 running"."""
    return ", ".join(f"{count} {state}" for state, count in Counter(states).most_common())


def _columns(study: Study, lines: Sequence[Line]) -> Iterator[Column[Line]]:
    """The columns of the table: less important ones come later, and the note last."""
    headline = study.task.headline
    score = f"{headline.set}_{headline.name}"
    yield text_column("row", itemgetter("row"), "name")
    yield text_column("seed", itemgetter("seeds"), "number")
    yield text_column("state", shown_state, "name")
    yield text_column("step", _step, "number")
    yield text_column(
        score, lambda line: headline.text(line[score]), "number", f"{headline.set} {headline.label}"
    )
    if any(line["seconds_left"] is not None for line in lines):
        yield text_column("left", lambda line: as_time(line["seconds_left"]), "number")
    if any(line["state"] == "running" for line in lines):
        yield from (
            text_column(name, partial(_watched, name), "number") for name in lines[0]["watched"]
        )
    if any(line["attempts"] > 1 for line in lines):
        yield text_column("attempts", lambda line: str(line["attempts"]), "number")
    yield Column("note", "", _note, _note, "note")


def _watched(name: str, line: Line) -> str:
    return _number(line["watched"][name])


def _number(value: float | None) -> str:
    """A watched metric: a loss, or a large rate."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else number(value, 3)


def _note(line: Line) -> str:
    """The note; "" for a trial that waits for its turn, since its state already says so."""
    if shown_state(line) == "waiting" and line["note"] == "waiting for its turn":
        return ""
    return str(line["note"])


def _step(line: Line) -> str:
    """Such as "300/600"; a finished trial has only its last step."""
    if line["step"] is None:
        return ""
    unfinished = line["steps"] is not None and line["state"] not in ("finished", TO_SCORE_AGAIN)
    return f"{line['step']}/{line['steps']}" if unfinished else str(line["step"])
