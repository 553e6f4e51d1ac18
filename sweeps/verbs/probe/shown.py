"""What ``probe`` prints: how the command ended, its metrics, and what to do next."""

import math
from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sweeps.command_task.lookup import FOLDER
from sweeps.command_task.trial.ends import hint_of
from sweeps.console import OUT, next_command
from sweeps.verbs.probe.listing import ListedMetric, by_name
from sweeps.verbs.probe.pasted import UNDECIDED, pasted
from sweeps.verbs.probe.run import Ran
from tracking.shell import shell_line
from tracking.words import plural

MOST_NAMES = 8
DIRECTIONS = {"up": "up (guessed)", "down": "down (guessed)", None: "?"}
SOUGHT = (
    ("in files below {out}", "JSON lines, csv, TensorBoard's events, trainer_state.json, MLflow"),
    ("on standard output", 'such as  step 100 loss: 0.5   loss=0.5   {"step": 100, "loss": 0.5}'),
)
REPORT = (
    "from allelse import report",
    "",
    "report(step=step, loss=loss, accuracy=accuracy)",
)


def show(
    words: Sequence[str], ran: Ran, metrics: Sequence[ListedMetric], names: Sequence[str]
) -> None:
    """``names``: the commands' tasks to whose files the metrics may belong."""
    OUT.print(escape(ending(words, ran)), soft_wrap=True)
    has_failed = ran.code != 0 and not ran.was_ended
    if has_failed:
        _show_lines(ran.lines)
        hint = hint_of(ran.lines)
        if hint:
            OUT.print(f"\n{hint}.", soft_wrap=True)
    changing = [metric for metric in metrics if not metric.is_constant]
    if changing:
        OUT.print()
        OUT.print(_table(changing))
    for remark in _remarks(ran, metrics):
        OUT.print()
        OUT.print(Text(remark), soft_wrap=True)
    block = pasted(metrics)
    if block:
        _show_block(block, words, names)
    elif has_failed:
        OUT.print("\nIt wrote no metric. Fix the command first, until it runs as you typed it.")
    elif not changing:
        _show_nothing(ran)


def ending(words: Sequence[str], ran: Ran) -> str:
    """Such as "python train.py ran for 60 s and was then ended"."""
    command = shell_line(words)
    duration = f"{ran.seconds:.0f} s" if ran.seconds >= 1 else "less than 1 s"
    if ran.was_ended:
        return f"{command} ran for {duration} and was then ended."
    if ran.code:
        end = f"with code {ran.code}" if ran.code > 0 else f"by signal {-ran.code}"
        return f"{command} failed after {duration}, {end}. Its last lines:"
    return f"{command} ended after {duration}."


def _table(metrics: Sequence[ListedMetric]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("metric", "source"):
        table.add_column(name, overflow="fold")
    for name in ("points", "last value"):
        table.add_column(name, justify="right")
    table.add_column("steps")
    table.add_column("better")
    for sources in by_name(metrics):
        metric = sources[0]
        style = "bold" if metric.is_result else "dim"
        table.add_row(
            f"[{style}]{escape(metric.name)}[/]",
            escape(_sources(sources)),
            str(metric.points),
            f"{metric.last:.6g}",
            _steps(metric),
            DIRECTIONS[metric.better],
        )
    return table


def _sources(metrics: Sequence[ListedMetric]) -> str:
    """Such as "metrics.csv, also stdout"."""
    first, *others = [
        f"{metric.source} (current folder)" if metric.is_loose else metric.source
        for metric in metrics
    ]
    return f"{first}, also {', '.join(others)}" if others else first


def _steps(metric: ListedMetric) -> str:
    if metric.steps is None:
        return "none"
    first, last = metric.steps
    return str(first) if first == last else f"{first} to {last}"


def _remarks(ran: Ran, metrics: Sequence[ListedMetric]) -> Iterator[str]:
    loose = sorted({metric.source for metric in metrics if metric.is_loose})
    if loose:
        yield (
            f"{', '.join(loose)}: written to the current folder, which all trials share, so it can't "
            "be read there. If the command has a flag for its output folder, type it: it becomes "
            "{out}. Otherwise print the metrics, or use `from allelse import report`."
        )
    constant = [f"{metric.name} {metric.last:.6g}" for metric in metrics if metric.is_constant]
    if constant:
        yield f"Constant so far: {_some_of(list(dict.fromkeys(constant)))}."
    infinite = [metric.name for metric in metrics if not math.isfinite(metric.last)]
    if infinite:
        yield f"Not finite at the end: {', '.join(infinite)}."
    if ran.changed_files:
        yield (
            f"Changed while it ran: {_some_of(ran.changed_files)}. Its folder links to these. "
            "If the command has a flag for its output folder, type it."
        )
    for notice in ran.notices:
        yield f"Not read: {notice}."


def _show_block(block: str, words: Sequence[str], names: Sequence[str]) -> None:
    name = names[0] if len(names) == 1 else "NAME"
    file = (FOLDER / f"{name}.yaml").as_posix()
    origin = "" if names else ", which the command below writes"
    OUT.print(f"\nFor [bold]{escape(file)}[/]{origin}. Keep what your table should show:\n")
    OUT.print(Text(block), soft_wrap=True)
    if UNDECIDED in block:
        OUT.print("Where it says `up or down?`, you decide which is better.", style="dim")
    if names:
        next_command(f"allelse plan task={name}")
    else:
        next_command(f"allelse init NAME -- {shell_line(words)}")


def _show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        OUT.print(f"  {escape(line)}", style="dim", soft_wrap=True)


def _show_nothing(ran: Ran) -> None:
    OUT.print("\n[bold]No metric was found.[/] Looked for:")
    for origin, forms in SOUGHT:
        OUT.print(Text(f"  {origin}: {forms}"), soft_wrap=True)
    written = len(ran.files)
    OUT.print(f"It wrote {written} {plural('file', written)}{_names(ran.files)}", soft_wrap=True)
    if ran.lines and not ran.code:
        OUT.print("Its last lines:")
        _show_lines(ran.lines)
    OUT.print("\nWhat helps:")
    if ran.was_ended:
        OUT.print("  - more time, if it writes metrics late: --seconds 600")
    OUT.print("  - a line like one of those above, printed by the command")
    OUT.print("  - these two lines in a training program in Python:\n")
    for line in REPORT:
        OUT.print(f"      {line}")


def _names(files: Sequence[str]) -> str:
    return f": {_some_of(files)}." if files else "."


def _some_of(names: Sequence[str]) -> str:
    visible = ", ".join(names[:MOST_NAMES])
    surplus = len(names) - MOST_NAMES
    return f"{visible} and {surplus} more" if surplus > 0 else visible
