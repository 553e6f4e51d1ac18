"""The files of a new task, made from a template that is a task itself."""

import keyword
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from sweeps.config.tasks import ENTRY_POINTS, OURS
from sweeps.task import Problem, RefusedError

TEMPLATE = Path(__file__).parent / "template"
STARTER = "starter"
"""The template's own name, in its text and in the names of its files."""
LONGEST_MODULE = 50


def create(name: str, here: Path) -> list[Path]:
    """Write the files, and return their paths relative to ``here``. Raises RefusedError before the first is written."""
    if problems := [*_name_problems(name, here)] or [*_place_problems(name, here)]:
        raise RefusedError(problems)
    written: list[Path] = []
    try:
        for path, text in _texts(name).items():
            (here / path).parent.mkdir(parents=True, exist_ok=True)
            with (here / path).open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError:
        for path in written:
            (here / path).unlink()
        raise
    return written


def _texts(name: str) -> dict[Path, str]:
    """The content of each new file by its relative path: the module, base, the rows."""
    files = [path for path in TEMPLATE.rglob("*") if path.suffix in (".py", ".yaml")]
    files.sort(key=lambda path: (len(path.parts), path))
    return {
        Path(str(path.relative_to(TEMPLATE)).replace(STARTER, name)): path.read_text("utf-8").replace(STARTER, name)
        for path in files
    }


def _name_problems(name: str, here: Path) -> Iterator[Problem]:
    if fault := _fault(name, here):
        found, allowed = fault
        yield Problem("NAME", f'is "{name}"{found}', allowed)


def _fault(name: str, here: Path) -> tuple[str, str] | None:
    """What is wrong with the name, and what is allowed."""
    allowed = "must be a module name: letters, digits and _, with a letter first"
    if keyword.iskeyword(name):
        return ", a keyword of Python", allowed
    if not (name.isidentifier() and name[0].isalpha()):
        return "", allowed
    if len(name) > LONGEST_MODULE:
        return f", which has {len(name)} letters", f"must have at most {LONGEST_MODULE} letters"
    if name in OURS or entry_points(group=ENTRY_POINTS, name=name):
        return ", an installed task", "must be a new name"
    if _is_installed(name, here):
        return f", an installed module, which {name}.py would shadow", "must be a new name"
    return None


def _is_installed(name: str, here: Path) -> bool:
    """Whether an import finds the name outside of the current folder."""
    elsewhere = [place for place in sys.path if os.path.realpath(place) != os.path.realpath(here)]
    return name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere) is not None


def _place_problems(name: str, here: Path) -> Iterator[Problem]:
    """What lies where the files will be, and what an import would find instead of them."""
    if os.path.lexists(here / name / "__init__.py"):
        yield Problem("NAME", f'is "{name}", but the package {name}/ is here', "must be a new name")
    for folder in ("", "conf", "conf/task"):
        if os.path.lexists(here / folder) and not (here / folder).is_dir():
            yield Problem(folder, "is not a folder", "rename it, or work in another folder")
        elif (here / folder).is_dir() and not os.access(here / folder, os.W_OK | os.X_OK):
            yield Problem(folder or str(here), "cannot be written to", "change its permissions, or use another folder")
    for path in (f"{name}.py", f"conf/task/{name}"):
        if os.path.lexists(here / path):
            yield Problem(path, "exists", "choose another name, or work in another folder")
