"""`ablate status --watch`: where trials stand, looked at again and again, from the study's folder alone."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from sweeps.running.where import below_watch
from sweeps.standings import Standings
from sweeps.standings_table import Line, counted, shown_state, status_tables
from tracking import formats
from tracking.liveness import Runner, runners, seconds_left
from tracking.mlflow.lag import Lag
from tracking.study import Study, read_study

REFRESH_S = 2.0
MOST_OF_A_CORE = 0.05
"""A study of many running trials is looked at less often, so that watching takes no more of a core."""
LINE_EVERY_S = 30.0
UNSENT = Lag("", {}, 0, None, ())
"""MLflow is not looked at."""


def watch(study: Study, console: Console, pause: Callable[[float], None] = time.sleep) -> list[Line]:
    """Show the study every ``REFRESH_S`` seconds or less often, until nothing is running; returns its last lines.

    In a terminal as a table, else a line for each change.
    """
    looks = _looks(study, pause)
    if not console.is_terminal:
        return _told(looks, console)
    lines: list[Line] = []
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for shown, lines in looks:
            live.update(_view(shown, lines, console), refresh=True)
    return lines


def _view(study: Study, lines: Sequence[Line], console: Console) -> Group:
    """The tables, cut to the terminal's height, above the summary and the places of logs and MLflow, with commands."""
    below = Text("\n".join([summary(study, lines), "", *below_watch(study.folder)]), overflow="fold")
    room = console.height - len(below.wrap(console, console.width)) - 1
    return Group(*status_tables(study, lines, room), below)


def summary(study: Study, lines: Sequence[Line]) -> str:
    """Such as "1 running, 4 waiting; about 3 min 20 s left; waiting for 4 GPUs, 2 are free"."""
    running = runners(study.folder)
    wait = "".join(f"; waiting for {words}" for words in sorted({runner.waiting for runner in running} - {""}))
    return f"{counted(map(shown_state, lines))}{_until(running, lines)}{wait}"


def _until(running: Sequence[Runner], lines: Sequence[Line]) -> str:
    """The end of all trials, or of the running ones until their process knows more."""
    left = seconds_left(running)
    if left is not None:
        return f"; about {formats.time(left)} left"
    known = [line["seconds_left"] for line in lines if line["seconds_left"] is not None]
    return f"; about {formats.time(max(known))} until the running trials are trained" if known else ""


def _looks(study: Study, pause: Callable[[float], None]) -> Iterator[tuple[Study, list[Line]]]:
    standings = Standings(study)
    while True:
        began = time.process_time()
        lines = standings.lines(UNSENT)
        yield standings.study, lines
        if not runners(study.folder) and not any(line["state"] == "running" for line in lines):
            return
        pause(max(REFRESH_S, (time.process_time() - began) / MOST_OF_A_CORE))
        now = read_study(study.folder)
        if now != standings.study:  # rows or seeds were added
            standings = Standings(now)


def _told(looks: Iterator[tuple[Study, list[Line]]], console: Console) -> list[Line]:
    before: dict[str, Any] = {}
    lines: list[Line] = []
    said = time.monotonic()
    for study, lines in looks:
        changed = [line for line in lines if before.get(line["key"]) not in (None, line["state"])]
        for line in changed:
            console.print(escape(_sentence(study, line)), soft_wrap=True)
        if not before or time.monotonic() - said > LINE_EVERY_S:
            console.print(escape(f"{study.name}: {summary(study, lines)}"), soft_wrap=True)
            said = time.monotonic()
        before = {line["key"]: line["state"] for line in lines}
    return lines


def _sentence(study: Study, line: Line) -> str:
    """Such as "base-s1: finished, test accuracy 0.912"."""
    headline = study.task.headline
    value = line[f"{headline.set}_{headline.name}"] if line["state"] == "finished" else None
    score = f", {headline.set} {headline.label} {headline.text(value)}" if value is not None else ""
    at = f" at step {line['step']}" if line["step"] is not None and not score else ""
    note = f" ({line['note']})" if line["note"] else ""
    return f"{line['row']}-s{line['seed']}: {line['state']}{at}{score}{note}"
