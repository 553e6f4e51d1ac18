"""The live view of a study, read only from its folder: for a running sweep and `allelse status
--watch`."""

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sweeps.command_task.command_task import begins_again
from sweeps.planning.plan import Plan
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import by_name, placed
from sweeps.processes.times import WATCH_S
from sweeps.status.standings import Line, Standings, counted, shown_state, status_table
from tracking.activity.runners import Runner, runners, seconds_left
from tracking.mlflow.ledger import Lag, SyncState, current_store
from tracking.study import Study, read_study
from tracking.uri import default_uri, without_password
from tracking.words import time as as_time

MOST_OF_A_CORE = 0.05
"""A study of many running trials is looked at less often, so that watching takes no more of a
core."""
FRAME = 6
"""Lines of a table other than its rows: a two-line title, the column names, and space."""
UNSENT = Lag(SyncState(""), {}, 0)
"""MLflow is not looked at."""


class Watched:
    """A study as its folder shows it, looked at every ``every_s`` seconds or less often."""

    def __init__(self, study: Study, every_s: float) -> None:
        self.study = study
        self.every_s = every_s
        self.lines: list[Line] = []
        self.pause_s = 0.0
        self._standings = Standings(study)
        self._looked = 0.0

    def is_due(self) -> bool:
        """Whether the next look may follow."""
        return time.monotonic() - self._looked >= self.pause_s

    def look(self, changing: Collection[str] | None = None) -> list[Line]:
        """One line per trial. With the names of those that are ``changing``, only their files are
        looked at again."""
        began = time.thread_time()
        try:
            self.lines = self._standings.lines(UNSENT, changing)
        finally:
            self._looked = time.monotonic()
            self.pause_s = max(self.every_s, (time.thread_time() - began) / MOST_OF_A_CORE)
        return self.lines

    def view(self, console: Console, below: Sequence[str], suffix: str = "") -> Group:
        """The table, cut to the terminal's height, above the summary and the places of logs and
        MLflow."""
        text = Text(
            "\n".join([f"{summary(self.study, self.lines)}{suffix}", "", *below]), overflow="fold"
        )
        room = console.height - len(text.wrap(console, console.width)) - 1
        return Group(
            status_table(self.study, self.lines, console.width, max(1, room - FRAME)), text
        )


def watch(study: Study, console: Console, below: Sequence[str]) -> None:
    """Until nothing is running, show the study above the lines ``below`` every ``WATCH_S`` seconds
    or less often.

    Without a terminal it only waits.
    """
    if not console.is_terminal:
        for _ in _looks(study):
            pass
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for watched in _looks(study):
            live.update(watched.view(console, below), refresh=True)


def summary(study: Study, lines: Sequence[Line]) -> str:
    """Such as "1 running, 4 waiting; 2 min 10 s so far; about 3 min 20 s left; waiting for 4 GPUs,
    2 are free"."""
    running = runners(study.folder)
    ran = max((time.time() - runner.since for runner in running), default=0.0)
    so_far = f"; {as_time(ran)} so far" if ran > 0 else ""
    reasons = {runner.waiting for runner in running} - {""}
    wait = "".join(f"; waiting for {reason}" for reason in sorted(reasons))
    return f"{counted(map(shown_state, lines))}{so_far}{_until(running, lines)}{wait}"


def _until(running: Sequence[Runner], lines: Sequence[Line]) -> str:
    """The time until all trials end, or until the running ones are trained if only that is known;
    "" if unknown."""
    seconds = seconds_left(running)
    if seconds is not None:
        return f"; about {as_time(seconds)} left"
    training_seconds = [line["seconds_left"] for line in lines if line["seconds_left"]]
    if not training_seconds:
        return ""
    return f"; about {as_time(max(training_seconds))} until the running trials are trained"


def _looks(study: Study) -> Iterator[Watched]:
    watched = Watched(study, WATCH_S)
    while True:
        lines = watched.look()
        yield watched
        if not runners(study.folder) and not any(line["state"] == "running" for line in lines):
            return
        time.sleep(watched.pause_s)
        current = read_study(study.folder)
        if current != watched.study:  # rows or seeds were added
            watched = Watched(current, WATCH_S)


def below_live_view(plan: Plan) -> tuple[str, ...]:
    """The lines below the live view, or before the first line of a run without a terminal."""
    study = plan.folder
    tracking = plan.shared.tracking
    store = (
        _store(study, tracking.uri)
        if tracking.enabled
        else f"off, {_verb(study, 'sync')} sends the runs later"
    )
    return (
        _after_interrupt(plan),
        f"From another terminal: {_verb(study, 'status', '--watch')}, {_verb(study, 'stop')}",
        _logs(study),
        f"MLflow: {store}",
    )


def _after_interrupt(plan: Plan) -> str:
    """What the same command does after Ctrl-C."""
    if again := begins_again(plan.task):
        return f"After Ctrl-C, the same command goes on; {again}"
    return "Ctrl-C is safe: trials save a checkpoint, and the same command resumes."


def below_watch(study: Path) -> tuple[str, ...]:
    """The lines below what `allelse status --watch` shows."""
    return (
        (
            f"Ctrl-C ends only this view. {_verb(study, 'stop')} ends the sweep, "
            "which saves checkpoints first."
        ),
        _logs(study),
        f"MLflow: {_store(study, current_store(study))}",
    )


def _logs(study: Path) -> str:
    return f"Logs: {study}/TRIAL/log.txt, {_verb(study, 'logs', 'TRIAL', '--follow')}"


def _store(study: Path, uri: str | None) -> str:
    """Where the runs are, and how to look at them. None is the default store."""
    default = default_uri(study.parent)
    store = (
        str(study.parent / "mlflow.db")
        if uri in (None, default)
        else without_password(uri or default, mark="")
    )
    return f"{store}, `{command('ui', *placed(study))}`"


def _verb(study: Path, verb: str, *words: str) -> str:
    return f"`{command(verb, *words, by_name(study), *placed(study))}`"
