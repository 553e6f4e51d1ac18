"""The verb that begins a task of one's own: ``init``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sweeps.commands.guarded import guarded
from sweeps.console import OUT, next_verb

Name = Annotated[str, typer.Argument(metavar="NAME", help="The task's name, and that of its Python module.")]


@guarded
def init(name: Name) -> None:
    """Write a task of your own to start from: a Python file, base values and two rows."""
    from sweeps.starter.new_task import create

    for path in create(name, Path.cwd()):
        OUT.print(f"Wrote {escape(str(path))}", soft_wrap=True)
    next_verb("plan", [f"task={name}"])
