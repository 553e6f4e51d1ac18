"""Whether the program of a command, and its script, are there."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sweeps.command_task.definition import Definition
from sweeps.command_task.template import placeholders
from sweeps.problems import Problem, nearest

SCRIPTS = (".py", ".sh", ".bash", ".pl", ".R", ".jl", ".js", ".lua")
"""Endings of files that the program of a command reads as its own text."""


def program_problems(definition: Definition, here: Path) -> Iterator[Problem]:
    """The problem of a program, and that of a script after it."""
    program, *words = definition.words
    place = definition.place("command")
    if not placeholders(program) and not is_there(program, here, definition.env.get("PATH")):
        fault = f'starts with "{program}", which is no program here'
        allowed = "must start with a program of PATH, or with the path of one that may be executed"
        yield Problem("command", fault, allowed, nearest(program, _programs(program)), place)
    script = next((word for word in words if not word.startswith("-")), "")
    is_script = script.endswith(SCRIPTS) and not placeholders(script)
    if is_script and words[0] == script and not (here / script).is_file():
        names = [path.name for path in here.glob(f"*{Path(script).suffix}")]
        fault = f"names {script}, which is not there"
        allowed = f"must be a file, relative to {here}"
        yield Problem("command", fault, allowed, nearest(script, names), place)


def is_there(program: str, here: Path, typed_path: str | None) -> bool:
    """Whether it may be executed. ``typed_path`` is the PATH of the file, if it has one."""
    if os.sep in program:
        path = here / program
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(program, path=typed_path or search_path()) is not None


def search_path() -> str:
    """PATH, and then the folder of this Python: where no other one is there, ``python`` is this
    one."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def _programs(program: str) -> list[str]:
    """The programs of PATH that begin with the same letter."""
    names: list[str] = []
    for folder in os.get_exec_path():
        if Path(folder).is_dir():
            names += [path.name for path in Path(folder).glob(f"{program[:1]}*")]
    return names
