"""The display of a running sweep: a live table in a terminal, occasional lines elsewhere."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweeps.events import (
    Evaluated,
    Evaluating,
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
from sweeps.planning.plan import Plan
from sweeps.running.forecast import seconds_left
from sweeps.running.live_table import labelled, live_table, score
from sweeps.running.shown_trial import ShownTrial
from sweeps.running.stopping import STOPPED_BY, STOPS
from sweeps.running.where import below_live_view
from tracking import formats

LINE_EVERY_SECONDS = 30


class Progress:
    """Displays the events of trials; use it as a context manager."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan, self.console = plan, console
        self.trials = {planned.trial.name: ShownTrial.of(planned) for planned in plan.trials}
        self._pending = [self.trials[planned.trial.name] for planned in plan.pending]  # in the order of work
        self._finished_before = [trial for trial in self.trials.values() if trial.state == "finished"]
        self._starts, self._evaluations = list[float](), list[float]()  # seconds of finished trials
        self.where = below_live_view(plan)
        self.began, self._said, self.stopping, self.waiting = time.monotonic(), time.monotonic(), False, ""
        self._going_on: set[str] = set()  # trials that start again, of which it is still to be said from where
        self.live = Live(get_renderable=self.view, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self.live.__enter__()
        else:
            for line in self.where:
                self._say(line)
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Remove the live table, so that what follows stays."""
        if self.console.is_terminal:
            self.live.stop()

    def start(self, name: str) -> None:
        trial = self.trials[name]
        trial.state, trial.began, trial.trained, trial.asked = "starting", None, None, time.monotonic()
        trial.began_step = 0
        if trial.safe:
            self._going_on.add(name)

    def take(self, name: str, event: Event) -> None:
        """Show one event of a trial."""
        trial = self.trials[name]
        match event:
            case Started(_, _, hosts):
                trial.state, trial.hosts = "running", hosts
            case Noticed(text):
                self.notice(name, text)
            case Resumed(step, reports):
                trial.metrics = {name: value for report in reports for name, value in report.metrics.items()}
                trial.step, trial.began_step, trial.safe, trial.note = step, step, step, f"resumed at step {step}"
                trial.began = time.monotonic()
                self._say_start(name, f"resumed at step {step}")
            case Report(step, metrics, _, checkpoint):
                if trial.began is None:  # it did not resume, so earlier checkpoints do not count
                    trial.began, trial.safe = time.monotonic(), 0
                    where = f" on {trial.hosts[0]}" if trial.hosts else ""
                    self._say_start(name, f"starts at step 1, since no checkpoint is visible{where}")
                trial.began_step = trial.began_step or step  # the pace counts from the first report
                trial.step, trial.metrics = step, {**trial.metrics, **metrics}
                trial.safe = trial.safe if checkpoint is None else checkpoint
            case Stopped(step):
                trial.state, trial.step, trial.safe, trial.note = "stopped", step, step, ""
                trial.trained = time.monotonic()
            case Evaluating():
                trial.state, trial.trained = "evaluating", time.monotonic()
            case Evaluated(_, set_name):
                trial.note = f"{set_name} is evaluated"
            case Finished():
                self._finish(trial, event)
            case Failed(cause):
                self.fail(name, cause)
            case Lost():
                pass  # Tune decides whether there is another attempt
        self.tick()

    def notice(self, name: str, text: str) -> None:
        """Say this of a trial."""
        self._say(f"{name}: {text}")

    def _say_start(self, name: str, where: str) -> None:
        """Say from which step a trial really goes on that was lost, or that an earlier sweep began."""
        if name in self._going_on:
            self._going_on.discard(name)
            self._say(f"{name}: {where}")

    def stop(self, fault: str = "") -> None:
        """Show that the run is stopping: a person asked for it, or a fault ends it."""
        self.stopping = True
        self._say(STOPPED_BY.format(fault=fault) if fault else STOPS)

    def give_up(self, cause: str, command: str) -> None:
        """Say that no trial can run any more, and what to type."""
        self.close()
        self._say(f"{cause}; the trials resume from their last checkpoints. To continue, run again: {command}")

    def left(self) -> tuple[str, ...]:
        """One line per running trial: the step that it resumes from, and the steps that are lost."""
        return tuple(trial.resumes for trial in self.trials.values() if trial.active)

    def stop_one(self, name: str, begun: bool) -> None:
        """Show that one trial was asked to stop, and that the others go on."""
        after = "stopping after the current step, with a checkpoint" if begun else "it will not start"
        self.trials[name].state = self.trials[name].state if begun else "stopped"
        self._say(f"{name}: {after}, as `ablate stop` asked")

    def skip(self, name: str) -> None:
        """Show that a trial stopped: before its first step, or by the loss of its attempt."""
        self.trials[name].state = "stopped"

    def ended(self) -> set[str]:
        """The trials that are over in this run."""
        return {name for name, trial in self.trials.items() if trial.state in ("finished", "FAILED", "stopped")}

    def failed(self) -> bool:
        """Whether a trial is FAILED."""
        return any(trial.state == "FAILED" for trial in self.trials.values())

    def complete(self) -> bool:
        """Whether every trial is finished or FAILED."""
        return all(trial.state in ("finished", "FAILED") for trial in self.trials.values())

    def wait(self, words: str) -> None:
        """Show for what the trials wait, or that they wait no more."""
        if words and not self.waiting and not self.console.is_terminal:
            self._say(f"Waiting for {words}")
        self.waiting = words

    def retry(self, name: str, cause: str) -> None:
        trial = self.trials[name]
        trial.state, trial.note, trial.asked = "starting", f"retry after: {cause}", trial.asked or time.monotonic()
        self._going_on.add(name)
        self._say(f"{name}: {cause}; starting another attempt")

    def lose(self, name: str, cause: str) -> None:
        """Show that a trial which was to stop has lost its attempt."""
        self.skip(name)
        self._say(f"{name}: {cause}; it resumes with the next sweep")

    def fail(self, name: str, cause: str) -> None:
        self.trials[name].state, self.trials[name].note = "FAILED", cause
        self._say(f"{name}: FAILED: {cause}")

    def tick(self) -> None:
        """Print one line of progress if no table is shown and the last line is old enough."""
        if self.console.is_terminal or time.monotonic() - self._said < LINE_EVERY_SECONDS:
            return
        self._said = time.monotonic()
        runs = [trial for trial in self.trials.values() if trial.state in ("running", "evaluating")]
        running = [f"{trial.name} {trial.progress}" for trial in runs]
        self._say(f"{self.headline()}: {', '.join(running) or 'starting'}")

    def headline(self) -> str:
        """Such as "7 of 20 finished, 1 failed, 2:10 so far, about 4:20 left"."""
        states = [trial.state for trial in self.trials.values()]
        words = [f"{states.count('finished')} of {len(states)} finished"]
        words += [f"{states.count('FAILED')} failed"] * ("FAILED" in states)
        words.append(f"{formats.time(time.monotonic() - self.began)} so far")
        if self.stopping:
            return ", ".join([*words, "stopping"])
        if self.waiting:
            return ", ".join([*words, f"waiting for {self.waiting}"])
        left = self.seconds_left()
        return ", ".join([*words, f"about {formats.time(left)} left"] if left else words)

    def view(self) -> Group:
        """The headline, the table, and below it where things are."""
        headline = Text(f"{self.plan.folder.name}: {self.headline()}", "bold")
        return Group(headline, self.table(), Text("\n".join(self.where), "dim"))

    def table(self) -> Table:
        """The whole study, one line per trial, or as many as fit."""
        below = sum(-(-len(line) // self.console.width) for line in self.where)
        room = max(self.console.height - 5 - below, 5)
        fits = len(self.trials) <= room
        trials = list(self.trials.values()) if fits else [*self._pending, *self._finished_before]
        return live_table(trials, self.plan.task, room)

    def _finish(self, trial: ShownTrial, event: Finished) -> None:
        """The table shows the headline in its column; the other scores, and an early end, are a note."""
        self._starts.append(trial.start_s)
        self._evaluations.append(trial.evaluated_s)
        scores, stopped = event.scores, formats.stopped_at(vars(event))
        trial.state, trial.step = "finished", event.step
        trial.metrics |= {f"{name}/{metric}": value for name, of in scores.items() for metric, value in of.items()}
        tabled = [metric for metric in self.plan.task.metrics if metric.tabled]
        values = [score(metric, scores.get(metric.set, {}).get(metric.name)) for metric in tabled]
        labels = [labelled(metric) if metric.set != tabled[0].set else metric.label for metric in tabled]
        texts = [f"{label} {value}" for label, value in zip(labels, values, strict=True)]
        trial.note = ", ".join([*filter(None, [stopped]), *texts[1:]])
        took = formats.time(time.monotonic() - self.began)
        if not self.console.is_terminal:
            ended = ", ".join(filter(None, [f"finished at {took}", stopped]))
            self._say(f"{trial.name}: {ended}: {tabled[0].set} {', '.join(texts)}")

    def _say(self, text: str) -> None:
        # a cause may contain text that looks like markup
        self.console.print(escape(text), soft_wrap=True, highlight=False)

    def seconds_left(self) -> float | None:
        """Extrapolated from the pace of this run's trials and the planned cost of the others."""
        efforts = [each.effort * (1 - each.step / each.steps) for each in self._pending if each.state == "waiting"]
        start, evaluation = _mean(self._starts), _mean(self._evaluations)
        begun = [each.ongoing(evaluation) for each in self._pending if each.asked]
        return seconds_left(begun, efforts, start + evaluation)


def _mean(seconds: list[float]) -> float:
    return sum(seconds) / len(seconds) if seconds else 0.0
