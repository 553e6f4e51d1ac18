"""How a command may end, and the errors with which its trial then fails."""

import re
import signal
from collections.abc import Mapping, Sequence

from sweeps.command_task.definition import WrittenMetric
from sweeps.command_task.trial.process import CommandProcess
from sweeps.problems import nearest

MAY_BE_MEMORY = "perhaps because the machine ran out of memory"
OUT_EXISTS = re.compile(r"FileExistsError: .*/out'")
MAKES_OUT = "{out} is there when the command starts; to let it make a folder, write {out}/run"

NO_OUT = "on standard output; its command has no {out}, so its files aren't read"


class CommandError(RuntimeError):
    """The command failed. The message has the last lines that it printed."""


class TimedOutError(Exception):
    """The command ran for longer than ``timeout``."""


def unless_failed(process: CommandProcess, program: str, lines: Sequence[str]) -> None:
    """Raises CommandError unless the command has ended with code 0."""
    if process.code == 0:
        return
    if process.code is None:
        fault = f"{program} has no result: {process.fault}"
    elif process.code > 0:
        fault = f"{program} exited with code {process.code}"
    else:
        fault = f"{program} was ended by {_signal_name(-process.code)}"
        if process.code == -signal.SIGKILL:
            fault += f", {MAY_BE_MEMORY}"
    raise CommandError(with_lines(fault, lines))


def timed_out(program: str, seconds: float, lines: Sequence[str]) -> TimedOutError:
    return TimedOutError(
        with_lines(f"{program} ran for longer than {seconds:g} s (timeout)", lines)
    )


def with_lines(fault: str, lines: Sequence[str]) -> str:
    """The fault with the last line on the same line, and all lines below."""
    if not lines:
        return f"{fault}, and printed nothing"
    shown = "\n".join(f"  {line}" for line in lines)
    hint = hint_of(lines)
    cause = f"{lines[-1].strip()} ({hint})" if hint else lines[-1].strip()
    return f"{fault}: {cause}\nIts last lines:\n{shown}"


def hint_of(lines: Sequence[str]) -> str:
    """What helps a command with these last lines; "" if they don't tell."""
    return MAKES_OUT if lines and OUT_EXISTS.search(lines[-1]) else ""


def without_metric(
    written: WrittenMetric, names: Mapping[str, str], takes_out: bool
) -> CommandError:
    """The error of a command that ended well, but wrote no point for a metric of the table.

    ``names`` has the source of each point that it wrote. ``takes_out``: whether it has ``{out}``.
    """
    origin = f" in {written.source}" if written.source else ""
    fault = f"the command wrote no {written.point}{origin}, which gives {written.metric.name}"
    if not names:
        place = "below {out} or on standard output" if takes_out else NO_OUT
        return CommandError(f"{fault}; it wrote no metric {place}")
    similar = nearest(written.point, names)
    hint = f" (did you mean {similar}?)" if similar else ""
    listed = ", ".join(f"{name} in {source}" for name, source in sorted(names.items()))
    return CommandError(f"{fault}{hint}; it wrote {listed}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
