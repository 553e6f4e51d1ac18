"""The display of a running sweep: a live table in a terminal, occasional lines elsewhere."""

import time
from dataclasses import dataclass, field
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
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.running.forecast import Ongoing, seconds_left
from sweeps.running.stopping import ONCE
from sweeps.running.where import where_things_are
from tracking import formats
from tracking.damage import unless_damaged
from tracking.metrics import Metric

LINE_EVERY_SECONDS = 30
ACTIVE = ("starting", "running", "evaluating", "stopped")


@dataclass
class Line:
    """One trial as displayed."""

    planned: PlannedTrial
    state: str
    step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    began: float | None = None
    began_step: int = 0
    note: str = ""
    safe: int = 0  # step of the newest complete checkpoint
    hosts: tuple[str, ...] = ()
    trained: float | None = None  # when this attempt ended its training
    asked: float = 0.0  # when it was started

    @property
    def steps(self) -> int:
        return self.planned.steps

    @property
    def progress(self) -> str:
        return f"{self.step}/{self.steps}" if self.state == "running" else self.state

    @property
    def seconds_left(self) -> float | None:
        """Extrapolated from this attempt's pace; None before its second report."""
        if self.state != "running" or self.began is None or self.step <= self.began_step:
            return None
        pace = (time.monotonic() - self.began) / (self.step - self.began_step)
        return pace * (self.steps - self.step)

    @property
    def ongoing(self) -> Ongoing:
        """What this attempt did, and what is left."""
        per_step, runs = self.planned.effort / self.steps, self.state in ACTIVE and self.state != "stopped"
        seconds = 0.0 if self.began is None else (self.trained or time.monotonic()) - self.began
        left = self.steps - self.step if runs else 0
        return Ongoing(per_step * max(0, self.step - self.began_step), per_step * left, seconds, runs)


