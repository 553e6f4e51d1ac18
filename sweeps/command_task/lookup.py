"""Finds the commands that a folder defines: ``conf/task/NAME.yaml`` with a key of a command."""

import re
from functools import lru_cache
from pathlib import Path

from sweeps.command_task.command_task import CommandTask, task_of
from sweeps.command_task.definition import FIELDS
from sweeps.command_task.reading import read_definition

FOLDER = Path("conf", "task")
DEFINES_COMMAND = re.compile(rf"^({'|'.join(FIELDS)})[ \t]*:", re.MULTILINE)
"""Any key will do: a file without ``command`` is refused, and not passed over."""
NAME = re.compile(r"[A-Za-z]\w*")


def command_file(name: str, here: Path) -> Path | None:
    """The file that defines the command with this name, relative to ``here``; None without one."""
    if not NAME.fullmatch(name):
        return None
    path = FOLDER / f"{name}.yaml"
    return path if _defines_command(here / path) else None


def command_names(here: Path) -> list[str]:
    """The names of all commands that the folder defines."""
    files = sorted((here / FOLDER).glob("[!.]*.yaml"))
    return [file.stem for file in files if command_file(file.stem, here)]


def command_task(name: str, here: Path) -> CommandTask | None:
    """The task of the command with this name; None without one. Raises RefusedError."""
    path = command_file(name, here)
    if path is None:
        return None
    return _read(name, here, path, (here / path).read_bytes())


@lru_cache
def _read(name: str, here: Path, path: Path, content: bytes) -> CommandTask:
    """The same task as long as the content of its file is the same."""
    return task_of(read_definition(name, here / path, str(path)), here)


def _defines_command(file: Path) -> bool:
    return file.is_file() and bool(DEFINES_COMMAND.search(file.read_text("utf-8-sig", "replace")))
