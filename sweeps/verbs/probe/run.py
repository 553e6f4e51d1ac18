"""Runs a command in its workspace, watches what it writes, and ends it."""

import os
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from sweeps.command_task.programs import search_path
from sweeps.command_task.trial.process import CommandProcess, Start
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.probe.workspace import Workspace
from tracking.written.environment import environment
from tracking.written.point import WrittenPoint
from tracking.written.watch import WrittenMetrics

LOOK_S = 0.2
"""Between two looks at what the command has written. Its end is seen at once."""
GRACE_S = 10.0
"""From SIGTERM to SIGKILL."""
LAST_LINES = 10


@dataclass(frozen=True)
class Ran:
    """How long a command ran, what it wrote, and how it ended: ``code`` is negative for a signal.

    ``loose_points``: from files below its current folder rather than {out}. ``changed_files``: the
    user's own, which its folder links to.
    """

    seconds: float
    code: int
    was_ended: bool
    points: Sequence[WrittenPoint]
    loose_points: Sequence[WrittenPoint]
    notices: Sequence[str]
    lines: Sequence[str]
    files: Sequence[str]
    changed_files: Sequence[str] = ()


@dataclass
class Watch:
    """The two folders that a command may write to."""

    workspace: Workspace
    points: list[WrittenPoint] = field(default_factory=list)
    loose_points: list[WrittenPoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metrics = WrittenMetrics(self.workspace.out, self.workspace.output)
        self._loose_metrics = WrittenMetrics(self.workspace.work, self.workspace.work / "stdout")

    def look(self) -> None:
        self.points += self.metrics.poll()
        self.loose_points += self._loose_metrics.poll()

    def look_at_rest(self) -> None:
        """Of a command that has ended well."""
        self.points += self.metrics.rest()
        self.loose_points += self._loose_metrics.rest()


def started(words: Sequence[str], env: Mapping[str, str], workspace: Workspace) -> CommandProcess:
    """The command's process. `refuse_unless_started` says whether there is such a program."""
    variables = {**os.environ, "PATH": search_path(), **environment(workspace.out), **env}
    start = Start(words, variables, workspace.output, GRACE_S, str(workspace.out))
    with chdir(workspace.work):
        return CommandProcess(start)


def run(words: Sequence[str], env: Mapping[str, str], workspace: Workspace, seconds: float) -> Ran:
    """Run the command until it ends, or for so many seconds. Then stop it, and every process that
    it started.

    Raises RefusedError if it can't be started.
    """
    watch = Watch(workspace)
    begin = monotonic()
    was_ended = False
    with started(words, env, workspace) as process:
        while not process.has_ended:
            process.wait(LOOK_S)
            watch.look()
            if not was_ended and monotonic() - begin > seconds:
                process.end_gently()
                was_ended = True
    elapsed = monotonic() - begin
    refuse_unless_started(process, words)
    code = 0 if process.code is None else process.code
    if code == 0:
        watch.look_at_rest()
    else:
        watch.look()
    return Ran(
        elapsed,
        code,
        was_ended,
        watch.points,
        watch.loose_points,
        watch.metrics.notices,
        _lines(workspace.output),
        [*_files(workspace.out), *_files(workspace.work)],
        workspace.changed_files(),
    )


def refuse_unless_started(process: CommandProcess, words: Sequence[str]) -> None:
    if process.fault:
        fault = f"starts with {words[0]}, which can't be started: {process.fault}"
        allowed = "must start with a program of PATH, or with the path of one that may be executed"
        raise RefusedError([Problem("COMMAND", fault, allowed)])


def _lines(output: Path) -> list[str]:
    """The last lines of a command that are not empty."""
    content = output.read_bytes()[-(1 << 16) :].decode("utf-8", "replace")
    return [line.rstrip() for line in content.splitlines() if line.strip()][-LAST_LINES:]


def _files(folder: Path) -> list[str]:
    """What a command wrote there: links are the user's own files."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(path.relative_to(folder).as_posix() for path in files)