class Progress:
    """Displays the events of trials; use it as a context manager."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self.plan, self.console = plan, console
        self.lines = {
            t.trial.name: Line(t, "finished", t.steps) if t.finished else Line(t, "waiting", safe=_safe(t))
            for t in plan.trials
        }
        self.task, self._besides = plan.task, list[float]()
        self.where = where_things_are(plan)
        self.headline_metric = next(metric for metric in self.task.metrics if metric.tabled)
        self.began, self._said, self.stopping, self.waiting = time.monotonic(), time.monotonic(), False, ""
        self._retried: set[str] = set()  # trials of which another attempt starts
        self.live = Live(get_renderable=self.view, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self.live.__enter__()
        else:
            for line in self.where:
                self._say(line)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.console.is_terminal:
            self.live.__exit__(*error)

    def start(self, name: str) -> None:
        line = self.lines[name]
        line.state, line.began, line.trained, line.asked = "starting", None, None, time.monotonic()
        line.began_step = 0

    def take(self, name: str, event: Event) -> None:
        """Show one event of a trial."""
        line = self.lines[name]
        match event:
            case Started(_, _, hosts):
                line.state, line.hosts = "running", hosts
            case Noticed(text):
                self.notice(name, text)
            case Resumed(step, reports):
                line.metrics = {name: value for report in reports for name, value in report.metrics.items()}
                line.step, line.began_step, line.safe, line.note = step, step, step, f"resumed at step {step}"
                line.began = time.monotonic()
                self._say_start(name, f"resumed at step {step}")
            case Report(step, metrics, _, checkpoint):
                if line.began is None:  # it did not resume, so earlier checkpoints do not count
                    line.began, line.safe = time.monotonic(), 0
                    where = f" on {line.hosts[0]}" if line.hosts else ""
                    self._say_start(name, f"starts at step 1, since no checkpoint is visible{where}")
                line.began_step = line.began_step or step  # the pace counts from the first report
                line.step, line.metrics = step, {**line.metrics, **metrics}
                line.safe = line.safe if checkpoint is None else checkpoint
            case Stopped(step):
                line.state, line.step, line.safe, line.note = "stopped", step, step, ""
                line.trained = time.monotonic()
            case Evaluating():
                line.state, line.trained = "evaluating", time.monotonic()
            case Evaluated(_, set_name):
                line.note = f"{set_name} is evaluated"
            case Finished(_, _, scores):
                self._finish(line, scores)
            case Failed(cause):
                self.fail(name, cause)
            case Lost():
                pass  # Tune decides whether there is another attempt
        self.tick()

    def notice(self, name: str, text: str) -> None:
        """Say this of a trial."""
        self._say(f"{name}: {text}")

    def _say_start(self, name: str, where: str) -> None:
        """After a retry, say from which step the trial really goes on."""
        if name in self._retried:
            self._retried.discard(name)
            self._say(f"{name}: {where}")

    def stop(self) -> None:
        """Show that the run is stopping."""
        self.stopping = True
        self._say(ONCE)

    def give_up(self, cause: str, command: str) -> None:
        """Say that no trial can run any more, and what to type."""
        self.__exit__(None, None, None)
        self._say(f"{cause}; the trials resume from their last checkpoints. To continue, run again: {command}")

    def left(self) -> tuple[str, ...]:
        """One line per running trial: the step that it resumes from, and the steps that are lost."""
        return tuple(_resumes(name, line) for name, line in self.lines.items() if line.state in ACTIVE)

    def stop_one(self, name: str, begun: bool) -> None:
        """Show that one trial was asked to stop, and that the others go on."""
        after = "stopping after the current step, with a checkpoint" if begun else "it will not begin"
        self.lines[name].state = self.lines[name].state if begun else "stopped"
        self._say(f"{name}: {after}, as `ablate stop` asked")

    def skip(self, name: str) -> None:
        """Show that a trial that was asked to stop did not begin."""
        self.lines[name].state = "stopped"

    def ended(self) -> set[str]:
        """The trials that are over in this run."""
        return {name for name, line in self.lines.items() if line.state in ("finished", "FAILED", "stopped")}

    def wait(self, words: str) -> None:
        """Show for what the trials wait, or that they wait no more."""
        if words and not self.waiting and not self.console.is_terminal:
            self._say(f"Waiting for {words}")
        self.waiting = words

    def retry(self, name: str, cause: str) -> None:
        line = self.lines[name]
        line.state, line.note = "starting", f"retry after: {cause}"
        self._retried.add(name)
        self._say(f"{name}: {cause}; starting another attempt")

    def fail(self, name: str, cause: str) -> None:
        line = self.lines[name]
        line.state, line.note = "FAILED", cause
        self._say(f"{name}: FAILED: {cause}")

    def tick(self) -> None:
        """Print one line of progress if no table is shown and the last line is old enough."""
        if self.console.is_terminal or time.monotonic() - self._said < LINE_EVERY_SECONDS:
            return
        self._said = time.monotonic()
        running = [f"{n} {line.progress}" for n, line in self.lines.items() if line.state in ("running", "evaluating")]
        self._say(f"{self.headline()}: {', '.join(running) or 'starting'}")

    def headline(self) -> str:
        """Such as "7 of 20 finished, 1 failed, 2:10 so far, about 4:20 left"."""
        states = [line.state for line in self.lines.values()]
        words = [f"{states.count('finished')} of {len(states)} finished"]
        words += [f"{states.count('FAILED')} failed"] * ("FAILED" in states)
        words.append(f"{formats.time(time.monotonic() - self.began)} so far")
        if self.stopping:
            return ", ".join([*words, "stopping"])
        if self.waiting:
            return ", ".join([*words, f"waiting for {self.waiting}"])
        left = self._seconds_left()
        return ", ".join([*words, f"about {formats.time(left)} left"] if left else words)

    def view(self) -> Group:
        """The table, and below it where things are."""
        return Group(self.table(), Text("\n".join(self.where), "dim"))

    def table(self) -> Table:
        """The whole study, one line per trial."""
        table = Table(title=Text(f"{self.plan.folder.name}: {self.headline()}", "bold"), title_justify="left", box=None)
        for name, justify in (("row", "left"), ("seed", "right"), ("", "left")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for name in ("step", *self.task.watched.values(), _labelled(self.headline_metric), "left"):
            table.add_column(name, justify="right")
        table.add_column("", overflow="ellipsis", no_wrap=True)
        for line in self._visible():
            table.add_row(*self._cells(line), style=_style(line.state))
        return table

    def _visible(self) -> list[Line]:
        """All lines if they fit; otherwise as many as fit, running trials first."""
        lines, room = list(self.lines.values()), max(self.console.height - 5 - len(self.where), 5)
        if len(lines) <= room:
            return lines
        order = {"running": 0, "evaluating": 0, "starting": 0, "stopped": 0, "FAILED": 1, "waiting": 2, "finished": 3}
        return sorted(lines, key=lambda line: order[line.state])[:room]

    def _finish(self, line: Line, scores: dict[str, dict[str, Any]]) -> None:
        """The table shows the headline in its column, and the other scores as a note."""
        if line.trained is not None and line.began is not None:
            self._besides.append(time.monotonic() - line.trained + line.began - line.asked)
        line.state, line.step = "finished", line.steps
        line.metrics |= {f"{name}/{metric}": value for name, of in scores.items() for metric, value in of.items()}
        tabled = [metric for metric in self.task.metrics if metric.tabled]
        values = [_score(metric, scores.get(metric.set, {}).get(metric.name)) for metric in tabled]
        labels = [_labelled(metric) if metric.set != tabled[0].set else metric.label for metric in tabled]
        texts = [f"{label} {value}" for label, value in zip(labels, values, strict=True)]
        line.note = ", ".join(texts[1:])
        name, took = line.planned.trial.name, formats.time(time.monotonic() - self.began)
        if not self.console.is_terminal:
            self._say(f"{name}: finished at {took}: {tabled[0].set} {', '.join(texts)}")

    def _cells(self, line: Line) -> list[str]:
        trial, headline = line.planned.trial, self.headline_metric
        watched = [_number(line.metrics.get(name)) for name in self.task.watched]
        score = _score(headline, line.metrics.get(f"{headline.set}/{headline.name}"))
        left = "" if line.seconds_left is None else formats.time(line.seconds_left)
        step = f"{line.step}/{line.steps}" if line.step else ""
        return [escape(trial.row), str(trial.seed), line.state, step, *watched, score, left, escape(line.note)]

    def _say(self, text: str) -> None:
        # a cause may contain text that looks like markup
        self.console.print(escape(text), soft_wrap=True, highlight=False)

    def _seconds_left(self) -> float | None:
        """Extrapolated from the pace of this run's trials and the planned cost of the others."""
        waiting = [self.lines[planned.trial.name] for planned in self.plan.pending]
        efforts = [line.planned.effort * (1 - line.step / line.steps) for line in waiting if line.state == "waiting"]
        return seconds_left([line.ongoing for line in self.lines.values()], efforts, self._overhead())

    def _overhead(self) -> float:
        """Seconds of a finished trial besides its training, on average: its start and its evaluation."""
        return sum(self._besides) / len(self._besides) if self._besides else 0.0


def _safe(planned: PlannedTrial) -> int:
    """The step of the newest complete checkpoint in the journal."""
    reports = unless_damaged(planned.folder.journal, [])
    return max((report.checkpoint or 0 for report in reports), default=0)


def _resumes(name: str, line: Line) -> str:
    if line.state == "evaluating" or (line.state == "stopped" and line.step == line.steps):
        return f"{name} is trained; its evaluation resumes"
    lost = f"; steps {line.safe + 1} to {line.step} are lost" if line.step > line.safe else ""
    return f"{name} resumes from step {line.safe}{lost}"


def _labelled(metric: Metric) -> str:
    return f"{metric.set} {metric.label}"


def _score(metric: Metric, value: float | None) -> str:
    return formats.number(value, metric.places)


def _number(value: float | None) -> str:
    """A watched metric: a loss, or a large rate."""
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def _style(state: str) -> str:
    return {"waiting": "dim", "finished": "green", "FAILED": "bold red"}.get(state, "")
