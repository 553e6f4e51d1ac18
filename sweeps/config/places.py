"""Where a value came from: the line of the file that set it, looked up when a refusal is printed."""

from collections.abc import Iterator
from pathlib import Path

from sweeps.config.files import line_of, root_of
from sweeps.config.folders import BASE, CONFIG
from sweeps.config.hydra import Hydra
from sweeps.task import RefusedError

COMMAND_LINE = "command line"


def place_of(key: str, hydra: Hydra, *options: str) -> str | None:
    """file:line of the file whose value of the key counts in this composition; None if none sets it."""
    return next(_lines(key, hydra, options), None)


def place_of_missing(key: str, hydra: Hydra, *options: str) -> str | None:
    """Where a missing key should stand: the line of its group, or the start of the file that is about it."""
    group = key.partition(".")[0]
    files = _files(hydra, options)
    about = next((file for file, package in files if group in (package, file.parent.name)), None)
    file = about or hydra.folders.find(BASE) or hydra.folders.find(CONFIG)
    return next(_lines(group, hydra, options), None) or (f"{hydra.folders.show(file)}:1" if file else None)


def _lines(key: str, hydra: Hydra, options: tuple[str, ...]) -> Iterator[str]:
    for file, package in _files(hydra, options):
        inner = key.removeprefix(f"{package}.") if package else key
        line = line_of(root_of(file), inner) if inner != key or not package else None
        if line:
            yield f"{hydra.folders.show(file)}:{line}"


def _files(hydra: Hydra, options: tuple[str, ...]) -> list[tuple[Path, str]]:
    """The last one first; none if they cannot be composed."""
    try:
        return hydra.files(*options)[::-1]
    except RefusedError:
        return []
