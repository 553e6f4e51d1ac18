"""The table of the live view: one line per trial, as many as the terminal has room for."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweeps.running.shown_trial import ShownTrial
from sweeps.task import Task
from tracking import formats
from tracking.metrics import Metric

ORDER = {"running": 0, "evaluating": 0, "starting": 0, "FAILED": 1, "stopped": 2, "waiting": 3, "finished": 4}
STYLES = {"waiting": "dim", "finished": "green", "FAILED": "bold red"}


def live_table(trials: Sequence[ShownTrial], task: Task[Any], room: int) -> Table:
    """All trials if ``room`` lines are enough; otherwise running ones first, waiting ones in the order given.

    The note, which comes last, is cut first where the terminal is narrow.
    """
    headline = next(metric for metric in task.metrics if metric.tabled)
    table = Table(box=None)
    for name, justify in (("row", "left"), ("seed", "right"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name in ("step", *task.watched.values(), labelled(headline), "left"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    shown = trials if len(trials) <= room else sorted(trials, key=lambda trial: ORDER[trial.state])[:room]
    for trial in shown:
        table.add_row(*_cells(trial, task, headline), style=STYLES.get(trial.state, ""))
    return table


def labelled(metric: Metric) -> str:
    return f"{metric.set} {metric.label}"


def score(metric: Metric, value: float | None) -> str:
    return formats.number(value, metric.places)


def _cells(trial: ShownTrial, task: Task[Any], headline: Metric) -> list[str | Text]:
    row, seed = trial.planned.trial.row, trial.planned.trial.seed
    watched = [_number(trial.metrics.get(name)) for name in task.watched]
    value = score(headline, trial.metrics.get(f"{headline.set}/{headline.name}"))
    left = "" if trial.seconds_left is None else formats.time(trial.seconds_left)
    step = f"{trial.step}/{trial.steps}" if trial.step else ""
    note = Text(trial.note, no_wrap=True, overflow="ellipsis")
    return [escape(row), str(seed), trial.state, step, *watched, value, left, note]


def _number(value: float | None) -> str:
    """A watched metric: a loss, or a large rate."""
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
