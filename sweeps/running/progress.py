"""The display of a running sweep: in a terminal what `status --watch` shows, elsewhere a line for
each event."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live

from sweeps.console import print_line
from sweeps.planning.plan import Plan
from sweeps.planning.user_code.watch import CodeWatch
from sweeps.processes.events import (
    Event,
    Failed,
    Finished,
    Lost,
    Noticed,
    Report,
    Resumed,
    Started,
    Stopped,
)
from sweeps.processes.times import LINE_EVERY_S, LOOK_AT_CODE_S, LOOK_AT_TRIALS_S
from sweeps.running.stopping import STOPPED_BY, STOPS
from sweeps.status.live import Watched, below_live_view, summary
from sweeps.status.standings import Line, progress_of
from sweeps.status.time_left import sweep_seconds_left
from tracking.files import DamagedFileError, unless_damaged
from tracking.study import read_study
from tracking.words import number, stopped_at, trial_name
from tracking.words import time as as_time

ACTIVE = ("starting", "running")
ENDED = ("finished", "FAILED", "stopped")


@dataclass
class Begun:
    """How far a trial of this sweep is, and the step of its newest complete checkpoint."""

    steps: int
    safe: int
    step: int = 0

    def resumes(self, name: str) -> str:
        """The step that it resumes from, and the steps that are lost."""
        if self.safe == self.step == self.steps:
            return f"{name} is trained; its evaluation resumes"
        lost = f"; steps {self.safe + 1} to {self.step} are lost" if self.step > self.safe else ""
        return f"{name} resumes from step {self.safe}{lost}"


class Progress:
    """Displays the events of trials; use it as a context manager."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan = plan
        self.console = console
        self._pending = {planned.name: planned for planned in plan.pending}
        names = [planned.name for planned in plan.trials]
        self._states = {name: "waiting" if name in self._pending else "finished" for name in names}
        self._begun: dict[str, Begun] = {}
        # hosts of trials that start again, until the step is printed
        self._resuming: dict[str, str] = {}
        self._watched: Watched | None = None
        self._view: RenderableType = ""  # the last one that could be drawn
        self._shown: dict[str, str] = {}  # the state of each trial just before the last look
        self.where = below_live_view(plan)
        self.began = time.monotonic()
        self._last_line = time.monotonic()
        self.stopping = False
        self.waiting = ""
        self._code = CodeWatch(plan.code)
        self._last_look = time.monotonic()
        self.live = Live(
            get_renderable=self.view,
            console=console,
            refresh_per_second=1 / LOOK_AT_TRIALS_S,
            transient=True,
        )

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self.live.__enter__()
        else:
            for line in self.where:
                self._say(line)
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
        self._look_at_code()

    def close(self) -> None:
        """Remove the live table, so that what follows stays."""
        if self.console.is_terminal:
            self.live.stop()

    def start(self, name: str) -> None:
        """Show that an attempt at this trial starts."""
        if name not in self._begun:
            planned = self._pending[name]
            reports = unless_damaged(planned.folder.journal, [])
            newest = max((report.checkpoint or 0 for report in reports), default=0)
            self._begun[name] = Begun(planned.steps, newest)
        if self._begun[name].safe:
            self._resuming[name] = ""
        self._become(name, "starting")

    def take(self, name: str, event: Event) -> None:
        """Show one event of a trial."""
        begun = self._begun[name]
        match event:
            case Started(_, hosts):
                self._become(name, "running")
                if name in self._resuming and hosts:
                    self._resuming[name] = f" on {hosts[0]}"
            case Noticed(text, quiet):
                if not quiet:
                    self.notice(name, text)
            case Resumed(step):
                begun.step = begun.safe = step
                if self._resuming.pop(name, None) is not None:
                    self._say(f"{name}: resumed at step {step}")
            case Report(step, _, _, checkpoint):
                if (host := self._resuming.pop(name, None)) is not None:  # it did not resume
                    self._say(f"{name}: starts at step 1, since no checkpoint is visible{host}")
                    begun.safe = 0
                begun.step = step
                begun.safe = begun.safe if checkpoint is None else checkpoint
            case Stopped(step):
                begun.step = begun.safe = step
                self._become(name, "stopped")
            case Finished():
                self._finish(name, event)
            case Failed(cause):
                self.fail(name, cause)
            case Lost():
                pass  # the queue decides whether another attempt follows
        self.tick()

    def notice(self, name: str, text: str) -> None:
        self._say(f"{name}: {text}")

    def stop(self, fault: str = "") -> None:
        """Show that the run is stopping: a person asked for it, or a fault ends it."""
        self.stopping = True
        self._say(STOPPED_BY.format(fault=fault) if fault else STOPS)

    def give_up(self, cause: str, command: str) -> None:
        """Say that no trial can run anymore, and what to type."""
        self.close()
        self._say(
            f"{cause}; the trials resume from their last checkpoints. To continue, run again: "
            f"{command}"
        )

    def resume_lines(self) -> tuple[str, ...]:
        """One line per running trial: the step that it resumes from, and the steps that are
        lost."""
        over = {name for name, state in self._states.items() if state in ("finished", "FAILED")}
        return tuple(
            self._begun[name].resumes(name)
            for name in self._states
            if name in self._begun.keys() - over
        )

    def stop_one(self, name: str, begun: bool) -> None:
        after = (
            "stopping after the current step, with a checkpoint" if begun else "it will not start"
        )
        if not begun:
            self.skip(name)
        self._say(f"{name}: {after}, as `allelse stop` asked")

    def skip(self, name: str) -> None:
        """Show that a trial stopped: before its first step, or by the loss of its attempt."""
        self._become(name, "stopped")

    def leave(self, name: str, cause: str) -> None:
        """Show that a trial is not scored, since its host lacks weights, or a step of them."""
        self.skip(name)
        self._say(f"{name}: not scored, since {cause}")

    def ended(self) -> set[str]:
        """The trials that are over in this run."""
        return {name for name, state in self._states.items() if state in ENDED}

    def failed(self) -> bool:
        return "FAILED" in self._states.values()

    def complete(self) -> bool:
        """Whether every trial is finished or FAILED."""
        return set(self._states.values()) <= {"finished", "FAILED"}

    def wait(self, words: str) -> None:
        if words and not self.waiting and not self.console.is_terminal:
            self._say(f"Waiting for {words}")
        self.waiting = words

    def retry(self, name: str, cause: str) -> None:
        """Show that another attempt follows one that was lost."""
        self._become(name, "starting")
        self._resuming[name] = ""
        self._say(f"{name}: {cause}; starting another attempt")

    def lose(self, name: str, cause: str) -> None:
        """Show that a trial lost its attempt while it was stopping."""
        self.skip(name)
        self._say(f"{name}: {cause}; it resumes with the next sweep")

    def fail(self, name: str, cause: str) -> None:
        self._become(name, "FAILED")
        self._say(f"{name}: FAILED: {cause}")

    def tick(self) -> None:
        """Print one line of progress if no table is shown and the last line is old enough."""
        if time.monotonic() - self._last_look > LOOK_AT_CODE_S:
            self._look_at_code()
        if self.console.is_terminal or time.monotonic() - self._last_line < LINE_EVERY_S:
            return
        self._last_line = time.monotonic()
        self._look()
        with suppress(OSError, DamagedFileError):  # as in a look
            if self._watched is not None:
                self._say(self._line(self._watched))

    def _line(self, watched: Watched) -> str:
        """How far the running trials are."""
        running = []
        for name, line in self._lines().items():
            if line["state"] == "running" and (progress := progress_of(line)) != "starting":
                running.append(f"{name} {progress}")
        return (
            f"{summary(watched.study, watched.lines)}{self._more}: "
            f"{', '.join(running) or 'starting'}"
        )

    def _look_at_code(self) -> None:
        self._last_look = time.monotonic()
        if line := self._code():
            self._say(line)

    def view(self) -> RenderableType:
        """What `status --watch` shows of these trials. A thread draws it: storage that hangs holds
        up no trial. While the study's folder cannot be read, the last view stays."""
        self._look()
        with suppress(OSError, DamagedFileError):  # as in a look
            if self._watched is not None:
                self._view = self._watched.view(self.console, self.where, self._more)
        return self._view

    @property
    def _more(self) -> str:
        return "; stopping" if self.stopping else ""

    def seconds_left(self) -> float | None:
        """Seconds until the last trial ends, extrapolated from the trials' files; None if
        unknown."""
        if not self.console.is_terminal:
            self._look()
        return sweep_seconds_left(list(self._pending.values()), self._lines())

    def _become(self, name: str, state: str) -> None:
        self._states[name] = state

    def _finish(self, name: str, event: Finished) -> None:
        """Without a terminal, print all scores of the table, and whether training ended early."""
        self._become(name, "finished")
        if self.console.is_terminal:
            return
        took = f"finished at {as_time(time.monotonic() - self.began)}"
        scores = [
            f"{metric.set} {metric.label} "
            f"{number(event.scores.get(metric.set, {}).get(metric.name), metric.places)}"
            for metric in self.plan.task.metrics
            if metric.tabled
        ]
        self._say(f"{name}: {', '.join(filter(None, [took, stopped_at(vars(event)), *scores]))}")

    def _say(self, text: str) -> None:
        # a cause may contain text that looks like markup
        print_line(self.console, text)

    def _look(self) -> None:
        """Look at the trials that run or whose state changed, unless the last look is too fresh."""
        # before the look: a state that another thread changes meanwhile is looked at next time
        states = dict(self._states)
        with suppress(
            OSError, DamagedFileError
        ):  # a fault of storage: the process that writes there reports it
            if self._watched is None:
                study = read_study(self.plan.folder)
                ours = tuple(trial for trial in study.trials if trial.name in self._states)
                self._watched = Watched(replace(study, trials=ours), LOOK_AT_TRIALS_S)
                self._watched.look()
                self._shown = states
            elif self._watched.is_due():
                self._watched.look(self._due(states))
                self._shown = states

    def _due(self, states: Mapping[str, str]) -> set[str]:
        """The trials that run, or whose state changed since the last look."""
        return {
            name
            for name, state in states.items()
            if state in ACTIVE or state != self._shown.get(name)
        }

    def _lines(self) -> Mapping[str, Line]:
        lines = () if self._watched is None else self._watched.lines
        return {trial_name(line["row"], line["seed"]): line for line in lines}
