"""What ``probe --resume`` prints: whether every metric is the same after a resume, and if not,
which differ first and where."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweeps.console import OUT, next_command
from sweeps.verbs.probe.resume import Difference, NotComparableError, Resumption
from tracking.words import listed, plural

MOST = 10
REASONS = (
    "To resume exactly, a training loop restores all of these: weights, optimizer, schedule,",
    "the random states of Python, numpy and torch, and the place in the data.",
)


def show_resumption(name: str, resumption: Resumption) -> None:
    OUT.print(
        f"{name} ran {resumption.steps} steps; once more it was killed after step "
        f"{resumption.killed_at} and resumed from {escape(resumption.checkpoint)}.",
        soft_wrap=True,
    )
    for line in _verdict(resumption):
        OUT.print(Text(line), soft_wrap=True)
    if resumption.differences:
        OUT.print()
        OUT.print(_table(resumption.differences))
        OUT.print()
        for line in REASONS:
            OUT.print(line, style="dim")
    if not resumption.is_equal and resumption.compared:
        OUT.print(
            "Until you mend it, a note below the table names the rows with resumed trials.",
            style="dim",
        )
    next_command(f"allelse plan task={name}")


def show_fault(name: str, error: NotComparableError) -> None:
    OUT.print(f"{name} can't be compared: {escape(str(error))}.", soft_wrap=True)
    for line in error.lines:
        OUT.print(f"  {escape(line)}", style="dim", soft_wrap=True)


def as_json(name: str, resumption: Resumption) -> dict[str, Any]:
    return {
        "task": name,
        "is_equal": resumption.is_equal,
        "begins_again": resumption.begins_again,
        **{
            key: getattr(resumption, key)
            for key in ("steps", "killed_at", "checkpoint", "compared", "metrics")
        },
        "differences": [vars(difference) for difference in resumption.differences],
        "unsteady": [vars(difference) for difference in resumption.unsteady],
    }


def _verdict(resumption: Resumption) -> Iterator[str]:
    if resumption.unsteady:
        names = listed([difference.name for difference in resumption.unsteady])
        step = min(difference.step for difference in resumption.unsteady)
        yield (
            f"Before the kill the two runs already differ, first at step {step}: {names}. "
            "These can't show whether it resumes exactly."
        )
    metrics = resumption.metrics
    values = f"{resumption.compared} values of {metrics} {plural('metric', metrics)}"
    if resumption.begins_again:
        yield (
            "The resumed run began again with the first step, so it does not resume. "
            "Does the command load what {resume} names?"
        )
    elif resumption.is_equal:
        yield f"It resumes exactly: {values} after the resume are the same."
    elif not resumption.compared:
        yield "No value after the resume could be compared."
    else:
        yield (f"It does not resume exactly. First, {resumption.first} ({values} compared).")


def _table(differences: Sequence[Difference]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("metric", "source"):
        table.add_column(name, overflow="fold")
    for name in ("differs first at step", "whole run", "resumed"):
        table.add_column(name, justify="right")
    for difference in differences[:MOST]:
        table.add_row(
            escape(difference.name),
            escape(difference.source),
            str(difference.step),
            _text(difference.whole),
            _text(difference.resumed),
        )
    return table


def _text(value: float | None) -> str:
    return "missing" if value is None else f"{value:.9g}"
