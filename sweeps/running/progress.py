"""The display of a running sweep: in a terminal what `status --watch` shows, elsewhere a line for
each event."""

import time
from typing import Any

from rich.console import Console

from sweeps.console import print_line
from sweeps.planning.plan import Plan
from sweeps.planning.user_code.watch import CodeWatch
from sweeps.processes.events import Event, Failed, Finished, Noticed, Report, Resumed
from sweeps.processes.times import LINE_EVERY_S, LOOK_AT_CODE_S
from sweeps.running.stopping import STOPPED_BY, STOPS
from sweeps.running.sweep_view import SweepView
from sweeps.running.trial_states import TrialStates
from tracking.words import number, stopped_at
from tracking.words import time as as_time


class Progress:
    """Displays the events of trials; use it as a context manager."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self.trials = TrialStates(plan)
        self.view = SweepView(plan, console, self.trials)
        self._plan = plan
        self._console = console
        self._code = CodeWatch(plan.code)
        self._waiting = ""  # what the trials wait for
        self._began = time.monotonic()
        self._last_line = self._began  # of those that tick prints
        self._last_look = self._began  # at the code

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self.view.open()
        else:
            for line in self.view.below:
                self._say(line)
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
        self._look_at_code()

    def close(self) -> None:
        """Remove the live table, so that what follows stays."""
        if self._console.is_terminal:
            self.view.close()

    def start(self, name: str) -> None:
        """Show that an attempt at this trial starts."""
        self.trials.start(name)

    def take(self, name: str, event: Event) -> None:
        """Show one event of a trial."""
        trial = self.trials.begun[name]
        was_resuming = trial.resuming
        self.trials.take(name, event)
        match event:
            case Noticed(text, quiet) if not quiet:
                self.notice(name, text)
            case Resumed(step) if was_resuming:
                self._say(f"{name}: resumed at step {step}")
            case Report() if was_resuming:
                host = f" on {trial.host}" if trial.host else ""
                self._say(f"{name}: starts at step 1, since no checkpoint is visible{host}")
            case Finished():
                self._say_scores(name, event)
            case Failed(cause):
                self._say_failed(name, cause)
        self.tick()

    def notice(self, name: str, text: str) -> None:
        self._say(f"{name}: {text}")

    @property
    def stopping(self) -> bool:
        """Whether it shows that the run is stopping."""
        return self.view.stopping

    def stop(self, fault: str = "") -> None:
        """Show that the run is stopping: a person asked for it, or a fault ends it."""
        self.view.stopping = True
        self._say(STOPPED_BY.format(fault=fault) if fault else STOPS)

    def give_up(self, cause: str, command: str) -> None:
        """Say that no trial can run anymore, and what to type."""
        self.close()
        self._say(
            f"{cause}; the trials resume from their last checkpoints. To continue, run again: "
            f"{command}"
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
        self.trials.stop(name)

    def leave(self, name: str, cause: str) -> None:
        """Show that a trial is not scored, since its host lacks weights, or a step of them."""
        self.skip(name)
        self._say(f"{name}: not scored, since {cause}")

    def wait(self, words: str) -> None:
        if words and not self._waiting and not self._console.is_terminal:
            self._say(f"Waiting for {words}")
        self._waiting = words

    def retry(self, name: str, cause: str) -> None:
        """Show that another attempt follows one that was lost."""
        self.trials.start_again(name)
        self._say(f"{name}: {cause}; starting another attempt")

    def lose(self, name: str, cause: str) -> None:
        """Show that a trial lost its attempt while it was stopping."""
        self.skip(name)
        self._say(f"{name}: {cause}; it resumes with the next sweep")

    def fail(self, name: str, cause: str) -> None:
        self.trials.fail(name)
        self._say_failed(name, cause)

    def tick(self) -> None:
        """Print one line of progress if no table is shown and the last line is old enough."""
        if time.monotonic() - self._last_look > LOOK_AT_CODE_S:
            self._look_at_code()
        if self._console.is_terminal or time.monotonic() - self._last_line < LINE_EVERY_S:
            return
        self._last_line = time.monotonic()
        if line := self.view.line():
            self._say(line)

    def seconds_left(self) -> float | None:
        """Seconds until the last trial ends, extrapolated from the trials' files; None if
        unknown."""
        return self.view.seconds_left(self._plan.pending)

    def _look_at_code(self) -> None:
        self._last_look = time.monotonic()
        if line := self._code():
            self._say(line)

    def _say_scores(self, name: str, event: Finished) -> None:
        """Without a terminal, print all scores of the table, and whether training ended early."""
        if self._console.is_terminal:
            return
        took = f"finished at {as_time(time.monotonic() - self._began)}"
        scores = [
            f"{metric.set} {metric.label} "
            f"{number(event.scores.get(metric.set, {}).get(metric.name), metric.places)}"
            for metric in self._plan.task.metrics
            if metric.tabled
        ]
        self._say(f"{name}: {', '.join(filter(None, [took, stopped_at(vars(event)), *scores]))}")

    def _say_failed(self, name: str, cause: str) -> None:
        self._say(f"{name}: FAILED: {cause}")

    def _say(self, text: str) -> None:
        # a cause may contain text that looks like markup
        print_line(self._console, text)
