"""The files of a command that count as its code, besides Python's: its definition, and the scripts
and settings that it names."""

from pathlib import Path

from sweeps.command_task.lookup import command_file, command_task
from sweeps.command_task.programs import SCRIPTS
from sweeps.command_task.template import placeholders
from sweeps.problems import RefusedError

ENDINGS = (*SCRIPTS, ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini")
LARGEST = 1 << 16  # bytes of such a file; longer ones hold data


def command_files(name: str, here: Path) -> dict[str, bytes]:
    """Their contents by their path in the folder. {} if the name is not that of a command."""
    path = command_file(name, here)
    if path is None:
        return {}
    contents = {path.as_posix(): (here / path).read_bytes()}
    for word in _words(name, here):
        file = here / word
        if _is_text(file) and file.is_relative_to(here) and ".." not in file.parts:
            contents[file.relative_to(here).as_posix()] = file.read_bytes()
    return contents


def _words(name: str, here: Path) -> list[str]:
    """The words of the command that may name files, such as ``train.sh`` and ``--config=a.json``."""
    try:
        task = command_task(name, here)
    except RefusedError:  # reported when the task is used
        return []
    if task is None or task.definition is None:
        return []
    words = [word.rpartition("=")[2] for word in task.definition.words]
    return [word for word in words if word.endswith(ENDINGS) and not placeholders(word)]


def _is_text(file: Path) -> bool:
    """Whether it is a small file of text."""
    try:
        if not file.is_file() or file.stat().st_size > LARGEST:
            return False
        file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True
